"""What `recap check` finds."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One result: what was found, where, how to fix it (empty for `ok`)."""

    level: Level
    where: str
    what: str
    fix: str = ""


def ok(where: object, what: str) -> Finding:
    """Nothing to do."""
    return Finding("ok", str(where), what)


def warning(where: object, what: str, fix: str) -> Finding:
    """Works, but not well."""
    return Finding("warning", str(where), what, fix)


def error(where: object, what: str, fix: str) -> Finding:
    """Would fail."""
    return Finding("error", str(where), what, fix)
