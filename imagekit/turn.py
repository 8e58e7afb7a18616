"""One build at a time in a checkout: two would write the same files and fight for the same tags."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from imagekit.process import Say


@contextlib.contextmanager
def my_turn(lock: Path, say: Say) -> Iterator[None]:
    """Wait, and say so, until no other build holds `lock`. The kernel gives it back whatever ends the holder."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another build of this checkout is running: waiting for it to end.")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
