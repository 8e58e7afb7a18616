"""Reports and explanations for people; JSON is made by their own as_dict."""

from collections.abc import Iterable

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from rlinf_npu.doctor.explain import Explanation
from rlinf_npu.doctor.model import Finding, Report, Rule, Severity

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def report_table(report: Report, console: Console) -> None:
    """One table of findings, worst first, then what could not be checked and a summary line."""
    if report.simulated:
        console.print(
            f"[bold magenta]simulated[/]: driver, cards or image are not real ({', '.join(report.simulated)})"
        )
    if report.findings:
        table = Table(show_lines=True, title=f"Findings ({report.where})")
        for column in ("", "Rule", "Evidence", "Meaning, fix, link"):
            table.add_column(column, overflow="fold")
        for finding in report.findings:
            table.add_row(*_row(finding))
        console.print(table)
    for name, reason in report.broken.items():
        console.print(Text(f"rule {name} failed itself: {reason}", style="red"))
    console.print(Text(_summary(report)))


def _row(finding: Finding) -> tuple[Text, Text, Text, Group]:
    rule = finding.rule if finding.kind is None else f"{finding.rule} / {finding.kind}"
    explanation = Group(
        Text(finding.meaning), Text(f"Fix: {finding.fix}", style="green"), Text(finding.link, style="dim")
    )
    mark = Text(finding.severity.name.lower(), style=_STYLE[finding.severity])
    return mark, Text(f"{finding.title}\n{rule}"), Text(finding.evidence), explanation


def _summary(report: Report) -> str:
    numbers = {severity: sum(finding.severity == severity for finding in report.findings) for severity in Severity}
    verdict = (
        "healthy" if not report.findings else f"{numbers[Severity.ERROR]} errors, {numbers[Severity.WARNING]} warnings"
    )
    skipped = f", {len(report.skipped)} not applicable here (--json says why)" if report.skipped else ""
    return f"{verdict}: {len(report.checked)} rules checked on this {report.where}{skipped}"


def rules_table(rules: Iterable[Rule]) -> Table:
    """`doctor --list`."""
    table = Table(title="Rules")
    for column in ("Rule", "Where", "Severity", "Meaning", "Link"):
        table.add_column(column, overflow="fold")
    for rule in rules:
        table.add_row(rule.id, rule.where, rule.severity.name.lower(), Text(rule.meaning), Text(rule.link, style="dim"))
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
        console.print(Text(f"  means: {answer.meaning}"))
        console.print(Text(f"  do:    {answer.fix}", style="green"))
        if answer.npufix:
            console.print(Text(f"  npufix: {', '.join(answer.npufix)}"))
        console.print(Text(f"  documented: {answer.documented or 'nowhere public'}", style="dim"))
        if answer.seen:
            console.print(
                Text(f"  seen: {' '.join(answer.seen)}{f' ({answer.seen_as})' if answer.seen_as else ''}", style="dim")
            )
        if answer.line:
            console.print(Text(f"  first: {answer.line}", style="dim"))
