"""Run steps: skip what is done, go on from checkpoints, judge by outputs, stop in order."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rlinf_npu.npufix.symptoms import advice
from rlinf_npu.recap import process
from rlinf_npu.recap.environment import STACKS, ray_dir, run_mark, step_environment
from rlinf_npu.recap.errors import EXIT_RESUMABLE, StepFailed, Stopped
from rlinf_npu.recap.fingerprint import changes
from rlinf_npu.recap.layout import LOG_NAMES, TITLES
from rlinf_npu.recap.progress import Progress, duration
from rlinf_npu.recap.state import StepState, load_state, save_state
from rlinf_npu.recap.steps import ALL_STEPS, Context, Step
from rlinf_npu.recap.view import View
from rlinf_npu.recap.watchdog import Watchdog, cause, full_disk, tail

POLL_SECONDS = 0.2
LOOK_SECONDS = 2.0  # between two looks at log and TensorBoard files
EXIT_SECONDS = 30.0  # for Ray to take its processes down after the driver has ended
MAKE_ROOM = "make room, or `recap clean --checkpoints`; then run again, finished work is kept"
SYMPTOM_LINES, SYMPTOM_BYTES = 5000, 1 << 20  # of a failed step's log, searched for what an NPU fix would cure


@dataclass
class Plan:
    """What to do with a step: skip it, go on from a checkpoint, or start it afresh."""

    action: str
    reasons: list[str]
    checkpoint: Path | None = None


def plan(step: Step, context: Context, state: StepState) -> Plan:
    """Compare a step's record with the present inputs and outputs."""
    now = step.inputs(context)
    if state.status == "pending" or not state.inputs:
        return Plan("start", [])
    changed = changes(state.inputs, now)
    serious = [text for text in changed if not text.startswith(step.free)]
    if serious:
        return Plan("start", [f"changed: {text}" for text in serious])
    if state.status == "done":
        damaged = step.damaged(context, state)
        if not damaged and (not changed or not step.resumable):
            return Plan("skip", [])
        reasons = [f"changed: {text}" for text in changed] + damaged
    else:
        reasons = [f"was {state.status}"]
    checkpoint = step.last_checkpoint(state) if step.resumable else None
    return Plan("resume" if checkpoint else "start", reasons, checkpoint)


def story(log: Path) -> str:
    """Return the exception in a log on the first line, then where the log is and how it ends."""
    return f"{cause(log) or 'no exception in the log'}\n{log} ends:\n{tail(log)}"


def with_advice(message: str, log_dir: Path | None, step: str, cards: int) -> str:
    """Add lines that name the NPU fixes for what the message and the step's log show, and a full disk."""
    log = tail(log_dir / LOG_NAMES[step], SYMPTOM_LINES, SYMPTOM_BYTES) if log_dir else ""
    first, *rest = message.split("\n")
    full = full_disk(log_dir) if log_dir else ""
    told = [text for text in (advice(f"{message}\n{log}", cards), full and f"{full}: {MAKE_ROOM}") if text]
    return "\n".join([first, *told, *rest])


class Engine:
    """Runs steps of one run. SIGTERM and SIGINT are handed to the running step, which saves and ends."""

    def __init__(self, context: Context, view: View, alarm: Callable[[], str | None]) -> None:
        """`view` shows the progress; what `alarm` returns, asked while a step runs, ends the step."""
        self.context, self.view, self.alarm = context, view, alarm
        self.mark = run_mark(context.run)
        self.env = step_environment(context.config, context.run, context.source)
        self.stop_at: float | None = None

    def run(self, names: list[str], force: bool = False) -> None:
        """Run steps in order.

        Raises:
            StepFailed: a step did not make its outputs; later ones were not started.
            Stopped: a signal came; the run can be resumed.
        """
        self._sweep()
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            for name in names:
                self._run_step(ALL_STEPS[name], force)
        finally:
            process.end_all(self.mark)
            for number, handler in previous.items():
                signal.signal(number, handler)
        shutil.rmtree(ray_dir(self.context.run), ignore_errors=True)

    def _sweep(self) -> None:
        """End what a killed `recap` left running, and forget its Ray. Only processes of this run are touched."""
        left = process.end_all(self.mark)
        if left:
            self.context.say(f"ended {left} processes of an earlier, killed run")
        shutil.rmtree(ray_dir(self.context.run), ignore_errors=True)
        ray_dir(self.context.run).mkdir(parents=True, exist_ok=True)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stop_at is None:
            self.stop_at = time.monotonic() + self.context.config.watchdog.stop_grace

    def _run_step(self, step: Step, force: bool) -> None:
        path = self.context.run.state_file(step.name)
        state = load_state(path, step.name)
        decided = plan(step, self.context, state) if not force else Plan("start", ["forced"])
        title = TITLES[step.name]
        if decided.action == "skip":
            self.context.say(f"{title}: done {duration(state.seconds)}, inputs and outputs unchanged: skipped")
            return
        for reason in decided.reasons:
            self.context.say(f"{title}: {reason}")
        state = self._begin(step, state, decided)
        save_state(path, state)
        started = time.time()
        try:
            self._execute(step, state, decided)
            state.outputs = step.collect(self.context, state)
            state.status, state.message = "done", ""
        except Stopped as error:
            state.status, state.message = "stopped", str(error)
            raise
        except StepFailed as error:
            state.status, state.message = (
                "failed",
                with_advice(str(error), state.log_dir, step.name, self.context.cards),
            )
            raise StepFailed(state.message) from error
        finally:
            state.ended = time.time()
            state.seconds += state.ended - started
            self._note(path, state)
        self.context.say(f"{title}: done in {duration(state.seconds)}")

    def _note(self, path: Path, state: StepState) -> None:
        """Save a step's record; where a full disk made the step fail, that must not hide the step's own story."""
        try:
            save_state(path, state)
        except OSError as error:
            if state.status == "done":
                raise
            self.context.say(f"{path} cannot be written ({error.strerror}): the step counts as killed")

    def _begin(self, step: Step, state: StepState, decided: Plan) -> StepState:
        resume = decided.action == "resume"
        log_dir = state.log_dir if resume and state.log_dir else self.context.run.new_log_dir(step.name)
        log_dir.mkdir(parents=True, exist_ok=True)
        if decided.checkpoint is not None:
            self.context.say(f"{TITLES[step.name]}: goes on from {decided.checkpoint.name}")
        return StepState(
            step=step.name,
            status="running",
            inputs=step.inputs(self.context),
            log_dir=log_dir,
            started=time.time(),
            seconds=state.seconds if resume else 0.0,
            attempts=state.attempts + 1,
            resumed_from=int(decided.checkpoint.name.rsplit("_", 1)[-1]) if decided.checkpoint else None,
        )

    def _execute(self, step: Step, state: StepState, decided: Plan) -> None:
        if self.stop_at is not None:
            raise Stopped("stopped before the step began")
        assert state.log_dir is not None
        command, log = step.prepare(self.context, state.log_dir, decided.checkpoint)
        limits = self.context.config.watchdog
        watchdog = Watchdog(log, state.log_dir, limits.silence, limits.after_error)
        env = {**self.env, STACKS: str(state.log_dir / "stacks")}
        child = process.start(command, env, state.log_dir, log)
        try:
            self._wait(child, watchdog, Progress(log, state.log_dir, step.batch(self.context)), step, state.log_dir)
        finally:
            self._end(child)
            shutil.rmtree(state.log_dir / "stacks", ignore_errors=True)
        if self.stop_at is not None:
            how = "after saving a checkpoint" if child.returncode == EXIT_RESUMABLE else "before a checkpoint"
            raise Stopped(f"{TITLES[step.name]} stopped {how}; `recap run` goes on from the last complete one")
        if child.returncode != 0:
            raise StepFailed(f"{TITLES[step.name]} ended with code {child.returncode}: {story(log)}")

    def _wait(
        self, child: "subprocess.Popen[bytes]", watchdog: Watchdog, progress: Progress, step: Step, log_dir: Path
    ) -> None:
        look, told = 0.0, False
        with self.view.step(TITLES[step.name]) as show:
            while child.poll() is None:
                now = time.monotonic()
                if self.stop_at is not None and not told:
                    self.context.say("stopping: the step saves a checkpoint first")
                    child.send_signal(signal.SIGTERM)
                    told = True
                if self.stop_at is not None and now > self.stop_at:
                    return  # _end kills it
                if wrong := self.alarm():
                    raise StepFailed(f"{TITLES[step.name]} was stopped: {wrong}")
                if now - look >= LOOK_SECONDS:
                    look = now
                    show(progress.read())
                    if wrong := watchdog.poll(now):
                        self._give_up(step, wrong, watchdog.log, log_dir)
                time.sleep(POLL_SECONDS)

    def _give_up(self, step: Step, wrong: str, log: Path, log_dir: Path) -> None:
        stacks = log_dir / "stacks.txt"
        process.dump_stacks(self.mark, stacks, log_dir / "stacks")
        raise StepFailed(f"{TITLES[step.name]} hangs: {wrong}; Python stacks in {stacks}; {story(log)}")

    def _end(self, child: "subprocess.Popen[bytes]") -> None:
        """Let Ray finish after a normal end; whatever is left then is ended."""
        deadline = time.monotonic() + (EXIT_SECONDS if child.poll() == 0 else 0)
        while time.monotonic() < deadline and process.marked_processes(self.mark):
            time.sleep(POLL_SECONDS)
        process.end_all(self.mark)
        child.wait()
