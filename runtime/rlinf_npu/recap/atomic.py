"""Files that are either whole or absent: written beside their place, then renamed."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Give a temporary path in the same folder; on success it becomes `path`, on an error it vanishes.

    The name starts with a dot and does not end in the real suffix, so that no reader takes it for the real file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as handle:
            os.fsync(handle.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with beside(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, indented, keys in the given order."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def copy_file(source: Path, target: Path) -> None:
    """Copy a file atomically."""
    with beside(target) as part:
        shutil.copyfile(source, part)
