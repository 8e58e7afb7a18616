"""Process trees: all of ours end, nobody else's."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rlinf_npu.recap import process
from rlinf_npu.recap.environment import RUN_MARK
from rlinf_npu.recap.process import end_all, marked_processes, start

pytestmark = pytest.mark.programs

# Of this test process alone: others may run the same tests at the same time.
MINE, OTHER, DIE = (f"{mark}-{os.getpid()}" for mark in ("mine", "other", "die"))

# A parent whose child leaves the session, as Ray's daemons do, and ignores SIGTERM.
STUBBORN = """
import subprocess, sys, time
child = "import signal, time; signal.signal(15, signal.SIG_IGN); print(6 * 7777, flush=True); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
time.sleep(60)
"""
ORPHAN = """
import subprocess, sys, time
from rlinf_npu.recap.drivers.launch import die_with_parent
die_with_parent()
print("ready", flush=True)
time.sleep(60)
"""


def wait_for(condition, seconds: float = 10.0) -> bool:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_everything_with_the_mark_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ours = start([sys.executable, "-c", STUBBORN], {**os.environ, RUN_MARK: MINE}, tmp_path, log)
    theirs = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, RUN_MARK: OTHER}
    )
    try:
        assert wait_for(lambda: b"46662" in log.read_bytes())
        assert len(marked_processes(MINE)) == 2
        assert end_all(MINE, seconds=0.3) == 2
        assert ours.wait(5) < 0
        assert marked_processes(MINE) == []
        assert theirs.poll() is None
    finally:
        theirs.kill()
        theirs.wait()
        end_all(MINE)


def test_a_step_dies_with_its_recap() -> None:
    middle = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {ORPHAN!r}]); p.wait()"
    parent = subprocess.Popen([sys.executable, "-c", middle], stdout=subprocess.PIPE, env=_env(DIE))
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    parent.kill()
    parent.wait()
    assert wait_for(lambda: not marked_processes(DIE), 5)
    parent.stdout.close()


LISTENS = (
    "from rlinf_npu.recap.drivers.stacks import listen; listen()\nimport time\ndef waits(): time.sleep(60)\nwaits()"
)


def test_stacks_from_inside_spare_who_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_from_outside", lambda spy, pid: b"")  # as where the kernel forbids it
    env = {**_env(MINE), "RECAP_STACKS": str(tmp_path / "stacks")}
    listening = subprocess.Popen([sys.executable, "-c", LISTENS], env=env)
    deaf = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=env)
    assert wait_for((tmp_path / f"stacks/{listening.pid}.txt").is_file)
    time.sleep(0.2)  # the file is opened just before the handler is set
    process.dump_stacks(MINE, tmp_path / "stacks.txt", tmp_path / "stacks")
    assert "in waits" in (tmp_path / "stacks.txt").read_text()
    assert deaf.poll() is None
    end_all(MINE, 0.3)
    assert (listening.wait(5), deaf.wait(5)) == (-15, -15)


def _env(mark: str) -> dict[str, str]:
    runtime = str(Path(__file__).parents[3] / "runtime")
    return {**os.environ, RUN_MARK: mark, "PYTHONPATH": runtime}


@pytest.fixture(autouse=True)
def _nothing_left() -> object:
    yield
    for mark in (MINE, OTHER, DIE):
        end_all(mark, 0.1)
