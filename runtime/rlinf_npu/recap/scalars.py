"""TensorBoard scalars, read incrementally."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Series:
    """Values of one scalar by step; a resumed run overwrites the steps it repeats."""

    values: dict[int, float] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)

    @property
    def last(self) -> float:
        """Value at the highest step; NaN when there is none."""
        return self.values[max(self.values)] if self.values else math.nan


class Scalars:
    """All scalars below a TensorBoard folder. `refresh` reads only what is new."""

    def __init__(self, folder: Path) -> None:
        """`folder` may still be empty or missing."""
        self.folder = folder
        self.series: dict[str, Series] = {}
        self._loaders: dict[Path, Any] = {}

    def refresh(self) -> "Scalars":
        """Read what was appended since the last call."""
        for path in sorted(self.folder.rglob("events.out.tfevents.*")):
            for event in self._loader(path).Load():
                for value in event.summary.value:
                    if value.HasField("simple_value"):
                        series = self.series.setdefault(value.tag, Series())
                        series.values[event.step] = value.simple_value
                        series.times[event.step] = event.wall_time
        return self

    def _loader(self, path: Path) -> Any:
        if path not in self._loaders:
            # Imported late: it takes a second, and most commands do not need it.
            from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

            self._loaders[path] = LegacyEventFileLoader(str(path))
        return self._loaders[path]

    def last(self, *names: str) -> float | None:
        """Return the newest value of the first scalar that exists."""
        for name in names:
            if name in self.series and self.series[name].values:
                return self.series[name].last
        return None
