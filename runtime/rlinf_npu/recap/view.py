"""What the user sees while a step runs: one live line on a terminal, one line a minute elsewhere."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from rlinf_npu.recap.progress import line

LINE_SECONDS = 60.0
Show = Callable[[dict[str, Any]], None]


class View:
    """Prints on a console."""

    def __init__(self, console: Console | None = None) -> None:
        """Standard output unless another console is given."""
        self.console = console or Console(highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print one line, with the time of day where lines are collected in a log."""
        stamp = "" if self.console.is_terminal else time.strftime("%H:%M:%S ")
        self.console.print(f"{stamp}{text}", markup=False)

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Show]:
        """Show a step's figures until the block ends."""
        started = time.monotonic()
        if self.console.is_terminal:
            with Live(console=self.console, refresh_per_second=2, transient=True) as live:
                yield lambda figures: live.update(Text(line(title, figures, time.monotonic() - started)))
            return
        self.say(f"{title}: started")
        last = started

        def show(figures: dict[str, Any]) -> None:
            nonlocal last
            if time.monotonic() - last >= LINE_SECONDS:
                last = time.monotonic()
                self.say(line(title, figures, last - started))

        yield show
