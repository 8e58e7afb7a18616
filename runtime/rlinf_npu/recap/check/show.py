"""Print findings, and how far the looking is."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape

from rlinf_npu.recap.check.finding import Finding

MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "error": "[red]error[/]"}


def show(findings: list[Finding], console: Console | None = None) -> int:
    """Print one line a finding, the worst last; return the exit code."""
    out = console or Console(highlight=False, soft_wrap=True)
    for level in ("ok", "warning", "error"):
        for finding in (f for f in findings if f.level == level):
            fix = f"; {finding.fix}" if finding.fix else ""
            out.print(f"{MARKS[level]}  {escape(finding.where)}: {escape(finding.what + fix)}")
    counts = {level: sum(f.level == level for f in findings) for level in MARKS}
    out.print(f"{counts['error']} errors, {counts['warning']} warnings, {counts['ok']} in order")
    return 1 if counts["error"] else 0


def show_json(findings: list[Finding]) -> int:
    """Print all findings as JSON; return the exit code."""
    print(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=2))
    return 1 if any(finding.level == "error" for finding in findings) else 0


@contextlib.contextmanager
def counting(console: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Give a function that shows what is being looked at, on a terminal only."""
    out = console or Console(stderr=True)
    if not out.is_terminal:
        yield lambda what, done, total: None
        return
    with out.status("models") as status:
        yield lambda what, done, total: status.update(f"{escape(what)} {done}/{total}")
