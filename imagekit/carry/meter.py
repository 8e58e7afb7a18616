"""Bytes on their way: a bar on a terminal, a line every ten seconds elsewhere."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

Advance = Callable[[int], None]
EVERY = 10.0  # seconds between two lines
MB = 1e6


@contextlib.contextmanager
def meter(
    console: Console, what: str, total: int | None = None, then: str = "", closing: bool = True
) -> Iterator[Advance]:
    """Show how `what` gets on; the yielded function is told of further bytes.

    Args:
        console: where to.
        what: the work, in a few words.
        total: bytes in all, None when nobody knows.
        then: what goes on when all bytes are there; minutes may pass with it.
        closing: off a terminal, end with a line that says how much came in which time.
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

            def advance(size: int) -> None:
                progress.advance(task, size)
                if then and progress.tasks[0].completed >= (total or math.inf):
                    progress.update(task, description=then)

            yield advance
        return
    with _Lines(console, what, total, then, closing) as lines:
        yield lines.advance


class _Lines:
    """A line every ten seconds, whether anything moves or not, and one at a good end."""

    def __init__(self, console: Console, what: str, total: int | None, then: str, closing: bool) -> None:
        self._console, self._what, self._total, self._then, self._closing = console, what, total, then, closing
        self._done, self._begun, self._ended = 0, time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> "_Lines":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None and self._closing:
            self._say(f"{self._what}: {self._done / MB:,.1f} MB in {self._seconds:.1f} s")

    def advance(self, size: int) -> None:
        self._done += size

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _tell(self) -> None:
        while not self._ended.wait(EVERY):
            done = self._then and self._done >= (self._total or math.inf)
            amount = f"{self._done / MB:,.0f}" + (f"/{self._total / MB:,.0f} MB" if self._total else " MB")
            self._say(f"{self._then or self._what} ({self._seconds:.0f} s)" if done else self._line(amount))

    def _line(self, amount: str) -> str:
        return f"{self._what}: {amount} ({self._seconds:.0f} s)"

    def _say(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)


def counted(data: Iterable[bytes], advance: Advance) -> Iterator[bytes]:
    """Pass `data` on and report its size."""
    for piece in data:
        advance(len(piece))
        yield piece
