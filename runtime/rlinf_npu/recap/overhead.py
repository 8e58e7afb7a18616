"""What `recap` costs: the four steps through it, against their four bare commands, on the tiny fixtures.

`python -m rlinf_npu.recap.overhead FOLDER [TURNS]` prints the seconds as JSON; `make bench` makes a ratio of them.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from rlinf_npu.recap import process
from rlinf_npu.recap.cards import count_cards, resolve_cards
from rlinf_npu.recap.config import load_config
from rlinf_npu.recap.environment import ray_dir, run_mark, step_environment
from rlinf_npu.recap.errors import StepFailed
from rlinf_npu.recap.layout import Run
from rlinf_npu.recap.source import find_source
from rlinf_npu.recap.state import StepState, save_state
from rlinf_npu.recap.steps import ALL_STEPS, Context
from rlinf_npu.recap.watchdog import tail


def bare(config_file: Path, log_dir: Path) -> float:
    """Run the steps' own commands one after the other, nothing around them; return the seconds they take.

    Raises:
        StepFailed: one of them failed, with the end of its log.
    """
    config = load_config(config_file, (f"log_dir={log_dir}",))
    run = Run(config.run_dir)
    context = Context(config, run, find_source(config.rlinf_home), resolve_cards(config, count_cards()), print)
    env, total = step_environment(config, run, context.source), 0.0
    for name, step in ALL_STEPS.items():
        folder = run.new_log_dir(name)
        folder.mkdir(parents=True)
        ray_dir(run).mkdir(parents=True, exist_ok=True)
        command, log = step.prepare(context, folder, None)
        started = time.monotonic()
        with log.open("ab") as out:
            done = subprocess.run(command, env=env, cwd=folder, stdout=out, stderr=subprocess.STDOUT, check=False)
        total += time.monotonic() - started
        if done.returncode:
            raise StepFailed(f"{name} ended with code {done.returncode}:\n{tail(log)}")
        save_state(run.state_file(name), StepState(step=name, status="done", log_dir=folder))  # the next step asks
    process.end_all(run_mark(run))
    return total


def through_recap(config_file: Path, log_dir: Path) -> float:
    """Run `recap run` as a user does; return its seconds.

    Raises:
        StepFailed: it failed, with the end of what it said.
    """
    command = [sys.executable, "-m", "rlinf_npu.recap.cli", "run", "--config", str(config_file)]
    started = time.monotonic()
    done = subprocess.run([*command, "--set", f"log_dir={log_dir}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StepFailed(f"recap run ended with code {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return time.monotonic() - started


def main(folder: Path, turns: int) -> None:
    """Take turns, and turns in who begins, so that whatever else the machine does, and a warm cache, are for both."""
    from rlinf_npu.smoke.fixtures import make_fixtures

    made = make_fixtures(folder / "fixtures", lambda text: print(text, file=sys.stderr))
    seconds: dict[str, list[float]] = {"bare": [], "recap": []}
    for turn in range(turns):
        pair = (("bare", bare), ("recap", through_recap))
        for name, measure in pair if turn % 2 == 0 else reversed(pair):
            seconds[name].append(measure(made.config, folder / f"{name}-{turn}"))
            print(f"{name} {turn + 1}/{turns}: {seconds[name][-1]:.1f} s", file=sys.stderr, flush=True)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
