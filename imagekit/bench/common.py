"""What the parts of the bench share: a row of the result, medians, builds from a copy of the checkout."""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from imagekit.compose.host import simulated_mounts
from imagekit.compose.record import find_built, find_newest
from imagekit.compose.render import sim_services
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest, Platform
from imagekit.planner import SIM_DRIVER
from imagekit.process import Say, run
from imagekit.tags import SIM

IMAGES = ROOT / "images"
REPOSITORY = "rlinf-npu-bench"  # of the images that are made to be measured, and of no other
REMOVAL_SECONDS = 120.0
IN_STEP = "keep without_caches in imagekit/bench/common.py in step with it"


@dataclass(frozen=True)
class Row:
    """One line of the result: what was measured, against what, and what was promised."""

    name: str
    measured: str
    against: str
    result: str
    target: str


Add = Callable[[Row], None]


def copy_checkout(folder: Path) -> None:
    """Copy the tracked files, and link what is expensive to make again."""
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, names.split("\0")):
        if (source := ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    for name in (".venv", ".cache", ".git"):
        (folder / name).symlink_to(ROOT / name)


def build(folder: Path) -> float:
    """Run `build.py image` in a copy of the checkout; return its wall seconds.

    Raises:
        Problem: the build failed.
    """
    begin = time.monotonic()
    done = run(("env", "--chdir", str(folder), sys.executable, "build.py", "image"))
    if not done.ok:
        raise Problem(f"the build failed:\n{(done.out + done.err)[-2000:]}", "make image must work first")
    return time.monotonic() - begin


def docker(engine: Engine, *words: str) -> str:
    """Run the engine's client to its end and return what it printed; with us it ends in good order.

    A client that is just killed leaves the engine at work, and the image of an interrupted build may still get its tag.

    Raises:
        Problem: it failed.
    """
    done = run((*engine.docker, *words), env=engine.env)
    if not done.ok:
        said = (done.out + done.err)[-2000:]
        raise Problem(f"docker {words[0]} failed in the bench:\n{said}", "make image must work first")
    return done.out


def remove_images(engine: Engine, say: Say) -> None:
    """Remove the bench's own images. Another Ctrl-C waits for it: they are gigabytes that nobody would look for."""
    kept = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        command = (
            *engine.docker,
            "image",
            "ls",
            "--format={{.Repository}}:{{.Tag}}",
            f"--filter=reference={REPOSITORY}",
        )
        tags = run(command, env=engine.env, seconds=REMOVAL_SECONDS).out.split()
        if not tags:
            return
        done = run((*engine.docker, "image", "rm", *tags), env=engine.env, seconds=REMOVAL_SECONDS)
        if not done.ok:
            say(f"not removed: {done.last_line}; docker image rm {' '.join(tags)}")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, kept)


@contextmanager
def own_images(engine: Engine, say: Say) -> Iterator[None]:
    """Whatever happens in the block leaves none of the bench's images, nor does a bench before that was killed."""
    remove_images(engine, say)
    try:
        yield
    finally:
        remove_images(engine, say)


def layers(engine: Engine, tag: str) -> dict[str, int]:
    """Return an image's layers, diff id to unpacked bytes, oldest first."""
    image = engine.client().images.get(tag)
    sizes = [entry["Size"] for entry in reversed(image.history()) if entry["Size"]]
    return dict(zip(image.attrs["RootFS"]["Layers"], sizes, strict=False))


def built_tag(folder: Path, platform: Platform, name: str = "rlinf-npu") -> str:
    """Return the immutable tag of the image `name` that was last built in `folder`.

    Raises:
        Problem: nothing has been built there.
    """
    if found := find_newest(folder / "build", name, platform.arch):
        return found.reference
    raise Problem("no image has been built", "make image")


def simulated_run(manifest: Manifest, platform: Platform) -> tuple[list[str], str]:
    """Return options of `docker run` for the simulated image with its cards, and the image.

    Raises:
        Problem: no simulated image has been built.
    """
    built = find_built(ROOT / "build", "rlinf-npu", platform.arch, SIM)
    if built is None:
        raise Problem("no simulated image has been built", "make image BASE=sim")
    mounts = simulated_mounts(manifest.devices, ROOT / "build" / SIM_DRIVER / platform.arch)
    cards = sim_services(built, mounts, manifest.devices)["cards"]
    options = [f"--user={cards['user']}", "--env=HOME=/tmp", *(f"--device={device}" for device in cards["devices"])]
    options += [f"--env={name}={cards['environment'][name]}" for name in manifest.devices.visible]
    options += [f"--volume={m['source']}:{m['target']}:ro" for m in cards["volumes"] if m["type"] == "bind"]
    return options, built.reference


def without_caches(dockerfile: str) -> str:
    """Return rlinf-npu's Dockerfile without the caches that carry work from one build to the next.

    Downloads, wheels that were built from source, bytecode: what it is compared with makes all of that anew as well.

    Raises:
        Problem: it has a cache that this does not know how to leave out.
    """
    text, steps = re.subn(r"^    --mount=type=cache,id=uv(?:-\w+)?,\S+ \\\n", "", dockerfile, flags=re.MULTILINE)
    # Without the mount uv's cache would be written into the layer.
    text, settings = re.subn(r"(?<= )UV_LINK_MODE=copy", "UV_NO_CACHE=1 UV_LINK_MODE=copy", text)
    text = re.sub(
        r"^    --mount=type=cache,id=(bytecode|apt-lists|apt-archives),\S+ \\\n", "", text, flags=re.MULTILINE
    )
    text = text.replace(" --cache=/root/.cache/bytecode", "")
    if left := next((line.strip() for line in text.splitlines() if "type=cache" in line or "--cache=" in line), ""):
        raise Problem(f"images/rlinf-npu/Dockerfile has a cache that the bench does not know: {left}", IN_STEP)
    if not steps or steps != settings:
        raise Problem(
            f"images/rlinf-npu/Dockerfile mounts uv's cache in {steps} steps and sets UV_LINK_MODE in {settings}",
            IN_STEP,
        )
    return text


@contextmanager
def cold_dockerfile(folder: Path) -> Iterator[Path]:
    """Write rlinf-npu's Dockerfile without its caches: everything is downloaded, unpacked and compiled again."""
    path = folder / "Dockerfile.cold"
    text = (IMAGES / "rlinf-npu" / "Dockerfile").read_text(encoding="utf-8")
    path.write_text(without_caches(text), encoding="utf-8")
    yield path


def median(measure: Callable[[], float], repeat: int, say: Say, label: str) -> float:
    """Measure `repeat` times, say each figure, and return the median."""
    return statistics.median(_measured(measure, say, f"{label} {turn + 1}/{repeat}") for turn in range(repeat))


def medians(
    one: tuple[str, Callable[[], float]], other: tuple[str, Callable[[], float]], repeat: int, say: Say
) -> tuple[float, float]:
    """Measure two things (label, measurement) in turns, each first as often as the other; return their medians."""
    figures: dict[str, list[float]] = {one[0]: [], other[0]: []}
    for turn in range(repeat):
        for label, measure in (one, other) if turn % 2 == 0 else (other, one):
            figures[label].append(_measured(measure, say, f"{label} {turn + 1}/{repeat}"))
    return statistics.median(figures[one[0]]), statistics.median(figures[other[0]])


def _measured(measure: Callable[[], float], say: Say, label: str) -> float:
    """Measure once. Gigabytes that the turn before left to be written would slow this one down."""
    os.sync()
    seconds = measure()
    say(f"  {label}: {seconds:.1f} s")
    return seconds
