"""How far a step is: from RLinf's runner, its TensorBoard values, or the progress bar in the log."""

import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlinf_npu.recap.scalars import Scalars
from rlinf_npu.recap.watchdog import tail

PROGRESS_FILE = "recap_progress.json"
BAR = re.compile(r"(\d+)%\|[^|]*\|\s*(\d+)/(\d+)")
SHOWN = (
    ("loss", ("train/loss",)),
    ("lr", ("train/learning_rate", "train/lr")),
    ("grad norm", ("train/grad_norm",)),
    ("conditional", ("train/conditional_ratio",)),
)


@dataclass
class Progress:
    """Reads the state of a running step. `batch`: samples per global step."""

    log: Path
    folder: Path
    batch: int | None = None
    started: float = field(default_factory=time.time)
    _scalars: Scalars | None = None

    def read(self) -> dict[str, Any]:
        """Return done, total and the figures that are known: loss, lr, grad norm, conditional, samples/s, eta."""
        if self.batch is None:
            return self._from_log()
        facts = read_json(self.folder / PROGRESS_FILE)
        if facts.get("time", 0) < self.started:
            return {}  # of an earlier attempt
        figures: dict[str, Any] = {"done": facts["global_step"], "total": facts["max_steps"]}
        if self._scalars is None:
            self._scalars = Scalars(self.folder / "tensorboard")
        scalars = self._scalars.refresh()
        for label, names in SHOWN:
            value = scalars.last(*names)
            if value is not None:
                figures[label] = value
        seconds = scalars.last("time/step")
        if seconds:
            figures["samples/s"] = self.batch / seconds
            figures["eta"] = seconds * (figures["total"] - figures["done"])
        return figures

    def _from_log(self) -> dict[str, Any]:
        bars = BAR.findall(tail(self.log, lines=5))
        return {"done": int(bars[-1][1]), "total": int(bars[-1][2])} if bars else {}


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON file's content; empty when it is missing or being replaced."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def line(title: str, figures: dict[str, Any], elapsed: float) -> str:
    """Return one line: step, fraction, figures, times."""
    parts = [title, duration(elapsed)]
    if "done" in figures:
        parts.append(f"{figures['done']}/{figures['total']}")
    else:
        parts.append("starting")
    for key, form in (
        ("loss", ".4g"),
        ("lr", ".3g"),
        ("grad norm", ".3g"),
        ("conditional", ".2f"),
        ("samples/s", ".3g"),
    ):
        if key in figures:
            parts.append(f"{key} {figures[key]:{form}}")
    if figures.get("eta"):
        parts.append(f"ETA {duration(figures['eta'])}")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """Return 42s, 3m05s or 2h07m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
