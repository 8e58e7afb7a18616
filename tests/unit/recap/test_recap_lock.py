"""One recap at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rlinf_npu.recap import lock
from rlinf_npu.recap.errors import RecapError

pytestmark = pytest.mark.programs

HOLD = (
    "import sys, time; from rlinf_npu.recap import lock; from pathlib import Path\n"
    "with lock.hold(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
)


def test_second_is_refused_and_a_killed_first_lets_go(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "runtime")}
    first = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, env=env)
    assert first.stdout is not None
    with first, first.stdout:
        assert first.stdout.readline() == b"held\n"
        assert lock.held(tmp_path)
        with pytest.raises(RecapError, match=f"in use by process {first.pid}"), lock.hold(tmp_path):
            pass
        first.kill()
        first.wait()
    with lock.hold(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())
    assert not lock.held(tmp_path)
    assert not lock.held(tmp_path / "no such run")
