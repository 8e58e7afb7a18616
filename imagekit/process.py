"""Run other programs: with a time limit that is kept, and with something to look at while they work."""

import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]

TIMED_OUT = 124  # what timeout(1) returns
NOT_FOUND = 127  # what a shell returns


@dataclass(frozen=True)
class Finished:
    """Exit code and text of a program that has ended. `err` is empty where both streams were read as one."""

    code: int
    out: str = ""
    err: str = ""

    @property
    def ok(self) -> bool:
        """True when the program ended with 0."""
        return self.code == 0

    @property
    def last_line(self) -> str:
        """The last non-empty line it wrote, errors first: usually the one that says why."""
        lines = [line.strip() for line in f"{self.out}\n{self.err}".splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


class Pulse:
    """Pass on at most one line per `every` seconds, with the time gone by: a sign of life, not a log."""

    def __init__(self, say: Say, what: str, every: float = 5.0) -> None:
        """Report on `what` through `say`."""
        self._say, self._what, self._every = say, what, every
        self._begun = self._last = time.monotonic()

    def __call__(self, detail: str) -> None:
        """Report `detail` when it is time to."""
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            self._say(f"  {self._what}: {detail.strip()[:100]} ({self.seconds:.0f} s)")

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun


def run(
    argv: Sequence[str], *, seconds: float | None = None, env: Mapping[str, str] | None = None, stdin: str | None = None
) -> Finished:
    """Run `argv` to its end, `env` added to our own environment. Never raises for what the program does.

    When `seconds` are over the whole process group is killed: git and docker start helpers that would outlive them.
    """
    try:
        process = _start(argv, env, subprocess.PIPE, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
    except OSError as error:
        return _not_started(argv, error)
    with _killed_on_leaving(process):
        try:
            out, err = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            return Finished(TIMED_OUT, "", f"no answer within {seconds:g} s")
    return Finished(process.returncode, out, err)


def follow(argv: Sequence[str], on_line: Callable[[str], None], *, env: Mapping[str, str] | None = None) -> Finished:
    """Run `argv` to its end, each line of its output (progress written with CR too) handed to `on_line`.

    Returns:
        The exit code and the last 200 lines.
    """
    try:
        process = _start(argv, env, subprocess.STDOUT, stdin=subprocess.DEVNULL)
    except OSError as error:
        return _not_started(argv, error)
    kept: deque[str] = deque(maxlen=200)
    with _killed_on_leaving(process):
        for line in process.stdout or ():  # universal newlines: CR ends a line as well
            if line.strip():
                kept.append(line.rstrip())
                on_line(line)
        process.wait()
    return Finished(process.returncode, "\n".join(kept))


def _not_started(argv: Sequence[str], error: OSError) -> Finished:
    """Not on PATH; execve(2) says `permission denied` for that too, when a folder on PATH is closed to this user."""
    missing = isinstance(error, FileNotFoundError | PermissionError) and not Path(argv[0]).is_absolute()
    return Finished(NOT_FOUND, "", f"{argv[0]}: {'not found' if missing else error.strerror}")


def _start(argv: Sequence[str], env: Mapping[str, str] | None, stderr: int, *, stdin: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        list(argv),
        env={**os.environ, **(env or {})},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        errors="replace",
        start_new_session=True,
    )


@contextlib.contextmanager
def _killed_on_leaving(process: subprocess.Popen[str]) -> Iterator[None]:
    """A time limit or Ctrl-C must not leave the program running: it sits in a session of its own."""
    try:
        yield
    finally:
        if process.poll() is None:
            end_group(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


def end_group(process: "subprocess.Popen[str] | subprocess.Popen[bytes]", patience: float = 3.0) -> None:
    """Ask the process group to end, then kill what is left of it: helpers may outlive the one that started them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def version_tuple(text: str) -> tuple[int, ...]:
    """`26.1.5+dfsg1` -> (26, 1, 5); enough to compare releases with."""
    head = text.strip().removeprefix("v").split("+")[0].split("-")[0].split("~")[0]
    return tuple(int(part) for part in head.split(".") if part.isdigit())
