"""What a change costs: seconds of the rebuild, bytes of the new layers, bytes that somebody who pulls has to fetch."""

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from imagekit.bench.common import Add, Row, build, built_tag, docker, layers, median
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.locks import LOCKS
from imagekit.manifest import ROOT, Manifest, Platform
from imagekit.process import Say
from imagekit.publish.push import push
from imagekit.registry import RegistryClient, parse
from imagekit.registry.server import LoopbackRegistry, loopback_registry

RUNTIME_FILE = "runtime/rlinf_npu/recap/cli.py"
LOCK_EDITED = "the lock edited"
APT_LINE = "        tini \\\n"  # the last package of cann-base's list


@dataclass(frozen=True)
class Change:
    """One kind of change, what it touches, and what was promised for it."""

    label: str
    file: str
    target: str
    edit: Callable[[str], str]


def commented(text: str) -> str:
    """Return the text with one more comment, different each time."""
    return f"{text}# {time.time_ns()}\n"


def one_more_system_package(text: str) -> str:
    """Return cann-base's Dockerfile with one more small package, and an argument that no earlier build had.

    Raises:
        Problem: the list is no longer where this looks for it.
    """
    if APT_LINE in text:
        longer = text.replace(APT_LINE, f"        less \\\n{APT_LINE}", 1)
        return longer.replace("\nRUN ", f"\nARG TURN={time.time_ns()}\nRUN ", 1)
    raise Problem("images/cann-base/Dockerfile has no list that ends in tini", "keep bench/changes.py in step with it")


def changes(machine: str) -> tuple[Change, ...]:
    """Return the kinds of change, the cheap ones first. Packages are in uv's cache."""
    return (
        Change("one NPU fix edited", "runtime/rlinf_npu/npufix/fixes/worker_set_device.py", "10 s, 5 MB", commented),
        Change("one runtime file edited", RUNTIME_FILE, "15 s, 10 MB", commented),
        Change(LOCK_EDITED, str((LOCKS / f"{machine}.txt").relative_to(ROOT)), "90 s", commented),
        Change("one apt package added", "images/cann-base/Dockerfile", "-", one_more_system_package),
    )


@dataclass(frozen=True)
class Rebuilt:
    """What a rebuild took: wall seconds, bytes of new layers (unpacked), seconds of the last image's export."""

    seconds: float
    new: int
    export: float


@contextmanager
def edited(folder: Path, file: str, edit: Callable[[str], str]) -> Iterator[float]:
    """Edit a file of a copy of the checkout and build; afterwards it has its old text, and is built (cached) so.

    Yields:
        The seconds of the build with the edit.
    """
    path = folder / file
    text = path.read_text(encoding="utf-8")
    path.write_text(edit(text), encoding="utf-8")
    os.sync()  # what the build before left to be written is not this one's
    yield build(folder)
    path.write_text(text, encoding="utf-8")
    build(folder)


def rebuild(engine: Engine, platform: Platform, folder: Path, change: Change) -> Rebuilt:
    """Make the change in a copy of the checkout that has been built, and measure the build."""
    before = layers(engine, built_tag(folder, platform))
    with edited(folder, change.file, change.edit) as seconds:
        after = layers(engine, built_tag(folder, platform))
        new = sum(size for layer, size in after.items() if layer not in before)
        return Rebuilt(seconds, new, export_seconds(folder))


def export_seconds(folder: Path) -> float:
    """Return how long the last build in `folder` took to compress, store and unpack rlinf-npu."""
    (timeline,) = (folder / "build").glob("timeline-*.json")
    steps = json.loads(timeline.read_text(encoding="utf-8"))
    return sum(float(step["seconds"]) for step in steps if step["step"] == "[rlinf-npu] exporting to image")


def copy_seconds(engine: Engine, tag: str) -> float:
    """Return the seconds of a plain copy of the Python packages, the bulk of the image, on the engine's disk."""
    script = 'begin=$EPOCHREALTIME; cp -a /opt/venv /copy; echo "$begin $EPOCHREALTIME"'
    said = docker(engine, "run", "--rm", "--network=none", "--entrypoint=bash", tag, "-c", script)
    begin, end = (float(word) for word in said.split()[-2:])
    return end - begin


def change_rows(engine: Engine, platform: Platform, folder: Path, say: Say, repeat: int, add: Add) -> None:
    """Measure each kind of change `repeat` times, on a copy of the checkout that has been built."""
    for change in changes(platform.machine):
        figures: list[Rebuilt] = []
        for turn in range(repeat):
            figures.append(rebuild(engine, platform, folder, change))
            say(f"  {change.label} {turn + 1}/{repeat}: {figures[-1].seconds:.1f} s, {figures[-1].new / 1e6:.1f} MB")
        seconds, new = statistics.median(f.seconds for f in figures), max(f.new for f in figures)
        add(Row(change.label, f"{seconds:.1f} s, {new / 1e6:.1f} MB new", "", "", change.target))
        if change.label == LOCK_EDITED:
            export = statistics.median(f.export for f in figures)
            copy = median(lambda: copy_seconds(engine, built_tag(folder, platform)), repeat, say, "a plain copy")
            measured, against = f"{export:.1f} s", f"plain copy {copy:.1f} s"
            add(Row("export of the packages", measured, against, f"{export / copy:.2f} x", "1.5 x"))


def update_row(manifest: Manifest, engine: Engine, platform: Platform, folder: Path, say: Say) -> Row:
    """Push an image and the same with one runtime file edited; compare what the second adds to the registry.

    That is what a host with the first has to fetch for the second. The registry is Debian's, on loopback.
    """
    with loopback_registry(say) as registry:
        first = _blobs(manifest, engine, built_tag(folder, platform), registry)
        with edited(folder, RUNTIME_FILE, commented):
            second = _blobs(manifest, engine, built_tag(folder, platform), registry)
    new = [size for digest, size in second.items() if digest not in first]
    fetched, whole = sum(new), sum(second.values())
    measured = f"{fetched / 1e6:.2f} MB in {len(new)} blobs"
    return Row("pull of a code-only update", measured, f"whole {whole / 1e6:,.0f} MB", f"{fetched / whole:.4f}", "5 MB")


def _blobs(manifest: Manifest, engine: Engine, tag: str, registry: LoopbackRegistry) -> dict[str, int]:
    """Push an image; return its compressed layers and its configuration, digest to bytes."""
    environ = registry.environ | {"REGISTRY": f"{registry.host}/bench"}
    sent = push(manifest, engine, tag, Console(stderr=True), environ)
    image = parse(sent.reference)
    found = RegistryClient.of(image, environ=environ).manifest(image)
    return {blob.digest: blob.size for blob in (*found.layers, found.config)}
