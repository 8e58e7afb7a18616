"""Measure what building and running cost, as ratios in one run on one machine: seconds say more about the machine.

Nothing here is asserted by a test. Builds are made from a copy of the tracked files, so the checkout stays as it is.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from imagekit.builder import unpacked_size
from imagekit.compose.host import simulated_mounts
from imagekit.compose.record import REAL, find_built
from imagekit.compose.render import sim_services
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.locks import LOCKS
from imagekit.manifest import ROOT, Manifest, Platform
from imagekit.network import NetworkSettings
from imagekit.planner import SIM_DRIVER
from imagekit.process import Say
from imagekit.tags import SIM

REPORT = ROOT / "reports" / "bench.json"
IMAGES = ROOT / "images"


@dataclass(frozen=True)
class Row:
    """One line of the result: what was measured, against what, and what was promised."""

    name: str
    measured: str
    against: str
    result: str
    target: str


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
    run = subprocess.run([sys.executable, "build.py", "image"], cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        raise Problem(f"the build failed:\n{(run.stdout + run.stderr)[-2000:]}", "make image must work first")
    return time.monotonic() - begin


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
    for suffix in (REAL, SIM):
        if found := find_built(folder / "build", name, platform.arch, suffix):
            return found.reference
    raise Problem("no image has been built", "make image")


def edit_and_build(engine: Engine, platform: Platform, folder: Path, name: str) -> tuple[float, int]:
    """Add a comment to one file of a copy; return the seconds of the rebuild and the bytes of its new layers."""
    before = layers(engine, built_tag(folder, platform))
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write(f"# {time.time_ns()}\n")
    seconds = build(folder)
    after = layers(engine, built_tag(folder, platform))
    return seconds, sum(size for layer, size in after.items() if layer not in before)


@contextmanager
def cold_dockerfile(folder: Path) -> Iterator[Path]:
    """Write rlinf-npu's Dockerfile without its package cache: every download and unpacking happens again."""
    text = (IMAGES / "rlinf-npu" / "Dockerfile").read_text(encoding="utf-8")
    mount = "    --mount=type=cache,id=uv,target=/root/.cache/uv \\\n"
    if mount not in text:
        raise Problem("images/rlinf-npu/Dockerfile has no package cache to leave out", "keep bench.py in step with it")
    path = folder / "Dockerfile.cold"
    path.write_text(
        text.replace(mount, "").replace("export UV_LINK_MODE", "export UV_NO_CACHE=1 UV_LINK_MODE"), encoding="utf-8"
    )
    yield path


def packages_ours(manifest: Manifest, engine: Engine, base: str, secrets: dict[str, Path], folder: Path) -> float:
    """Return the seconds of our package step, cold."""
    contexts = {
        "cann-base": f"docker-image://{base}",
        "common": IMAGES / "common",
        "stubgen": IMAGES / "stubgen",
        "locks": LOCKS,
    }
    with cold_dockerfile(folder) as dockerfile:
        command = [*engine.docker, "buildx", "build", "--target=packages", "--no-cache", "--output=type=cacheonly"]
        command += [f"--file={dockerfile}", *(f"--build-context={name}={place}" for name, place in contexts.items())]
        command += [
            f"--build-arg=PYTHON_VERSION={manifest.versions.python}",
            f"--build-arg=UV_VERSION={manifest.versions.uv}",
        ]
        command += [*(f"--secret=id={name},src={path}" for name, path in secrets.items()), str(IMAGES / "rlinf-npu")]
        begin = time.monotonic()
        subprocess.run(command, env=os.environ | engine.env, check=True, capture_output=True)
        return time.monotonic() - begin


def packages_bare(manifest: Manifest, engine: Engine, base: str, secrets: dict[str, Path], machine: str) -> float:
    """Return the seconds of a bare `uv pip install` of the same lock on the same base, cold; uv is there already."""
    uv = Path(sys.executable).parent / "uv"
    # The vendor's Python by its path; uv's own static binary from the host.
    script = (
        f"uv venv -q -p /usr/local/python{manifest.versions.python}/bin/python3 /bare && date +%s.%N && "
        f"VIRTUAL_ENV=/bare uv pip install -q --no-deps --require-hashes -r /locks/{machine}.txt && date +%s.%N"
    )
    command = [*engine.docker, "run", "--rm", "--tmpfs=/tmp:exec", "--env=UV_NO_CACHE=1", "--env=UV_COMPILE_BYTECODE=1"]
    command += ["--env=UV_LINK_MODE=copy", f"--volume={uv}:/usr/local/bin/uv:ro", f"--volume={LOCKS}:/locks:ro"]
    command += [f"--volume={secrets['ca']}:/run/secrets/ca:ro", f"--volume={secrets['net']}:/run/secrets/net:ro"]
    command += [f"--volume={IMAGES / 'common' / 'with-net'}:/usr/local/bin/with-net:ro"]
    command += ["--entrypoint=with-net", base, "sh", "-ec", script]
    run = subprocess.run(command, env=os.environ | engine.env, check=True, capture_output=True, text=True)
    begin, end = (float(line) for line in run.stdout.split()[-2:])
    return end - begin


def median(measure: Callable[[], float], repeat: int, say: Say, label: str) -> float:
    """Measure `repeat` times, say each figure, and return the median."""
    figures = []
    for turn in range(repeat):
        figures.append(measure())
        say(f"  {label} {turn + 1}/{repeat}: {figures[-1]:.1f} s")
    return statistics.median(figures)


def recap_overhead(manifest: Manifest, engine: Engine, platform: Platform, say: Say, repeat: int) -> list[Row]:
    """Run the four steps on the tiny fixtures through `recap` and as bare commands, in one container with two cards.

    Raises:
        Problem: no simulated image, or a run failed.
    """
    built = find_built(ROOT / "build", "rlinf-npu", platform.arch, SIM)
    if built is None:
        raise Problem("no simulated image has been built", "make image BASE=sim")
    driver = ROOT / "build" / SIM_DRIVER / platform.arch
    cards = sim_services(built, simulated_mounts(manifest.devices, driver), manifest.devices)["cards"]
    command = [*engine.docker, "run", "--rm", "--shm-size=32g", "--tmpfs=/work:exec,mode=1777"]
    command += [f"--user={cards['user']}", *(f"--device={device}" for device in cards["devices"])]
    command += [f"--env={name}={cards['environment'][name]}" for name in manifest.devices.visible]
    command += [f"--volume={m['source']}:{m['target']}:ro" for m in cards["volumes"] if m["type"] == "bind"]
    command += ["--env=HOME=/tmp", built.reference, "python", "-m", "rlinf_npu.recap.overhead", "/work", str(repeat)]
    say("the four steps through recap and bare, in turns")
    run = subprocess.run(command, env=os.environ | engine.env, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        raise Problem("a run of the four steps failed", "make test-smoke must work first")
    seconds = {name: statistics.median(figures) for name, figures in json.loads(run.stdout).items()}
    ratio = seconds["recap"] / seconds["bare"]
    measured, against = f"{seconds['recap']:.1f} s", f"four bare commands {seconds['bare']:.1f} s"
    return [Row("recap, tiny run", measured, against, f"{ratio:.3f} x", "1.05 x")]


def build_rows(
    manifest: Manifest, engine: Engine, platform: Platform, network: NetworkSettings, say: Say, repeat: int
) -> list[Row]:
    """Measure builds: size, a change, the package step."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch) / "checkout"
        folder.mkdir()
        copy_checkout(folder)
        say("a first build, so that the rest is about changes")
        build(folder)
        tag = built_tag(folder, platform)
        base = built_tag(folder, platform, "cann-base")
        size = unpacked_size(engine, tag)
        budget = manifest.get_image("rlinf-npu").budget_mib
        rows.append(
            Row("image, unpacked", f"{size / 1e6:,.0f} MB", f"budget {budget} MiB", f"{size / (budget << 20):.2f}", "1")
        )
        seconds = median(lambda: build(folder), repeat, say, "no change")
        rows.append(Row("no change", f"{seconds:.1f} s", "", "", "10 s"))
        for label, name in (
            ("one NPU fix edited", "runtime/rlinf_npu/npufix/fixes/worker_set_device.py"),
            ("one runtime file edited", "runtime/rlinf_npu/recap/cli.py"),
        ):
            figures = [edit_and_build(engine, platform, folder, name) for _ in range(repeat)]
            seconds, new = statistics.median(f[0] for f in figures), max(f[1] for f in figures)
            say(f"  {label}: {seconds:.1f} s, {new / 1e6:.1f} MB")
            rows.append(Row(label, f"{seconds:.1f} s, {new / 1e6:.1f} MB new", "", "", "15 s, 10 MB"))
        with network.secrets() as secrets:
            ours = median(
                lambda: packages_ours(manifest, engine, base, secrets, folder), repeat, say, "our package step"
            )
            bare = median(
                lambda: packages_bare(manifest, engine, base, secrets, platform.machine), repeat, say, "bare uv"
            )
        rows.append(Row("packages, cold", f"{ours:.1f} s", f"bare uv {bare:.1f} s", f"{ours / bare:.2f} x", "1.3 x"))
    return rows


PARTS = ("build", "overhead")


def pick(only: str) -> tuple[str, ...]:
    """Return the parts to measure: the named one, or all.

    Raises:
        Problem: there is no such part.
    """
    if only and only not in PARTS:
        raise Problem(f"--only {only}: no such part", f"one of {', '.join(PARTS)}", usage=True)
    return (only,) if only else PARTS


def run(
    manifest: Manifest,
    engine: Engine,
    platform: Platform,
    network: NetworkSettings,
    say: Say,
    repeat: int,
    parts: tuple[str, ...] = PARTS,
) -> list[Row]:
    """Measure and return the rows."""
    rows = []
    if "build" in parts:
        rows += build_rows(manifest, engine, platform, network, say, repeat)
    if "overhead" in parts:
        rows += recap_overhead(manifest, engine, platform, say, repeat)
    return rows


def show(rows: list[Row], console: Console) -> None:
    """Print the rows and write reports/bench.json."""
    table = Table("case", "measured", "against", "ratio", "target", title="bench, medians", title_justify="left")
    for row in rows:
        table.add_row(*asdict(row).values())
    console.print(table)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
