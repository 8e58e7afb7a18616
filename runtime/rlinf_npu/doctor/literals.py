"""Texts without which a regular expression cannot match: a quick search for them spares a log the slow one."""

import re

_SHORTEST = 3
_ESCAPES = set("dDwWsSbBAZ0123456789")  # classes, assertions and references; any other escape is the character itself


def necessary(pattern: str) -> frozenset[str] | None:
    """Lower-case literals of which one is in every text that `pattern` matches; None when that cannot be told.

    Of each alternative the longest run of plain characters outside of groups is taken.
    """
    longest = [max(_runs(alternative), key=len, default="") for alternative in _alternatives(pattern)]
    return frozenset(longest) if all(len(run) >= _SHORTEST for run in longest) else None


def _parts(pattern: str) -> list[str]:
    """Characters, escapes (two characters) and character classes (whole)."""
    return re.findall(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", pattern, re.DOTALL)


def _alternatives(pattern: str) -> list[list[str]]:
    """The parts of each alternative; a group in them is reduced to one part `()`."""
    found: list[list[str]] = [[]]
    depth = 0
    for part in _parts(pattern):
        if part == "(":
            depth += 1
        elif part == ")":
            depth -= 1
            if depth == 0:
                found[-1].append("()")
        elif depth == 0 and part == "|":
            found.append([])
        elif depth == 0:
            found[-1].append(part)
    return found


def _runs(parts: list[str]) -> list[str]:
    """Runs of plain characters; one that may be absent (a? a* a{0,3}) ends the run before it."""
    runs, counting = [""], False
    for part in parts:
        if counting or part in "?*{":
            if part in "?*{" and not counting:
                runs[-1] = runs[-1][:-1]
                runs.append("")
            counting = part != "}" and (counting or part == "{")
        elif part == "+":
            runs.append("")
        elif _plain(part):
            runs[-1] += part[-1].lower()
        else:
            runs.append("")
    return runs


def _plain(part: str) -> bool:
    if len(part) == 2 and part[0] == "\\":
        return part[1] not in _ESCAPES
    return len(part) == 1 and part not in "^$.()[]|"
