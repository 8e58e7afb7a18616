"""Files that are derived from others."""

from pathlib import Path


def write_changed(path: Path, text: str) -> None:
    """Write `text` unless the file says so already: an unchanged one keeps its time, and with it caches. Never half."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)
