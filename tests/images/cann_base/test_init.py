"""Process 1: it reaps orphans and passes signals on."""

import time

import pytest

from tests.images.support.container import Container
from tests.images.support.subjects import Subject


def test_pid_1_is_tini(idle: Container) -> None:
    assert idle.host.file("/proc/1/comm").content_string.strip() == "tini"


def test_an_orphan_is_reaped(idle: Container) -> None:
    """vllm-ascend#9888: zombies keep a card's memory."""
    orphan = idle.sh("(sleep 0.3 & echo $!)").out.strip()
    assert orphan.isdigit()
    idle.until(lambda: not idle.host.file(f"/proc/{orphan}").exists, seconds=5)
    assert idle.sh("grep -l '^State:.Z' /proc/[0-9]*/status").out == ""


@pytest.mark.parametrize(
    "command", [["sleep", "infinity"], ["sh", "-c", "sleep infinity"], ["bash", "-lc", "sleep infinity; true"]]
)
def test_sigterm_ends_it_within_ten_seconds(subject: Subject, command: list[str]) -> None:
    with subject.run(command) as container:
        # The kernel drops a signal that reaches process 1 before it has a handler: wait until its child has started.
        container.until(lambda: "sleep" in container.exec(["ps", "-eo", "comm="]).out)
        start = time.monotonic()
        container.docker.stop(timeout=30)
        took = time.monotonic() - start
        state = container.state()
    assert took < 10
    assert state["ExitCode"] in (0, 143)


def test_python_gets_the_signal(subject: Subject) -> None:
    """It may save a checkpoint: the signal must arrive, and the exit code come back."""
    code = (
        "import signal,sys,time\nsignal.signal(15, lambda *_: sys.exit(7))\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    with subject.run(["python3", "-c", code]) as container:
        container.until(lambda: "ready" in container.logs()[0])
        container.docker.stop(timeout=20)
        assert container.state()["ExitCode"] == 7


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_comes_through(subject: Subject, code: int) -> None:
    with subject.run(["sh", "-c", f"exit {code}"]) as container:
        assert container.wait(20) == code


def test_an_unknown_command_is_an_error(subject: Subject) -> None:
    with subject.run(["no-such-command"]) as container:
        assert container.wait(20) == 127
        assert "no-such-command" in container.logs()[1]
