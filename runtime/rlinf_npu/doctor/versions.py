"""Version numbers as driver, CANN and Docker write them, and the files they stand in."""

import re
from collections.abc import Sequence
from typing import Any

from rlinf_npu.doctor.factsview import CannRow

Key = tuple[tuple[int, int], ...]


def key(version: str) -> Key:
    """A sortable key: 25.3.rc1 < 25.3.rc1.2 < 25.3.0 < 25.5.0; letters other than rc are ignored."""
    parts: list[tuple[int, int]] = []
    for part in version.strip().lstrip("vV").lower().split("."):
        match = re.match(r"(rc)?(\d+)", part)
        if match:
            parts.append((0 if match[1] else 1, int(match[2])))
    return tuple(parts)


def at_least(version: str, minimum: str) -> bool:
    """Whether a version is the minimum or newer."""
    return key(version) >= key(minimum)


def info_file(text: str) -> dict[str, str]:
    """The key=value lines of a version.info or install.info file; keys in lower case."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.lstrip().startswith("#"))
    return {name.strip().lower(): value.strip() for name, value in pairs}


def cann_row(cann: str, rows: Sequence[CannRow]) -> CannRow | None:
    """The row of the compatibility table for a CANN release: its own, else that of its series (9.0 for 9.0.1)."""
    wanted = cann.lower()
    exact = [row for row in rows if row.cann.lower() == wanted]
    series = [row for row in rows if wanted.startswith(row.cann.lower() + ".")]
    return next(iter(exact + series), None)


def public(version: str) -> str:
    """A Python version without its local part: 2.6.0+cpu -> 2.6.0."""
    return version.partition("+")[0]


def first_version(text: str) -> str | None:
    """The first thing in `text` that looks like a version."""
    match = re.search(r"\d+(\.\w+)+", text)
    return match[0] if match else None


def firmware_range(info: dict[str, str]) -> tuple[str, str] | None:
    """Oldest and newest firmware a driver accepts (compatible_version_fw=[7.0.0,7.7.99])."""
    match = re.match(r"\[\s*([\d.]+)\s*,\s*([\d.]+)\s*\]", info.get("compatible_version_fw", ""))
    return (match[1], match[2]) if match else None


def of_distributions(names: list[str]) -> dict[str, str]:
    """name -> version from the folder names of *.dist-info (names in lower case with _)."""
    found: dict[str, Any] = {}
    for name in names:
        match = re.match(r"(.+)-([^-]+)\.dist-info$", name)
        if match:
            found[match[1].lower().replace("-", "_")] = match[2]
    return found
