"""`recap status`: the four steps of a run."""

import time
from typing import Any

from rich.console import Console
from rich.table import Table

from rlinf_npu.recap import lock
from rlinf_npu.recap.errors import UsageError
from rlinf_npu.recap.layout import STEPS, TITLES, Run
from rlinf_npu.recap.progress import PROGRESS_FILE, duration, read_json
from rlinf_npu.recap.state import StepState, load_state


def show_status(run: Run, console: Console | None = None) -> None:
    """Print one row a step.

    Raises:
        UsageError: there is no such run.
    """
    if not run.root.is_dir():
        raise UsageError(f"{run.root}: no such run; begin with `recap run`")
    alive = lock.held(run.root)
    table = Table("step", "status", "time", "started", "result", title=str(run.root), title_justify="left")
    for name in STEPS:
        state = load_state(run.state_file(name), name)
        table.add_row(TITLES[name], _status(state, alive), _time(state), _started(state), _result(state))
    (console or Console(soft_wrap=True)).print(table)


def _status(state: StepState, alive: bool) -> str:
    if state.status == "running" and not alive:
        return "killed"
    return state.status


def _time(state: StepState) -> str:
    if state.status == "running" and state.started:
        return duration(state.seconds + time.time() - state.started)
    return duration(state.seconds) if state.started else ""


def _started(state: StepState) -> str:
    return time.strftime("%m-%d %H:%M:%S", time.localtime(state.started)) if state.started else ""


def _result(state: StepState) -> str:
    if state.message:
        return state.message.splitlines()[0]
    if state.status == "running" and state.log_dir:
        facts = read_json(state.log_dir / PROGRESS_FILE)
        return f"global step {facts['global_step']}/{facts['max_steps']}" if facts else str(state.log_dir)
    return ", ".join(f"{key} {_shown(value)}" for key, value in state.figures.items())


def _shown(value: Any) -> str:
    """Numbers short, of a path its last part."""
    return f"{value:.4g}" if isinstance(value, float) else str(value).rpartition("/")[2]
