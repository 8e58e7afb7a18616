"""Names that the host-side unit tests share with their fixtures."""

from collections.abc import Callable
from pathlib import Path

AddProgram = Callable[[str, str], Path]
# Path -> (status, body).
Answer = Callable[[str], tuple[int, bytes]]
# Starts a server that gives these answers; returns its host:port.
Serve = Callable[[Answer], str]


class Said(list[str]):
    """Collects what a user would have read."""

    def __call__(self, line: str) -> None:
        self.append(line)

    @property
    def text(self) -> str:
        return "\n".join(self)
