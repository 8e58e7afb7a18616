"""A narrow editor for shell scripts: whole lines outside of comments and here-documents, nothing else."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rlinf_npu.npufix.lines import split_lines

HERE_DOCUMENT = re.compile(r"<<(-?)\s*(['\"]?)(\w+)\2")


@dataclass(frozen=True)
class Command:
    """One logical line: backslash continuations joined. `number` and `last` are its physical lines, from 1."""

    number: int
    last: int
    text: str


def commands(text: str) -> Iterator[Command]:
    """Logical lines of a script that are neither empty, nor comments, nor inside a here-document."""
    closing: str | None = None
    strip_tabs = False
    start = 0
    parts: list[str] = []
    for number, line in enumerate(split_lines(text), start=1):
        if closing is not None:
            if (line.lstrip("\t") if strip_tabs else line) == closing:
                closing = None
            continue
        if not parts and (not line.strip() or line.lstrip().startswith("#")):
            continue
        start = start if parts else number
        if line.endswith("\\"):
            parts.append(line[:-1])
            continue
        parts.append(line)
        yield Command(start, number, "".join(parts))
        here = HERE_DOCUMENT.search(line)
        if here and "<<<" not in line:
            strip_tabs, closing = here.group(1) == "-", here.group(3)
        parts = []


def indentation(line: str) -> str:
    """Leading white space."""
    return line[: len(line) - len(line.lstrip())]
