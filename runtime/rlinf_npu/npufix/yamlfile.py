"""Find scalars in YAML files and change them in their own line (ruamel.yaml tells where they are)."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import Line, NpufixError


@dataclass(frozen=True)
class Scalar:
    """A text value: keys that lead to it, line from 1, column from 0 of its first character (quote included)."""

    keys: tuple[Any, ...]
    value: str
    line: int
    column: int


def load(text: str) -> Any:
    """Parse the only document of a YAML text.

    Raises:
        YAMLError: not valid YAML.
    """
    return YAML(typ="rt").load(io.StringIO(text))


@lru_cache(maxsize=4)
def scalars(text: str) -> tuple[Scalar, ...]:
    """Every text value of a document; nothing for a file that is not plain YAML (templates)."""
    try:
        document = load(text)
    except YAMLError:
        return ()
    return tuple(_below(document, ()))


def _below(node: Any, keys: tuple[Any, ...]) -> Iterator[Scalar]:
    if isinstance(node, CommentedMap):
        places = {key: node.lc.value(key) for key in node if key in (node.lc.data or {})}  # merged keys have no place
        items = [(key, node[key]) for key in places]
    elif isinstance(node, CommentedSeq):
        places = {index: node.lc.item(index) for index in range(len(node))}
        items = list(enumerate(node))
    else:
        return
    for key, value in items:
        if isinstance(value, str):
            line, column = places[key]
            yield Scalar((*keys, key), str(value), line + 1, column)
        else:
            yield from _below(value, (*keys, key))


def changed_line(path: str, text: str, scalar: Scalar, new: str) -> Line:
    """The scalar's line with `new` in place of its value, quotes and comment kept.

    Raises:
        NpufixError: the value does not stand literally in that line (an anchor, a folded text).
    """
    line = split_lines(text)[scalar.line - 1]
    for quote in ('"', "'", ""):
        old = f"{quote}{scalar.value}{quote}"
        if line.startswith(old, scalar.column):
            put = new if new == "null" else f"{quote}{new}{quote}"
            return Line(scalar.line, line[: scalar.column] + put + line[scalar.column + len(old) :])
    raise NpufixError(f"{path}:{scalar.line}: {scalar.value!r} is not written plainly there; change it by hand")


def check(path: str, before: str, after: str, changed: Sequence[Line]) -> None:
    """Make sure that a changed text is still YAML and says the same in all other lines.

    Raises:
        NpufixError: it does not.
    """
    try:
        load(after)
    except YAMLError as error:
        raise NpufixError(f"{path}: the fixed file would not be valid YAML ({error}); nothing was written") from error
    numbers = {line.number for line in changed}
    if _others(before, numbers) != _others(after, numbers):
        raise NpufixError(f"{path}: the fixed file would say something else in other lines; nothing was written")


def _others(text: str, numbers: set[int]) -> list[Scalar]:
    return [scalar for scalar in scalars(text) if scalar.line not in numbers]
