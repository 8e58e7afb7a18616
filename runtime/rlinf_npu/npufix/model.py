"""The words of npufix: positions, edits, sites, uses, fixes."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rlinf_npu.npufix.pyfile import PyFile
    from rlinf_npu.npufix.tree import Tree

HELPER_MODULE = "rlinf.utils.npu_compat"
HELPER_PATH = "rlinf/utils/npu_compat.py"


class NpufixError(Exception):
    """Something npufix cannot do; the text is one line for the user."""


class UsageError(NpufixError):
    """The command was given something it cannot work on (exit code 2)."""


@dataclass(frozen=True, order=True)
class Span:
    """A range of source text: lines from 1, columns from 0 in characters, end exclusive (LibCST's convention)."""

    line: int
    column: int
    end_line: int
    end_column: int

    def covers(self, other: "Span") -> bool:
        """Whether `other` lies within this range."""
        return (self.line, self.column) <= (other.line, other.column) and (other.end_line, other.end_column) <= (
            self.end_line,
            self.end_column,
        )


class Op(StrEnum):
    """What an edit does to the Python node at its span."""

    REPLACE = "replace"  # an expression becomes `text`
    FSTRING_HEAD = "fstring head"  # f"cuda..." becomes f"{text}..."
    ADD_KEYWORD = "add keyword"  # a call gets `name=text`
    ADD_DICT_ITEM = "add dict item"  # a dict display gets "name": text
    METHOD = "method"  # recv.cuda(...) becomes recv.to(text, ...)
    DELETE = "delete"  # a statement goes; `text` is left as a comment when it is not empty
    INSERT_BEFORE = "insert before"  # the statement `text` is put in front


@dataclass(frozen=True)
class Edit:
    """One change of one Python node."""

    span: Span
    op: Op
    text: str = ""
    name: str = ""


@dataclass(frozen=True)
class Line:
    """A changed line of a shell or YAML file: number from 1, new text without line end; `after` lines follow it."""

    number: int
    text: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """One place that a fix cures."""

    fix: str
    path: str
    line: int
    code: str
    edits: tuple[Edit, ...] = ()
    lines: tuple[Line, ...] = ()
    helpers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Use:
    """One remaining mention of CUDA or NCCL in code or configuration."""

    path: str
    line: int
    kind: str
    code: str
    span: Span | None = None
    status: Literal["fixed", "safe", "open"] = "open"
    reason: str = ""
    fix: str = ""


class Status(StrEnum):
    """What became of a fix on a tree."""

    APPLIED = "applied"
    ALREADY = "already"
    NOT_NEEDED = "not needed"
    VANISHED = "vanished"
    PENDING = "pending"  # scan only: apply would change something


@dataclass(frozen=True)
class Expectation:
    """Where a fix must find its fault, or a known cure, in any tree that has the code at all.

    `anchor` (regular expression) names the code; `cured` the form in which upstream may have solved it.
    `required`: every RLinf tree has this code, so its absence means that the fix no longer knows the tree.
    """

    suffix: str
    anchor: str
    cured: str
    required: bool = False


@dataclass(frozen=True)
class Fix:
    """A catalogue entry; `kind` selects which of the two finders is used."""

    id: str
    title: str
    symptom: str
    why: str
    seen: str
    kind: Literal["python", "yaml", "shell"]
    expect: tuple[Expectation, ...] = ()
    find_python: "Callable[[PyFile], Iterable[Site]] | None" = None
    find_text: "Callable[[str, str], Iterable[Site]] | None" = None
    hint: str = ""  # cheap text filter: a regular expression that every faulty file matches
    signs: tuple[str, ...] = ()  # regular expressions for the symptom in a log
    always: tuple[str, ...] = ()  # files that are looked at whatever the hint says

    def concerns(self, path: str, text: str) -> bool:
        """Whether the finder has to look at this file."""
        return path in self.always or re.search(self.hint, text) is not None


@dataclass
class FixResult:
    """A fix and what became of it."""

    fix: Fix
    status: Status
    sites: list[Site] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Report:
    """Everything that a run found out about a tree."""

    tree: "Tree"
    results: list[FixResult]
    uses: list[Use]
    changed: dict[str, str] = field(default_factory=dict)

    @property
    def vanished(self) -> list[FixResult]:
        """Fixes whose expected site is gone."""
        return [result for result in self.results if result.status is Status.VANISHED]
