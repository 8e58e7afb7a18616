"""The `doctor` command."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from rlinf_npu.doctor import render
from rlinf_npu.doctor.collect import collect as write_bundle
from rlinf_npu.doctor.context import Context, where_am_i
from rlinf_npu.doctor.explain import FORMS, Explanation, explain_log, is_code
from rlinf_npu.doctor.explain import explain as explain_code
from rlinf_npu.doctor.factsview import facts_view
from rlinf_npu.doctor.model import CONTAINER, HOST, Report
from rlinf_npu.doctor.registry import all_rules
from rlinf_npu.doctor.runner import UnknownRule, run, select
from rlinf_npu.doctor.system import System
from rlinf_npu.facts import load_facts

app = typer.Typer(
    help="Find what is wrong with this host, container or image. Exit 0 healthy, 1 problems, 2 could not run.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
_LOCK = Path("images.lock")


def _fail(message: str) -> typer.Exit:
    print(f"doctor: {message}", file=sys.stderr)
    return typer.Exit(2)


@app.callback(invoke_without_command=True)
def doctor(
    ctx: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    only: Annotated[str, typer.Option(help="Rules to check, with * and commas: 'visible*,import'.")] = "",
    skip: Annotated[str, typer.Option(help="Rules to leave out, likewise.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as problems.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the rules and stop.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="With --list: as a Markdown table.")] = False,
    collect: Annotated[Path | None, typer.Option(help="Also write a support bundle (tar.gz) without secrets.")] = None,
    recap: Annotated[Path | None, typer.Option(help="A recap.yaml whose data and settings are checked too.")] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Hosts of the job; 2 and more check the cards' network.")] = 1,
    mirror: Annotated[list[str] | None, typer.Option(help="URL that must answer (host only); repeatable.")] = None,
    where: Annotated[str, typer.Option(help="auto, host or container.")] = "auto",
    root: Annotated[Path, typer.Option(help="Examine another root, such as a mounted container.")] = Path("/"),
    lock: Annotated[Path | None, typer.Option(help="images.lock (host only); default: the current folder's.")] = None,
    facts: Annotated[Path | None, typer.Option(help="facts.json; default: the image's, or RLINF_NPU_FACTS.")] = None,
) -> None:
    """Run the rules and print one table, worst findings first."""
    if ctx.invoked_subcommand:
        return
    if listing:
        _list(markdown)
        return
    context = _context(System(root=root), facts, where, recap=recap, nodes=nodes, mirrors=mirror or [], lock=lock)
    try:
        rules = select(all_rules(), _patterns(only), _patterns(skip))
    except UnknownRule as error:
        raise _fail(str(error)) from None
    if collect is not None and not collect.absolute().parent.is_dir():
        raise _fail(f"{collect.absolute().parent} is not a folder")
    errors = Console(stderr=True)
    with errors.status("examining") as status:
        report = run(context, rules, lambda title: status.update(f"examining: {title}"))
        if collect is not None:
            status.update(f"writing {collect}")
            _bundle(context, report, collect)
    _print(report, as_json)
    if collect is not None:
        errors.print(f"bundle: {collect}", highlight=False)
    raise typer.Exit(report.exit_code(strict))


def _console() -> Console:
    """A pipe or file has no width; 80 columns, the usual guess, break more than they help."""
    told = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return Console(width=None if told else render.WIDEST)


def _patterns(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _list(markdown: bool) -> None:
    if markdown:
        print(render.rules_markdown(all_rules()), end="")
    else:
        _console().print(render.rules_table(all_rules()))


def _context(
    system: System,
    facts: Path | None,
    where: str,
    *,
    recap: Path | None,
    nodes: int,
    mirrors: list[str],
    lock: Path | None,
) -> Context:
    if where not in ("auto", HOST, CONTAINER):
        raise _fail(f"--where {where}: auto, host or container")
    for option, path in (("--recap", recap), ("--lock", lock)):
        if path is not None and not path.is_file():
            raise _fail(f"{option} {path}: no such file")
    try:
        view = facts_view(load_facts(facts))
    except (OSError, ValueError) as error:
        raise _fail(str(error)) from None
    place = where_am_i(system) if where == "auto" else where
    return Context(system, view, place, recap, nodes, mirrors, lock or (_LOCK if _LOCK.is_file() else None))


def _bundle(context: Context, report: Report, target: Path) -> None:
    try:
        write_bundle(context, report, target.absolute())
    except OSError as error:
        raise _fail(f"cannot write {target}: {error}") from None


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        render.report_table(report, _console())


@app.command(context_settings={"ignore_unknown_options": True})  # -8005 is a code, not an option
def explain(
    codes: Annotated[
        list[str] | None, typer.Argument(help="Error codes; without any, a log is read from stdin.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what error codes mean, where that is documented, and what to do."""
    if not codes and sys.stdin.isatty():
        raise _fail("give codes (doctor explain 507033) or a log on stdin (doctor explain < log)")
    if strange := [code for code in codes or [] if not is_code(code)]:
        raise _fail(f"{' '.join(strange)}: not an error code. Accepted are {FORMS}")
    answers = [explain_code(code) for code in codes] if codes else _explain_stdin()
    if as_json:
        print(json.dumps([answer.as_dict() for answer in answers], indent=2))
    elif answers:
        render.explanations(answers, _console())
    else:
        print("no known code or fault line in this log")


def _explain_stdin() -> list[Explanation]:
    """The log on stdin; a bar on a terminal, which a log of a few megabytes does not live to see."""
    try:
        status = os.fstat(sys.stdin.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
    except OSError:
        size = None
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    errors = Console(stderr=True)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=size)
        return explain_log(sys.stdin.buffer, lambda done: bar.update(task, completed=done))


def main() -> None:
    """Console script."""
    app()
