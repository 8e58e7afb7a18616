"""Write many files, all or none."""

import os
import tempfile
from pathlib import Path

from rlinf_npu.npufix.model import NpufixError


def write_all(root: Path, texts: dict[str, str]) -> None:
    """Write all files or none: temporary files first, then renames; a failure puts the old content back.

    Raises:
        NpufixError: a file could not be written; the tree is as before.
    """
    staged: list[tuple[Path, Path]] = []
    old: list[tuple[Path, bytes | None]] = []
    try:
        for path, text in texts.items():
            target = root / path
            staged.append((_stage(target, text), target))
        for temporary, target in staged:
            old.append((target, target.read_bytes() if target.exists() else None))
            temporary.replace(target)
    except BaseException as error:
        for target, content in reversed(old):
            _restore(target, content)
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise NpufixError(
                f"cannot write {error.filename or root}: {error.strerror}; the tree is unchanged"
            ) from error
        raise


def _stage(target: Path, text: str) -> Path:
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o644
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".npufix", dir=target.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
        stream.write(text)
    Path(name).chmod(mode)
    return Path(name)


def _restore(target: Path, content: bytes | None) -> None:
    if content is None:
        target.unlink(missing_ok=True)
    else:
        target.write_bytes(content)
