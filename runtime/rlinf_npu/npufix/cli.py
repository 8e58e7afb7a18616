"""Command line of npufix."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from rlinf_npu.npufix import engine, report
from rlinf_npu.npufix.catalogue import FIXES, fix_by_id
from rlinf_npu.npufix.model import NpufixError, Report, Status, UsageError
from rlinf_npu.npufix.tree import Tree
from rlinf_npu.npufix.verify import problems

T = TypeVar("T")

app = typer.Typer(
    help="Fixes that RLinf's sources need to run on Ascend NPUs, as code that finds the fault on any revision.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 an expected site has vanished or verification failed, 2 wrong usage.",
)
out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True)

PathArgument = Annotated[Path, typer.Argument(metavar="PATH", help="Folder that holds RLinf's package `rlinf`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ReportOption = Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write the full report as JSON.")]

STYLES = {
    Status.APPLIED: "green",
    Status.ALREADY: "green",
    Status.NOT_NEEDED: "dim",
    Status.VANISHED: "bold red",
    Status.PENDING: "yellow",
}


@app.command("list")
def list_fixes(
    json: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """Show the catalogue."""
    if json and markdown:
        _fail(UsageError("give --json or --markdown, not both"))
    if json or markdown:
        print(report.catalogue_json() if json else report.catalogue_markdown(), end="")
        return
    table = Table("fix", "what it does", "symptom it cures", title="NPU fixes")
    for fix in FIXES:
        table.add_row(fix.id, fix.title, fix.symptom)
    out.print(table)


@app.command()
def explain(fix_id: Annotated[str, typer.Argument(metavar="ID", help="A fix's id.")]) -> None:
    """Tell everything about one fix."""
    try:
        fix = fix_by_id(fix_id)
    except UsageError as error:
        _fail(error)
    for name, text in (("fix", fix.id), ("does", fix.title), ("symptom", fix.symptom), ("why", fix.why)):
        out.print(f"[bold]{name:8}[/bold] ", end="")
        out.print(text, markup=False, highlight=False)
    out.print(f"[bold]{'seen in':8}[/bold] {fix.seen}", highlight=False)


@app.command()
def scan(path: PathArgument, json: JsonOption = False, report_file: ReportOption = None) -> None:
    """Look for faults and for every remaining use of CUDA; change nothing."""
    _finish(_run(path, engine.scan), json, report_file)


@app.command()
def apply(path: PathArgument, json: JsonOption = False, report_file: ReportOption = None) -> None:
    """Do every fix that the tree needs: all of them or, on any error, none."""
    _finish(_run(path, engine.apply), json, report_file)


@app.command()
def diff(path: PathArgument) -> None:
    """Show what apply would change, as a unified diff."""
    print(_run(path, engine.diff), end="")


@app.command()
def verify(path: PathArgument, json: JsonOption = False, report_file: ReportOption = None) -> None:
    """Check a fixed tree: no fault left, nothing vanished, no open use on the paths, everything still compiles."""
    found = _run(path, engine.scan)
    wrong = problems(found)
    _show(found, json)
    _write(found, report_file)
    for line in wrong:
        err.print(f"[red]npufix:[/red] {line}", highlight=False)
    raise typer.Exit(1 if wrong else 0)


def _run(path: Path, work: Callable[..., T]) -> T:
    """Run a piece of work on the tree with a progress bar on stderr."""
    try:
        tree = Tree(path)
        with Progress(
            TextColumn("{task.description}"), BarColumn(), console=err, transient=True, disable=not err.is_terminal
        ) as bar:
            task = bar.add_task("reading", total=None)
            return work(tree, lambda name, done, total: bar.update(task, description=name, completed=done, total=total))
    except NpufixError as error:
        _fail(error)


def _fail(error: NpufixError) -> NoReturn:
    err.print(f"npufix: {error}", markup=False, highlight=False)
    raise typer.Exit(2 if isinstance(error, UsageError) else 1)


def _finish(found: Report, json: bool, report_file: Path | None) -> None:
    _show(found, json)
    _write(found, report_file)
    for result in found.vanished:
        for note in result.notes:
            err.print(f"npufix: {result.fix.id}: {note}", markup=False, highlight=False)
    if found.vanished:
        err.print("npufix: an expected site has vanished; nothing was changed", markup=False, highlight=False)
        raise typer.Exit(1)


def _write(found: Report, file: Path | None) -> None:
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(report.as_json(found), encoding="utf-8")
    except OSError as error:
        _fail(NpufixError(f"cannot write {file}: {error.strerror}"))


def _show(found: Report, json: bool) -> None:
    if json:
        print(report.as_json(found), end="")
        return
    table = Table("fix", "status", "places", "remarks")
    for result in found.results:
        style = STYLES[result.status]
        remark = result.notes[0] if result.notes else ""
        table.add_row(result.fix.id, f"[{style}]{result.status}[/{style}]", str(len(result.sites)), remark)
    out.print(table)
    numbers = report.summary(found)
    uses = ", ".join(f"{count} {status}" for status, count in sorted(numbers["uses"].items())) or "none"
    out.print(
        f"uses of CUDA and NCCL: {uses}; open on the offline-RL, SFT and embodied paths: {numbers['open_on_paths']}"
    )
    if found.changed:
        out.print(f"{len(found.changed)} files changed")


def main() -> None:
    """Entry point of the console script."""
    gc.disable()  # the syntax trees stay in use to the end (220 MB): looking for garbage was a third of the time
    sys.exit(app())


if __name__ == "__main__":
    main()
