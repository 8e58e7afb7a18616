"""Run a plan with `docker buildx bake` and say what came of it.

The docker SDK cannot drive BuildKit (docker/docker-py#2230): no secrets, no cache mounts, no named contexts. It does
the rest.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import NotFound
from rich.console import Console
from rich.table import Table

from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.planner import SIM_DRIVER
from imagekit.progress import Build, follow

GIB = 1 << 30
LAST_LINES = 30
MAKE_ROOM = "free some (docker system prune, docker buildx prune) or move the engine's data-root"

# What a step's last lines say, what that means, what to do. First match wins.
CAUSES = (
    (
        r"No space left on device|disk quota exceeded",
        "the disk filled up",
        "free some: docker system prune, docker buildx prune",
    ),
    (
        r"[Hh]ash mismatch|Hash Sum mismatch",
        "a download does not match its recorded hash",
        "do not go on with it: try without MIRROR; if it stays, find out who changed the file",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|certificate verif",
        "a TLS certificate is not trusted",
        "behind a proxy that intercepts TLS, set SSL_CERT_FILE to its CA bundle",
    ),
    (
        r"Temporary failure resolving|Could not resolve host|dns error|Failed to fetch|Connection (refused|timed out)",
        "the build has no network",
        "set HTTPS_PROXY if this network needs one, or MIRROR=cn",
    ),
    (
        r"image \"[^\"]*\": already exists",
        "another build tagged the same image at the same moment",
        "run it again: it goes on from the finished steps",
    ),
)
LOST_SESSION = r"no active sessions"


class LostSession(Problem):
    """BuildKit knows a step's result but not what it needs to make it again: seen after a part of its cache was pruned.

    Building the first image by itself has cured it each time.
    """


@dataclass(frozen=True)
class Built:
    """One image after a build; `size` is the unpacked size of all its layers in bytes."""

    name: str
    tags: list[str]
    digest: str
    size: int
    seconds: float
    cached: bool


def check_disk(folder: Path, need_gib: float, who: str = "the build", fix: str = MAKE_ROOM) -> None:
    """Refuse to start what cannot finish.

    Raises:
        Problem: less than `need_gib` free in `folder`; `who` needs it, `fix` is what to do.
    """
    if not folder.is_dir():  # a remote engine: its disk is not ours to look at
        return
    free = shutil.disk_usage(folder).free / GIB
    if free < need_gib:
        raise Problem(f"not enough disk in {folder}: {who} needs {need_gib:.0f} GiB, {free:.1f} GiB are free", fix)


def run_bake(
    engine: Engine, plan: dict[str, Any], targets: list[str], console: Console
) -> tuple[Build, dict[str, Any]]:
    """Build `targets` of a bake file; return what was seen and buildx's metadata by target.

    Raises:
        Problem: the build failed; the last lines of the failing step are shown first.
        KeyboardInterrupt: interrupted; images that were finished before are tagged, no other.
    """
    with tempfile.TemporaryDirectory() as folder:
        bake_file, metadata = Path(folder, "bake.json"), Path(folder, "metadata.json")
        bake_file.write_text(json.dumps(plan), encoding="utf-8")
        command = [*engine.docker, "buildx", "bake", f"--file={bake_file}", f"--metadata-file={metadata}"]
        command += ["--progress=rawjson", *targets]
        process = subprocess.Popen(
            command,
            env=os.environ | engine.env,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        if process.stderr is None:
            raise AssertionError("a pipe was asked for")
        try:
            build = follow(process.stderr, console, "building")
        except BaseException:
            _interrupt(process)
            raise
        if process.wait():
            raise _failure(build, console)
        for warning in warnings(build):
            console.print(warning, markup=False, highlight=False, soft_wrap=True)
        return build, json.loads(metadata.read_text(encoding="utf-8")) if metadata.is_file() else {}


def warnings(build: Build) -> list[str]:
    """Return what steps warn of (images/common/apt-locked does), each once: a step's log is not shown otherwise."""
    lines = (line for step in build.steps for line in step.log if line.startswith("warning: "))
    return list(dict.fromkeys(lines))


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Let buildx cancel the build itself: an image gets its tags as the last step of its own build."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _failure(build: Build, console: Console) -> Problem:
    step = build.failed
    if step is None:
        return Problem(f"the build failed: {' '.join(build.words[-3:]) or 'buildx gave no reason'}")
    lines = [*step.log, *filter(None, [step.partial])][-LAST_LINES:]
    for line in lines:
        console.print(f"  | {line}", markup=False, highlight=False, soft_wrap=True)
    code = match[0] if (match := re.search(r"exit code: \d+", step.error)) else step.error[:80]
    said = "\n".join([*lines, step.error])
    for pattern, what, fix in CAUSES:
        if re.search(pattern, said):
            return Problem(f"{what} in step {step.title}", fix)
    if re.search(LOST_SESSION, said):
        return LostSession(f"BuildKit lost the session of step {step.title}", "docker buildx prune --all, then again")
    return Problem(
        f"step failed ({code}): {step.title}", "its last lines are above; the next run goes on from the finished steps"
    )


def unpacked_size(engine: Engine, tag: str) -> int:
    """Return the sum of an image's layer sizes in bytes, as `docker history` counts them.

    containerd's store unpacks an image of this machine's architecture when it is built, any other one when a container
    of it is made; before that it does not know the sizes.
    """
    image = engine.client().images.get(tag)
    try:
        history = image.history()
    except NotFound:
        platform = f"{image.attrs['Os']}/{image.attrs['Architecture']}"
        engine.client(seconds=None).containers.create(tag, "true", platform=platform).remove()
        history = image.history()
    return sum(layer["Size"] for layer in history)


def build_images(engine: Engine, plan: dict[str, Any], console: Console) -> tuple[list[Built], Build]:
    """Build everything in `plan` and return one row per image, parent first; sizes are 0 outside of the engine."""
    targets = plan["group"]["default"]["targets"]
    try:
        build, metadata = run_bake(engine, plan, targets, console)
    except LostSession:
        first = next(name for name in targets if name != SIM_DRIVER)
        console.print(f"BuildKit has lost a part of its cache: building {first} by itself first, then all.")
        run_bake(engine, plan, [first], console)
        build, metadata = run_bake(engine, plan, targets, console)
    rows = []
    for name in targets:
        if name == SIM_DRIVER:
            continue
        tags = plan["target"][name]["tags"]
        digest = metadata.get(name, {}).get("containerimage.digest", "")
        in_engine = "type=image" in plan["target"][name]["output"][0]
        size = unpacked_size(engine, tags[0]) if in_engine else 0
        rows.append(Built(name, tags, digest, size, build.target_seconds(name), build.target_cached(name)))
    return rows, build


def show(rows: list[Built], console: Console, seconds: float) -> None:
    """Print the closing table."""
    # Images are built side by side: their own times overlap, and do not add up to the whole.
    columns = ("image", "tags", "digest", "size", "first to last step, s", "")
    table = Table(*columns, title=f"built in {seconds:.0f} s altogether", title_justify="left")
    for row in rows:
        how = "cached" if row.cached else "built"
        table.add_row(
            row.name, "\n".join(row.tags), row.digest[:19], f"{row.size / 1e6:,.0f} MB", f"{row.seconds:.1f}", how
        )
    console.print(table)
