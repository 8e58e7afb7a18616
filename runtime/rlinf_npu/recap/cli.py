"""The `recap` command."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from rlinf_npu.recap.config import Config, load_config
from rlinf_npu.recap.errors import RecapError, UsageError
from rlinf_npu.recap.layout import STEPS, TITLES, Run, step_name

app = typer.Typer(
    help="RLinf's four RECAP steps as one resumable run: returns, value SFT, advantages, CFG RL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
ConfigFile = Annotated[Path, typer.Option("--config", "-c", envvar="RECAP_CONFIG", help="the run's recap.yaml")]
Settings = Annotated[list[str] | None, typer.Option("--set", "-s", help="key.key=value, over the file; repeatable")]
Doctor = Annotated[
    bool, typer.Option(envvar="RECAP_DOCTOR", help="have the image's doctor look first; its errors stop")
]
DEFAULT = Path("recap.yaml")


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn our errors into one line and their exit code."""
    try:
        yield
    except RecapError as error:
        print(f"recap: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        print(f"recap: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        raise typer.Exit(1) from None


@app.command()
def run(
    config: ConfigFile = DEFAULT,
    set_: Settings = None,
    check: Annotated[bool, typer.Option(help="`recap check` first; its errors stop")] = True,
    doctor: Doctor = True,
) -> None:
    """Run all four steps: skip what is done, go on from checkpoints."""
    with one_line_errors():
        _run(load_config(config, tuple(set_ or ())), list(STEPS), force=False, check=check, doctor=doctor)


@app.command()
def resume(config: ConfigFile = DEFAULT, set_: Settings = None, doctor: Doctor = True) -> None:
    """Go on with a run that exists; without one this is an error, where `run` would begin."""
    with one_line_errors():
        loaded = load_config(config, tuple(set_ or ()))
        if not Run(loaded.run_dir).state_dir.is_dir():
            raise UsageError(f"{loaded.run_dir}: no run to resume; begin with `recap run`")
        _run(loaded, list(STEPS), force=False, check=False, doctor=doctor)


@app.command()
def step(
    which: Annotated[str, typer.Argument(help="1-4 or returns, value-sft, advantages, cfg-rl")],
    config: ConfigFile = DEFAULT,
    set_: Settings = None,
    force: Annotated[bool, typer.Option(help="redo it although it is done")] = False,
    doctor: Doctor = True,
) -> None:
    """Run one step; those before it must be done."""
    with one_line_errors():
        try:
            name = step_name(which)
        except ValueError as error:
            raise UsageError(str(error)) from error
        _run(load_config(config, tuple(set_ or ())), [name], force=force, check=False, doctor=doctor)


@app.command()
def node(
    rank: Annotated[int, typer.Option(min=0, envvar="NODE_RANK", help="of this machine; 0 leads")],
    master: Annotated[str, typer.Option(envvar="MASTER_ADDR", help="address of machine 0")],
    config: ConfigFile = DEFAULT,
    set_: Settings = None,
    nodes: Annotated[int | None, typer.Option(min=1, envvar="NNODES", help="machines; default: recap.yaml's")] = None,
    port: Annotated[int, typer.Option(envvar="MASTER_PORT", help="of Ray on machine 0")] = 6379,
    wait: Annotated[float, typer.Option(min=1, envvar="NODE_WAIT", help="seconds for the others to come")] = 1800,
    doctor: Doctor = True,
) -> None:
    """Take part in a run over several machines: 0 waits for the others and runs the steps, the others serve it."""
    from rlinf_npu.recap.node import Node

    with one_line_errors():
        loaded = load_config(config, (*(set_ or ()), *([f"nodes={nodes}"] if nodes else [])))
        here = Node(loaded, rank, master, port, wait)
        if rank > 0:
            here.serve()
            return
        with here.lead() as joined:
            _run(joined, list(STEPS), force=False, check=True, doctor=doctor)


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(help="same as --config")] = None,
    config: ConfigFile = DEFAULT,
    set_: Settings = None,
    full: Annotated[bool, typer.Option(help="every file and every frame instead of a sample")] = False,
    json_: Annotated[bool, typer.Option("--json", help="findings for programs")] = False,
) -> None:
    """Look at models, datasets, disk, shared memory and cards, before anything is started."""
    from rlinf_npu.recap.check import run_checks
    from rlinf_npu.recap.check.show import counting, show, show_json

    with one_line_errors():
        loaded = load_config(file or config, tuple(set_ or ()))
        with counting() as tell:
            findings = run_checks(loaded, full, tell)
        raise typer.Exit((show_json if json_ else show)(findings))


@app.command()
def status(config: ConfigFile = DEFAULT, set_: Settings = None) -> None:
    """Show all four steps with their times."""
    from rlinf_npu.recap.status import show_status

    with one_line_errors():
        show_status(Run(load_config(config, tuple(set_ or ())).run_dir))


@app.command("health")
def health_(
    config: ConfigFile = DEFAULT,
    set_: Settings = None,
    silence: Annotated[float | None, typer.Option(min=1, help="seconds; default: watchdog.silence")] = None,
) -> None:
    """Tell training from hung, for a container's health check: exit code 0 or 1."""
    from rlinf_npu.recap.health import health

    with one_line_errors():
        loaded = load_config(config, tuple(set_ or ()))
        well, why = health(Run(loaded.run_dir), silence or loaded.watchdog.silence)
        print(why)
        raise typer.Exit(0 if well else 1)


@app.command("config")
def config_(config: ConfigFile = DEFAULT, set_: Settings = None) -> None:
    """Print the effective configuration."""
    from ruamel.yaml import YAML

    with one_line_errors():
        YAML().dump(load_config(config, tuple(set_ or ())).model_dump(mode="json"), sys.stdout)


@app.command()
def plot(
    config: ConfigFile = DEFAULT,
    set_: Settings = None,
    out: Annotated[Path | None, typer.Option(help="folder; default: plots/ in the run folder")] = None,
) -> None:
    """Write the training curves as PNG and HTML."""
    from rlinf_npu.recap.plot import write_plots

    with one_line_errors():
        run_ = Run(load_config(config, tuple(set_ or ())).run_dir)
        for path in write_plots(run_, out or run_.root / "plots"):
            print(path)


@app.command()
def clean(
    config: ConfigFile = DEFAULT,
    set_: Settings = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="only checkpoints that no step needs any more")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> None:
    """Remove the run folder, or only superseded checkpoints. Datasets and what is in their meta/ stay."""
    from rlinf_npu.recap.clean import clean_run

    with one_line_errors():
        clean_run(Run(load_config(config, tuple(set_ or ())).run_dir), checkpoints, yes)


def _run(config: Config, names: list[str], *, force: bool, check: bool, doctor: bool) -> None:
    from rlinf_npu.recap import lock
    from rlinf_npu.recap.cards import count_cards, refuse_bad_batches, resolve_cards
    from rlinf_npu.recap.engine import Engine
    from rlinf_npu.recap.examine import Examination, looks
    from rlinf_npu.recap.record import write_record
    from rlinf_npu.recap.source import find_source
    from rlinf_npu.recap.steps import Context
    from rlinf_npu.recap.view import View

    view = View()
    source = find_source(config.rlinf_home)
    examination = Examination(view.say, *looks(config.nodes)) if doctor else None
    with examination.before() if examination else contextlib.nullcontext():
        visible = count_cards()
        if check:
            _refuse_bad_inputs(config, visible)
        cards = resolve_cards(config, visible)
        refuse_bad_batches(config, cards)
    run_ = Run(config.run_dir)
    with lock.hold(run_.root):
        context = Context(config, run_, source, cards, view.say)
        engine = Engine(context, view, examination.alarm if examination else lambda: None)
        write_record(context, engine.env)
        titles = ", ".join(TITLES[name] for name in names)
        view.say(f"run {run_.root}: {titles}; {cards} card(s); RLinf from {source.home} ({source.kind})")
        try:
            engine.run(names, force)
        finally:
            if examination:
                examination.tell()


def _refuse_bad_inputs(config: Config, cards: int) -> None:
    """Everything at once: whoever lacks cards and data should not learn of the second after curing the first."""
    from rlinf_npu.recap.check import errors_of, run_checks

    found = errors_of(run_checks(config, full=False, cards=cards))
    if found:
        lines = "\n".join(f"  {finding.where}: {finding.what}; {finding.fix}" for finding in found)
        raise UsageError(f"{len(found)} problem(s), nothing was started (`recap check` shows all):\n{lines}")


def main() -> None:
    """Entry point."""
    app()


if __name__ == "__main__":
    main()
