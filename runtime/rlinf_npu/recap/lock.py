"""One `recap` at a time in a run folder."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from rlinf_npu.recap.errors import RecapError


@contextlib.contextmanager
def hold(run_dir: Path) -> Iterator[None]:
    """Hold the run's lock; the kernel gives it back when we die, however we die.

    Raises:
        RecapError: somebody else holds it, with the process id; or the folder is not writable.
    """
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        handle = (run_dir / "lock").open("a+")
    except OSError as error:
        raise RecapError(f"{run_dir}: cannot write: {error.strerror}; set log_dir to a writable folder") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            handle.seek(0)
            raise RecapError(
                f"{run_dir} is in use by process {handle.read().strip() or '?'}: wait, or stop that one"
            ) from error
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield
