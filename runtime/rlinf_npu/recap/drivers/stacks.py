"""Stacks on request: SIGUSR2 makes this process write where all its threads are.

py-spy tells the same from outside, but where the kernel lets a process look only at its own children (Ubuntu's default)
it may not look at ours.
"""

import faulthandler
import os
import signal
from pathlib import Path
from typing import IO

_open: list[IO[str]] = []  # faulthandler needs the file to stay open


def listen() -> None:
    """Begin to listen, when `recap` has named a folder (RECAP_STACKS)."""
    folder = os.environ.get("RECAP_STACKS")
    if not folder or _open:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    _open.append((Path(folder) / f"{os.getpid()}.txt").open("w", encoding="utf-8"))
    faulthandler.register(signal.SIGUSR2, file=_open[0], all_threads=True)
