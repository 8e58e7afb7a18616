"""Run rules on a context."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatch

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import BOTH, Finding, Report, Rule
from rlinf_npu.doctor.needs import missing


class UnknownRule(ValueError):
    """A pattern selects no rule."""


def select(rules: Iterable[Rule], only: Iterable[str] = (), skip: Iterable[str] = ()) -> list[Rule]:
    """Rules whose id matches a pattern of `only` (all when empty) and none of `skip`.

    Raises:
        UnknownRule: a pattern matches nothing, a typo most likely.
    """
    known, wanted, unwanted = list(rules), list(only), list(skip)
    for pattern in [*wanted, *unwanted]:
        if not any(fnmatch(rule.id, pattern) for rule in known):
            raise UnknownRule(f"no rule matches {pattern!r}; `doctor --list` shows them")
    return [
        rule
        for rule in known
        if (not wanted or any(fnmatch(rule.id, pattern) for pattern in wanted))
        and not any(fnmatch(rule.id, pattern) for pattern in unwanted)
    ]


def run(ctx: Context, rules: Iterable[Rule], progress: Callable[[str], None] = lambda _: None) -> Report:
    """Check every rule that applies here; findings come worst first. A rule that raises is `broken`, others go on."""
    report = Report(ctx.where)
    for rule in rules:
        if rule.where not in (BOTH, ctx.where):
            continue
        progress(rule.title)
        try:
            reason = missing(ctx, rule.needs)
            if reason:
                report.skipped[rule.id] = reason
                continue
            report.findings.extend(Finding.of(rule, hit) for hit in rule.check(ctx))
            report.checked.append(rule.id)
        except Exception as error:
            report.broken[rule.id] = f"{type(error).__name__}: {error}"
    try:
        report.simulated = ctx.simulated
    except Exception as error:
        report.broken["simulated"] = f"{type(error).__name__}: {error}"
    report.findings.sort(key=lambda finding: -finding.severity)
    return report
