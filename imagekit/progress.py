"""Follow a build through `--progress=rawjson`: a bar on a terminal, plain lines elsewhere, a timeline for the bench.

Format: https://github.com/docker/buildx/pull/2262, one BuildKit SolveStatus document per event on standard error;
buildx 0.13 indents them over many lines, later releases write one a line. Text that is no JSON is buildx's last word.
"""

import base64
import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

# "[rlinf-npu packages 2/3] RUN ..." -> rlinf-npu; "[rlinf-npu internal] load ..." is bookkeeping
STEP = re.compile(r"^\[(?P<target>[a-z0-9-]+) (?P<stage>(?!internal|context)[^\]]*)\] (?P<command>.*)$", re.DOTALL)
HEARTBEAT = 30.0


@dataclass
class Vertex:
    """One step of the build graph; times are seconds since the epoch."""

    name: str = ""
    started: float | None = None
    completed: float | None = None
    cached: bool = False
    error: str = ""
    log: list[str] = field(default_factory=list)
    partial: str = ""
    transfers: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The image this step belongs to, or an empty string for bookkeeping."""
        match = STEP.match(self.name)
        return match["target"] if match else ""

    @property
    def seconds(self) -> float:
        """Wall time; 0 while it is unknown."""
        return self.completed - self.started if self.started and self.completed else 0.0

    @property
    def title(self) -> str:
        """The step on one line, without its options."""
        return re.sub(r"--mount=\S+\s*", "", " ".join(self.name.split()))[:100]


def documents(lines: Iterable[str]) -> Iterator[dict[str, Any] | str]:
    """Split buildx's standard error into JSON documents and plain lines."""
    pending: list[str] = []
    for line in lines:
        text = line.rstrip("\n")
        if not pending and not text.startswith("{"):
            yield text
            continue
        pending.append(text)
        if not text.endswith("}") or (len(pending) > 1 and text != "}"):
            continue
        try:
            yield json.loads("\n".join(pending))
            pending = []
        except json.JSONDecodeError:
            continue
    yield from pending


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", stamp).replace("Z", "+00:00")).timestamp()


class Build:
    """What is known of a running build."""

    def __init__(self) -> None:
        """Start with nothing known."""
        self.vertexes: dict[str, Vertex] = {}
        self.words: list[str] = []  # buildx's own text

    def feed(self, document: dict[str, Any] | str) -> list[Vertex]:
        """Take one event in; return the steps that it completed."""
        if isinstance(document, str):
            self.words.append(document)
            return []
        for status in document.get("statuses") or []:
            if total := status.get("total"):
                self._at(status["vertex"]).transfers[status["id"]] = (status.get("current", 0), total)
        for entry in document.get("logs") or []:
            self._log(self._at(entry["vertex"]), base64.b64decode(entry["data"]).decode(errors="replace"))
        return [v for entry in document.get("vertexes") or [] if (v := self._update(entry))]

    def _at(self, digest: str) -> Vertex:
        return self.vertexes.setdefault(digest, Vertex())

    @staticmethod
    def _log(vertex: Vertex, text: str) -> None:
        *whole, vertex.partial = (vertex.partial + text).split("\n")
        vertex.log += [line.rsplit("\r", 1)[-1] for line in whole]

    def _update(self, entry: dict[str, Any]) -> Vertex | None:
        vertex = self._at(entry["digest"])
        was = vertex.completed
        vertex.name = entry.get("name", vertex.name)
        vertex.cached = entry.get("cached", vertex.cached)
        vertex.error = entry.get("error", "")
        for key in ("started", "completed"):
            if stamp := entry.get(key):
                setattr(vertex, key, _seconds(stamp))
        return vertex if vertex.completed and not was else None

    @property
    def steps(self) -> list[Vertex]:
        """The steps that are somebody's work."""
        return [v for v in self.vertexes.values() if v.target]

    @property
    def running(self) -> list[Vertex]:
        """What is going on, oldest first."""
        active = [v for v in self.vertexes.values() if v.started and not v.completed]
        return sorted(active, key=lambda v: v.started or 0)

    @property
    def failed(self) -> Vertex | None:
        """The step that broke the build (others are merely cancelled)."""
        broken = [v for v in self.vertexes.values() if v.error and "context canceled" not in v.error]
        return broken[0] if broken else None

    def target_seconds(self, target: str) -> float:
        """Wall seconds from the first step of `target` to its last, cached ones left out."""
        spans = [v for v in self.steps if v.target == target and not v.cached and v.completed and v.started]
        return max((v.completed or 0) for v in spans) - min((v.started or 0) for v in spans) if spans else 0.0

    def target_cached(self, target: str) -> bool:
        """Whether nothing had to be done for `target`: sources are always looked at, that is not work."""
        own = [v for v in self.steps if v.target == target and "] FROM " not in v.name]
        return all(v.cached for v in own)

    def timeline(self) -> list[dict[str, Any]]:
        """Return the steps with start and duration in seconds, longest first."""
        begin = min((v.started for v in self.vertexes.values() if v.started), default=0.0)
        rows = [
            {
                "step": v.title,
                "start": round((v.started or 0) - begin, 2),
                "seconds": round(v.seconds, 2),
                "cached": v.cached,
            }
            for v in self.vertexes.values()
            if v.completed and v.name
        ]
        return sorted(rows, key=lambda row: -row["seconds"])


def _activity(build: Build) -> str:
    for vertex in reversed(build.running):
        moving = [(c, t) for c, t in vertex.transfers.values() if c < t]
        if moving:
            done, total = sum(c for c, _ in moving), sum(t for _, t in moving)
            return f"{vertex.title[:60]}  {done / 1e6:.0f}/{total / 1e6:.0f} MB"
        tail = next((line for line in reversed(vertex.log) if line.strip()), "")
        return f"{vertex.title[:60]}  {tail.strip()[:60]}"
    return ""


def follow(lines: Iterable[str], console: Console, label: str) -> Build:
    """Show a build while it runs and return what was seen."""
    return _follow_bar(lines, console, label) if console.is_terminal else _follow_lines(lines, console)


def _follow_bar(lines: Iterable[str], console: Console, label: str) -> Build:
    build = Build()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} steps"),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=console)
    task = progress.add_task(label, total=None)
    view = Table.grid()
    view.add_row(progress)
    with Live(view, console=console, refresh_per_second=5, transient=True) as live:
        for document in documents(lines):
            build.feed(document)
            done = sum(1 for v in build.steps if v.completed)
            progress.update(task, completed=done, total=len(build.steps) or None)
            view = Table.grid()
            view.add_row(progress)
            view.add_row(f"[dim]{_activity(build)}[/dim]" if build.running else "")
            live.update(view)
    return build


def _follow_lines(lines: Iterable[str], console: Console) -> Build:
    build, last = Build(), time.monotonic()
    for document in documents(lines):
        for vertex in build.feed(document):
            if vertex.target and not vertex.cached:
                done = sum(1 for v in build.steps if v.completed)
                console.print(
                    f"[{done}/{len(build.steps)}] {vertex.seconds:6.1f}s {vertex.title}", markup=False, soft_wrap=True
                )
                last = time.monotonic()
        if time.monotonic() - last > HEARTBEAT:
            console.print(f"  ... {_activity(build)}", markup=False, soft_wrap=True)
            last = time.monotonic()
    return build
