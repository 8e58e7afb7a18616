"""One `recap` at a time in a run folder."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rlinf_npu.recap.errors import RecapError

NAME = "lock"
PATIENCE_SECONDS = 0.3  # whoever only asks (`held`) has the lock for microseconds


@contextlib.contextmanager
def hold(run_dir: Path) -> Iterator[None]:
    """Hold the run's lock; the kernel gives it back when we die, however we die.

    Raises:
        RecapError: somebody else holds it, with the process id; or the folder is not writable.
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        handle = (run_dir / NAME).open("a+")
    except OSError as error:
        raise RecapError(f"{run_dir}: cannot write: {error.strerror}; set log_dir to a writable folder") from error
    with handle:
        if not _take(handle):
            handle.seek(0)
            raise RecapError(f"{run_dir} is in use by process {handle.read().strip() or '?'}: wait, or stop that one")
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def _take(handle: IO[str]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)


def held(run_dir: Path) -> bool:
    """Tell whether a `recap` works in this folder; another container's counts too, where processes are not visible."""
    try:
        with (run_dir / NAME).open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
