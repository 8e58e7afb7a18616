"""What a rule is, what it finds, and what a run reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlinf_npu.doctor.context import Context


class Severity(IntEnum):
    """How bad a finding is; the worst is printed first."""

    NOTE = 0  # worth knowing, never a reason to stop
    WARNING = 1  # will hurt sooner or later
    ERROR = 2  # training will not start, or will fail


SCHEMA = 1  # of the JSON report
HOST = "host"
CONTAINER = "container"
BOTH = "both"


@dataclass(frozen=True)
class Hit:
    """What a check yields for one fault: the evidence, and what differs from the rule's own wording."""

    evidence: str
    severity: Severity | None = None
    meaning: str | None = None
    fix: str | None = None
    link: str | None = None
    kind: str | None = None  # a class inside the rule, such as the reason why an import failed


Check = Callable[["Context"], Iterable[Hit]]


@dataclass(frozen=True)
class Rule:
    """One small entry: when it applies (`where`, `needs`), how to look (`check`), and what it means."""

    id: str
    title: str
    where: str
    needs: tuple[str, ...]
    severity: Severity
    meaning: str
    fix: str
    link: str
    check: Check
    imports: bool = False  # it waits for an import of torch in a process of its own: seconds, where others take none


@dataclass(frozen=True)
class Finding:
    """One fault, with everything a reader needs."""

    rule: str
    title: str
    severity: Severity
    evidence: str
    meaning: str
    fix: str
    link: str
    kind: str | None = None

    @classmethod
    def of(cls, rule: Rule, hit: Hit) -> Finding:
        """Fill a hit's gaps from its rule."""
        return cls(
            rule=rule.id,
            title=rule.title,
            severity=rule.severity if hit.severity is None else hit.severity,
            evidence=hit.evidence,
            meaning=hit.meaning or rule.meaning,
            fix=hit.fix or rule.fix,
            link=hit.link or rule.link,
            kind=hit.kind,
        )


@dataclass
class Report:
    """The outcome of a run."""

    where: str
    simulated: list[str] = field(default_factory=list)  # what says that driver, cards or image are simulated
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # rule -> why it could not be checked here
    broken: dict[str, str] = field(default_factory=dict)  # rule -> how the rule itself failed

    def exit_code(self, strict: bool = False) -> int:
        """0 healthy, 1 problems (with `strict` warnings are problems too), 2 a rule could not run."""
        limit = Severity.WARNING if strict else Severity.ERROR
        if any(finding.severity >= limit for finding in self.findings):
            return 1
        return 2 if self.broken else 0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form; severities by name. Keys are only ever added within one `schema` (docs/doctor.md)."""
        document = {"schema": SCHEMA} | asdict(self)
        for finding in document["findings"]:
            finding["severity"] = Severity(finding["severity"]).name.lower()
        return document
