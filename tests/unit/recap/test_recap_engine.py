"""The engine with real processes: skip, resume, judge by outputs, end a hang, stop in order."""

import errno
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rlinf_npu.recap import engine as engine_module
from rlinf_npu.recap import lock, process
from rlinf_npu.recap.config import Config
from rlinf_npu.recap.engine import Engine, plan
from rlinf_npu.recap.environment import RUN_MARK, ray_dir, run_mark
from rlinf_npu.recap.errors import StepFailed, Stopped
from rlinf_npu.recap.fingerprint import file_digest
from rlinf_npu.recap.health import health
from rlinf_npu.recap.layout import Run
from rlinf_npu.recap.process import marked_processes
from rlinf_npu.recap.source import Source
from rlinf_npu.recap.state import StepState, load_state, save_state
from rlinf_npu.recap.status import show_status
from rlinf_npu.recap.steps import ALL_STEPS, Context, Step
from rlinf_npu.recap.view import View

pytestmark = pytest.mark.programs

WRITES = "import pathlib; pathlib.Path('out').write_text('made')"
WRITES_NOTHING = "print('complete')"
FAILS = "raise ValueError('bad data')"
HANGS = "print('RayActorError: worker died', flush=True); import time; time.sleep(60)"
SAVES_ON_SIGTERM = """
import pathlib, signal, sys, time
def stop(number, frame):
    pathlib.Path('saved').write_text('x'); sys.exit(75)
signal.signal(signal.SIGTERM, stop); print('up', flush=True); time.sleep(60)
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


class FakeStep(Step):
    """A step made of a few lines of Python; its output is the file `out`."""

    name = "returns"
    free = ("settings.workers",)

    def __init__(self, code: str, inputs: dict[str, Any] | None = None) -> None:
        self.code, self.now, self.starts = code, inputs or {"settings.lr": 1.0, "settings.workers": 1}, 0

    def inputs(self, context: Context) -> dict[str, Any]:
        return dict(self.now)

    def prepare(self, context: Context, log_dir: Path, resume: Path | None) -> tuple[list[str], Path]:
        self.starts += 1
        return [sys.executable, "-c", self.code], log_dir / "run.log"

    def collect(self, context: Context, state: StepState) -> dict[str, str]:
        assert state.log_dir is not None
        out = state.log_dir / "out"
        if not out.is_file():
            raise StepFailed(f"{out} was not written")
        return {str(out): file_digest(out)}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def context(config: Config, tmp_path: Path, said: list[str]) -> Iterator[Context]:
    quick = {"silence": 20.0, "after_error": 0.2, "stop_grace": 0.2}
    changed = config.model_copy(update={"watchdog": config.watchdog.model_copy(update=quick)})
    context = Context(changed, Run(tmp_path / "run"), Source(tmp_path), 1, said.append)
    yield context
    shutil.rmtree(ray_dir(context.run), ignore_errors=True)  # a failed run leaves Ray's logs


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(engine_module, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(process, "KILL_SECONDS", 0.3)


def run(
    step: FakeStep,
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    force: bool = False,
    alarm: Callable[[], str | None] = lambda: None,
) -> StepState:
    monkeypatch.setitem(ALL_STEPS, "returns", step)
    view = View(Console(file=open(os.devnull, "w")))  # noqa: SIM115, PTH123
    try:
        Engine(context, view, alarm).run(["returns"], force)
    finally:
        assert marked_processes(run_mark(context.run)) == []
    return state_of(context)


def state_of(context: Context) -> StepState:
    return load_state(context.run.state_file("returns"), "returns")


def test_an_alarm_ends_the_step(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, None, "torch_npu cannot be imported"])
    with pytest.raises(StepFailed, match="1 returns was stopped: torch_npu cannot be imported"):
        run(FakeStep("import time; time.sleep(60)"), context, monkeypatch, alarm=lambda: next(answers))
    assert state_of(context).status == "failed"


def test_done_then_skipped(context: Context, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    step = FakeStep(WRITES)
    state = run(step, context, monkeypatch)
    assert (state.status, state.attempts, step.starts) == ("done", 1, 1)
    run(step, context, monkeypatch)
    assert step.starts == 1
    assert "skipped" in said[-1]
    run(step, context, monkeypatch, force=True)
    assert step.starts == 2


def test_a_changed_input_is_named_and_the_step_redone(
    context: Context, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = FakeStep(WRITES)
    run(step, context, monkeypatch)
    step.now["settings.lr"] = 2.0
    run(step, context, monkeypatch)
    assert step.starts == 2
    assert any("settings.lr: 1.0 -> 2.0" in text for text in said)


def test_a_free_input_changes_nothing(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    step = FakeStep(WRITES)
    run(step, context, monkeypatch)
    step.now["settings.workers"] = 8
    run(step, context, monkeypatch)
    assert step.starts == 1


def test_a_damaged_output_is_made_again(context: Context, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    step = FakeStep(WRITES)
    state = run(step, context, monkeypatch)
    Path(next(iter(state.outputs))).write_text("other")
    run(step, context, monkeypatch)
    assert step.starts == 2
    assert any("has changed" in text for text in said)


def test_exit_code_0_without_output_is_a_failure(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StepFailed, match="was not written"):
        run(FakeStep(WRITES_NOTHING), context, monkeypatch)
    assert state_of(context).status == "failed"


def test_a_failure_tells_the_exception_and_the_log(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StepFailed) as error:
        run(FakeStep(FAILS), context, monkeypatch)
    assert str(error.value).splitlines()[0] == "1 returns ended with code 1: ValueError: bad data"
    assert "run.log" in str(error.value)


def test_a_hang_after_an_error_is_ended(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    started = time.monotonic()
    with pytest.raises(StepFailed, match="hangs: an error is in the log"):
        run(FakeStep(HANGS), context, monkeypatch)
    assert time.monotonic() - started < 15


def stop_soon(context: Context, text: bytes) -> None:
    """SIGTERM to ourselves once the step's log shows that it is up."""

    def wait() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            logs = list(context.run.root.glob("logs/returns/*/run.log"))
            if logs and logs[0].read_bytes().splitlines()[-1:] == [text]:
                break
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def test_sigterm_is_handed_on_and_the_step_saves(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    generous = context.config.watchdog.model_copy(update={"stop_grace": 30.0})
    changed = context.config.model_copy(update={"watchdog": generous})
    patient = Context(changed, context.run, context.source, 1, context.say)
    stop_soon(patient, b"up")
    with pytest.raises(Stopped, match="after saving a checkpoint") as error:
        run(FakeStep(SAVES_ON_SIGTERM), patient, monkeypatch)
    assert error.value.exit_code == 75
    state = state_of(patient)
    assert state.status == "stopped"
    assert state.log_dir is not None
    assert (state.log_dir / "saved").is_file()


def test_a_deaf_step_is_killed_after_the_grace(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_soon(context, b"up")
    with pytest.raises(Stopped, match="before a checkpoint"):
        run(FakeStep(DEAF), context, monkeypatch)


class Training(FakeStep):
    """A step that can go on from a checkpoint."""

    resumable = True
    checkpoint: Path | None = Path("global_step_20")

    def last_checkpoint(self, state: StepState) -> Path | None:
        return self.checkpoint


@pytest.mark.parametrize("status", ["running", "failed", "stopped"])
def test_an_unfinished_training_goes_on(context: Context, status: Any) -> None:
    step = Training(WRITES)
    state = StepState(step="returns", status=status, inputs=step.now)
    assert plan(step, context, state).action == "resume"
    step.checkpoint = None
    assert plan(step, context, state).action == "start"


def test_a_longer_training_goes_on_and_a_different_one_begins_again(context: Context) -> None:
    step = Training(WRITES)
    state = StepState(step="returns", status="done", inputs={**step.now, "settings.workers": 9})
    assert plan(step, context, state).action == "resume"
    state.inputs["settings.lr"] = 9.0
    assert plan(step, context, state).action == "start"


def test_leftovers_of_a_killed_run_are_ended_first(
    context: Context, said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env = {**os.environ, RUN_MARK: run_mark(context.run)}
    left = process.start([sys.executable, "-c", "import time; time.sleep(60)"], env, tmp_path, tmp_path / "old.log")
    save_state(context.run.state_file("returns"), StepState(step="returns", status="running", inputs={"a": 1}))
    run(FakeStep(WRITES), context, monkeypatch)
    assert left.wait(5) != 0
    assert "ended 1 processes of an earlier, killed run" in said


def test_health_tells_training_from_hung(context: Context) -> None:
    assert health(context.run, 10) == (True, "no step is running")
    log_dir = context.run.new_log_dir("value_sft")
    log_dir.mkdir(parents=True)
    log = log_dir / "run_value_sft.log"
    log.touch()
    save_state(context.run.state_file("value_sft"), StepState(step="value_sft", status="running", log_dir=log_dir))
    assert "was killed" in health(context.run, 10)[1]
    with lock.hold(context.run.root):
        assert health(context.run, 10)[0]
        os.utime(log, (1, 1))
        assert health(context.run, 10)[1].startswith("2 value SFT: nothing happened for ")
        (log_dir / "value_sft/checkpoints/global_step_2").mkdir(parents=True)
        (log_dir / "value_sft/checkpoints/global_step_2/weights").touch()
        assert health(context.run, 10)[0], "a checkpoint that is being written is a sign of life"
    assert "was killed" in health(context.run, 10)[1]


def test_status_knows_a_run_in_another_container(context: Context, capsys: pytest.CaptureFixture[str]) -> None:
    """Its processes are not visible from there; the lock is."""
    save_state(context.run.state_file("returns"), StepState(step="returns", status="running", started=1.0))
    with lock.hold(context.run.root):
        show_status(context.run)
        assert "running" in capsys.readouterr().out
    show_status(context.run)
    assert "killed" in capsys.readouterr().out


NCCL = 'raise RuntimeError("Distributed package doesn\'t have NCCL built in")'


def test_a_symptom_that_a_fix_would_cure_names_the_fix(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StepFailed) as error:
        run(FakeStep(NCCL), context, monkeypatch)
    first, second, *rest = str(error.value).splitlines()
    assert first.startswith("1 returns ended with code 1: RuntimeError: Distributed package")
    assert "dist-backend-config" in second
    assert "npufix apply" in second
    assert rest
    assert state_of(context).message == str(error.value)


def test_a_full_disk_is_the_second_line_and_does_not_hide_the_step(
    context: Context, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is on a full disk: the failing step's record cannot be written either."""
    monkeypatch.setattr("rlinf_npu.recap.watchdog.FULL_BYTES", 1 << 62)

    def saves_running_only(path: Path, state: StepState) -> None:
        if state.status != "running":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        save_state(path, state)

    monkeypatch.setattr(engine_module, "save_state", saves_running_only)
    with pytest.raises(StepFailed) as error:
        run(FakeStep(FAILS), context, monkeypatch)
    first, second, *_ = str(error.value).splitlines()
    assert "ValueError: bad data" in first
    assert "No space left on device" in second
    assert "finished work is kept" in second
    assert any("cannot be written" in text for text in said)
    assert state_of(context).status == "running", "the next run sees a killed step"


@pytest.mark.parametrize("code", [FAILS, HANGS, WRITES_NOTHING])
def test_other_failures_name_no_fix(context: Context, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    with pytest.raises(StepFailed) as error:
        run(FakeStep(code), context, monkeypatch)
    assert "npufix" not in str(error.value)
