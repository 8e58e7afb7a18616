"""Hangs, and what a log says about them."""

from pathlib import Path

import pytest
from rlinf_npu.recap.watchdog import Watchdog, cause, tail

ERROR = "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'"
TRACE = f"Traceback (most recent call last):\n  File ...\n{ERROR}\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as handle:
        handle.write(text)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_text("")
    return path


def test_silence_is_a_hang_and_any_output_is_life(log: Path, tmp_path: Path) -> None:
    dog = Watchdog(log, tmp_path, silence=100, after_error=10)
    assert dog.poll(0) is None
    assert dog.poll(99) is None
    append(log, "hello\n")
    assert dog.poll(150) is None
    assert dog.poll(249) is None
    assert "for 100 s" in str(dog.poll(250))


@pytest.mark.parametrize(
    "name", ["tensorboard/events.out.tfevents.1", "value_sft/checkpoints/global_step_5/actor/x.pt"]
)
def test_curves_and_checkpoints_are_life(log: Path, tmp_path: Path, name: str) -> None:
    dog = Watchdog(log, tmp_path, silence=100, after_error=10)
    dog.poll(0)
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("x")
    assert dog.poll(120) is None


def test_an_error_shortens_the_patience(log: Path, tmp_path: Path) -> None:
    dog = Watchdog(log, tmp_path, silence=1000, after_error=10)
    dog.poll(0)
    append(log, TRACE)
    assert dog.poll(5) is None
    assert "error is in the log" in str(dog.poll(15))


def test_an_error_that_training_survived_does_not(log: Path, tmp_path: Path) -> None:
    dog = Watchdog(log, tmp_path, silence=1000, after_error=10)
    append(log, TRACE)
    dog.poll(0)
    append(log, "Global Step: 1/4\n")
    assert dog.poll(1) is None
    assert dog.poll(100) is None


def test_an_error_of_the_attempt_before_does_not_count(log: Path, tmp_path: Path) -> None:
    append(log, TRACE)
    dog = Watchdog(log, tmp_path, silence=1000, after_error=10)
    dog.poll(0)
    assert dog.poll(100) is None


def test_tail_without_colours_and_rewrites(log: Path) -> None:
    append(log, "one\n\n\x1b[36m(ActorGroup(rank=1) pid=7)\x1b[0m two\nbar 1%\rbar 100%\n")
    assert tail(log, 2) == "(ActorGroup(rank=1) pid=7) two\nbar 100%"
    assert tail(log.with_name("none")) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRACE, ERROR),
        ("\x1b[36m(ActorGroup(rank=1) pid=7)\x1b[0m RuntimeError: boom\nmore\n", "RuntimeError: boom"),
        ("ray.exceptions.RayActorError: died\n", "ray.exceptions.RayActorError: died"),
        ("all is well, no Error: here\n", ""),
        ("1 worker(s) were killed due to the node running low on memory.\n", "ran out of memory"),
    ],
)
def test_cause(log: Path, text: str, expected: str) -> None:
    append(log, text)
    found = cause(log)
    assert expected in found
    assert bool(found) == bool(expected)


def test_silence_on_a_full_disk_is_not_waited_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error that stopped the step could not be written into the log."""
    watchdog = Watchdog(tmp_path / "log", tmp_path, silence=600, after_error=30)
    (tmp_path / "log").write_text("training")
    assert watchdog.poll(0) is None
    assert watchdog.poll(40) is None, "there is room: it may be at work"
    monkeypatch.setattr("rlinf_npu.recap.watchdog.FULL_BYTES", 1 << 62)
    assert "No space left on device" in str(watchdog.poll(41))
