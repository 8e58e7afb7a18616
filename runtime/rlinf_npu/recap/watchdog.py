"""Notice a step that no longer does anything. RLinf's driver waits forever when a worker fails in its __init__."""

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

ERROR = re.compile(rb"Traceback \(most recent call last\)|RayActorError|ActorDiedError|ActorUnavailableError")
EXCEPTION = re.compile(
    r"^(?:\(.* pid=\d+[^)]*\) )?\s*((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt)(?:: .*|$))"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
MEMORY = "due to the node running low on memory"
LINE_WIDTH = 300  # RLinf's progress bar is 800 wide
FULL_BYTES = 4 << 20  # less free space than a checkpoint's smallest file is none


@dataclass
class Watchdog:
    """Looks at the log, the TensorBoard files and the checkpoints of a step.

    `silence`: seconds without any new byte that mean a hang. `after_error`: the same once the log shows an error.
    """

    log: Path
    folder: Path
    silence: float
    after_error: float
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    _last: float | None = None
    _offset: int = 0
    _error: bool = False

    def __post_init__(self) -> None:
        """Begin at the present end of the log."""
        self._offset = self.log.stat().st_size if self.log.is_file() else 0  # a resumed step appends to an old log

    def poll(self, now: float) -> str | None:
        """Return what is wrong, None while the step shows signs of life. `now` in seconds, any origin."""
        if self._last is None:
            self._last = now
        if self._changed():
            self._last = now
        quiet = now - self._last
        if self._error and quiet >= self.after_error:
            return f"an error is in the log and nothing happened for {quiet:.0f} s after it"
        if quiet >= self.after_error and (full := full_disk(self.folder)):
            return f"{full}, and nothing happened for {quiet:.0f} s"  # an error could not even be written down
        if quiet >= self.silence:
            return f"no log line, no TensorBoard value and no checkpoint for {quiet:.0f} s"
        return None

    def _changed(self) -> bool:
        current = {str(path): _signature(path) for path in signs_of_life(self.log, self.folder)}
        changed = current != self._seen
        self._seen = current
        self._scan_log()
        return changed

    def _scan_log(self) -> None:
        """Look for an error in what was appended since the last look."""
        if not self.log.is_file():
            return
        with self.log.open("rb") as handle:
            handle.seek(self._offset)
            text = handle.read()
        self._offset += len(text)
        if ERROR.search(text):
            self._error = True
        elif b"Global Step" in text:
            self._error = False  # it went on: that traceback was not the end


def full_disk(folder: Path) -> str:
    """Say that the file system of a folder is full; empty while it is not."""
    free = shutil.disk_usage(folder).free
    return f"No space left on device: {folder} has {free >> 10} KiB" if free < FULL_BYTES else ""


def signs_of_life(log: Path, folder: Path) -> list[Path]:
    """Return the files that grow or appear while a step works: log, TensorBoard's, checkpoints."""
    events = folder.glob("tensorboard/**/*")
    saved = folder.glob("*/checkpoints/**/*")
    return [path for path in (log, *events, *saved) if path.is_file()]


def _signature(path: Path) -> tuple[int, float]:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return (0, 0.0)
    return (stat.st_size, stat.st_mtime)


def tail(log: Path, lines: int = 30, most: int = 1 << 16) -> str:
    """Return the last lines of a log, without colours; of a progress bar's rewrites only the last state."""
    if not log.is_file():
        return ""
    with log.open("rb") as handle:
        handle.seek(max(0, log.stat().st_size - most))
        text = COLOUR.sub("", handle.read().decode(errors="replace"))
    written = [line.rsplit("\r", 1)[-1][:LINE_WIDTH] for line in text.split("\n") if line.strip()]
    return "\n".join(written[-lines:])


def cause(log: Path) -> str:
    """Return the last line of a log that names an exception, without Ray's prefix; empty when there is none."""
    if MEMORY in tail(log, 1000):
        return (
            "the machine ran out of memory and Ray ended a worker: fewer loaders, a smaller micro_batch, or more memory"
        )
    found = [match.group(1) for line in tail(log, 1000).splitlines() if (match := EXCEPTION.search(line))]
    return found[-1].strip() if found else ""
