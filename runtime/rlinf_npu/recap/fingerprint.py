"""Short digests of inputs: enough to notice a change, cheap enough for terabytes."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WHOLE = 1 << 16  # files up to this size are hashed completely
EDGE = 1 << 14  # of larger ones the first and last bytes; parquet, safetensors and zip keep their tables there


def file_digest(path: Path) -> str:
    """Digest of a file: its size and content, of large files only both ends."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as handle:
        if size <= WHOLE:
            digest.update(handle.read())
        else:
            digest.update(handle.read(EDGE))
            handle.seek(-EDGE, 2)
            digest.update(handle.read(EDGE))
    return digest.hexdigest()[:16]


def files_digest(root: Path, files: Iterable[Path]) -> str:
    """Digest over names (relative to `root`) and contents, in sorted order."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.relative_to(root)}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()[:16]


def tree_digest(root: Path, patterns: tuple[str, ...] = ("**/*",)) -> str:
    """Digest of the files below `root` that match one of the patterns; `absent` where there is no such folder."""
    if not root.exists():
        return "absent"
    found = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    return files_digest(root, found)


def value_digest(value: Any) -> str:
    """Digest of a plain value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Turn nested mappings and lists into `a.b.0: value`, so that a change can be named."""
    if isinstance(value, dict):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return {prefix: value if isinstance(value, str | int | float | bool | None) else str(value)}
    flat: dict[str, Any] = {}
    for key, item in items:
        flat.update(flatten(item, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Name what differs, one line each."""
    lines = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            lines.append(f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}")
    return lines
