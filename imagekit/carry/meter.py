"""Bytes on their way: a bar on a terminal, a line every few seconds elsewhere."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

Advance = Callable[[int], None]
EVERY = 5.0  # seconds between two lines
MB = 1e6


@contextlib.contextmanager
def meter(console: Console, what: str, total: int | None = None) -> Iterator[Advance]:
    """Show how `what` gets on; the yielded function is told of further bytes.

    Args:
        console: where to.
        what: the work, in a few words.
        total: bytes in all, None when nobody knows.
    """
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(what, total=total)
            yield lambda size: progress.advance(task, size)
        return
    lines = _Lines(console, what, total)
    yield lines
    lines.end()


class _Lines:
    def __init__(self, console: Console, what: str, total: int | None) -> None:
        self._console, self._what, self._total, self._done = console, what, total, 0
        self._begun = self._last = time.monotonic()

    def __call__(self, size: int) -> None:
        self._done += size
        now = time.monotonic()
        if now - self._last >= EVERY:
            self._last = now
            self._say(f"  {self._what}: {self._amount()} ({now - self._begun:.0f} s)")

    def end(self) -> None:
        self._say(f"  {self._what}: {self._done / MB:,.1f} MB in {time.monotonic() - self._begun:.1f} s")

    def _amount(self) -> str:
        return f"{self._done / MB:,.0f}" + (f"/{self._total / MB:,.0f} MB" if self._total else " MB")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def counted(data: Iterable[bytes], advance: Advance) -> Iterator[bytes]:
    """Pass `data` on and report its size."""
    for piece in data:
        advance(len(piece))
        yield piece
