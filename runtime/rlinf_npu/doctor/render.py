"""Reports and explanations for people; JSON is made by their own as_dict."""

from collections.abc import Iterable

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from rlinf_npu.doctor.explain import Explanation
from rlinf_npu.doctor.model import HOST, Finding, Report, Rule, Severity

WIDEST = 120  # columns; longer lines are hard to read
_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def report_table(report: Report, console: Console) -> None:
    """One table of findings, worst first, then what could not be checked and a summary line."""
    if report.simulated:
        console.print(
            f"[bold magenta]simulated[/]: driver, cards or image are not real ({', '.join(report.simulated)})"
        )
    if report.findings:
        # Two columns only: what people copy (paths, commands, links) stays whole on 80 columns.
        table = Table(
            box=box.SQUARE,
            show_lines=True,
            show_header=False,
            title=f"Findings ({report.where})",
            width=min(console.width, WIDEST),
        )
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold", ratio=1)
        for finding in report.findings:
            table.add_row(Text(finding.severity.name.lower(), style=_STYLE[finding.severity]), _explained(finding))
        console.print(table)
    for name, reason in report.broken.items():
        console.print(Text(f"rule {name} failed itself: {reason}", style="red"))
    console.print(Text(_summary(report)))


def _explained(finding: Finding) -> Group:
    rule = finding.rule if finding.kind is None else f"{finding.rule} / {finding.kind}"
    return Group(
        Text.assemble((finding.title, "bold"), f" ({rule})"),
        Text(f"read: {finding.evidence}"),
        Text(finding.meaning),
        Text(f"fix: {finding.fix}", style="green"),
        Text(finding.link, style="dim"),
    )


def _summary(report: Report) -> str:
    numbers = {severity: sum(finding.severity == severity for finding in report.findings) for severity in Severity}
    counted = [
        f"{number} {severity.name.lower()}{'s' * (number != 1)}" for severity, number in numbers.items() if number
    ]
    verdict = ", ".join(reversed(counted)) or "healthy"
    how = "make doctor ARGS=--json" if report.where == HOST else "doctor --json"
    skipped = f", {len(report.skipped)} not applicable here ({how} says why)" if report.skipped else ""
    rules = f"{len(report.checked)} rule{'s' * (len(report.checked) != 1)}"
    return f"{verdict}: {rules} checked on this {report.where}{skipped}"


def rules_table(rules: Iterable[Rule]) -> Table:
    """`doctor --list`; fixes and links are in `--list --markdown`."""
    table = Table(title="Rules", box=box.SIMPLE)
    for column in ("Rule", "Where", "Severity"):
        table.add_column(column, no_wrap=True)
    table.add_column("Meaning", overflow="fold")
    for rule in rules:
        table.add_row(rule.id, rule.where, rule.severity.name.lower(), Text(rule.meaning))
    return table


def rules_markdown(rules: Iterable[Rule]) -> str:
    """`doctor --list --markdown`: the table in docs/doctor.md."""
    lines = ["| rule | where | severity | meaning | fix | link |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{rule.id}` | {rule.where} | {rule.severity.name.lower()} | {_cell(rule.meaning)} | "
        f"{_cell(rule.fix)} | <{rule.link}> |"
        for rule in rules
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


def explanations(answers: Iterable[Explanation], console: Console) -> None:
    """Code, meaning, what to do, where it is documented and who saw it."""
    for answer in answers:
        times = f" ({answer.count} x)" if answer.count else ""
        console.print(Text(f"{answer.code}{times}  {answer.name}".rstrip(), style="bold"))
        seen = f" ({answer.seen_as})" if answer.seen_as else ""
        lines = [
            ("means", answer.meaning, ""),
            ("do", answer.fix, "green"),
            ("npufix", ", ".join(answer.npufix), ""),
            ("documented", answer.documented or "nowhere public", "dim"),
            ("seen", " ".join(answer.seen) + seen, "dim"),
            ("first", answer.line, "dim"),
        ]
        for title, text, style in lines:
            if text:  # soft_wrap: the terminal breaks lines, so that links stay whole
                console.print(Text(f"  {title}: {text}", style=style), soft_wrap=True)
