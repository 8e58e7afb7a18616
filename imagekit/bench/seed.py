"""Our cold build against the usual one: a single stage, one package after another."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from imagekit.bench.common import (
    IMAGES,
    REPOSITORY,
    Add,
    Row,
    built_tag,
    cold_dockerfile,
    docker,
    medians,
    remove_images,
)
from imagekit.engine import Engine
from imagekit.locks import LOCKS
from imagekit.lookup import CACHE
from imagekit.manifest import ROOT, Manifest, Platform
from imagekit.network import NetworkSettings
from imagekit.planner import EXPORT, FACTS
from imagekit.probe import Prober, probe_seconds
from imagekit.process import Say
from imagekit.rlinf_source import resolve_source

SEED_STYLE = ROOT / "bench" / "seed_style"
TAG = f"{REPOSITORY}:seed-style"


def image_ours(
    manifest: Manifest, engine: Engine, base: str, tree: Path, secrets: dict[str, Path], folder: Path
) -> float:
    """Return the seconds of rlinf-npu on a finished base, cold: no layer, no download is there already."""
    with cold_dockerfile(folder) as dockerfile:
        own = ["--target=rlinf-npu", f"--file={dockerfile}", f"--output={EXPORT},name={TAG}-ours"]
        own += [f"--build-context=stubgen={IMAGES / 'stubgen'}", f"--build-context=facts={FACTS}"]
        own += [f"--build-arg=UV_VERSION={manifest.versions.uv}", "--build-arg=NPU_FIXES=1"]
        own += [f"--build-arg=FILE_DATE={manifest.apt.seconds}"]
        return build_cold(manifest, engine, base, tree, secrets, [*own, str(IMAGES / "rlinf-npu")])


def image_seed_style(manifest: Manifest, engine: Engine, base: str, tree: Path, secrets: dict[str, Path]) -> float:
    """Return the seconds of the same packages and trees installed one after another in one stage, cold."""
    own = [f"--output=type=image,name={TAG}", str(SEED_STYLE)]
    return build_cold(manifest, engine, base, tree, secrets, own)


def build_cold(
    manifest: Manifest, engine: Engine, base: str, tree: Path, secrets: dict[str, Path], own: list[str]
) -> float:
    """Run `docker buildx build --no-cache` with the contexts that both ways share; return its seconds."""
    contexts = {
        "cann-base": f"docker-image://{base}",
        "common": IMAGES / "common",
        "locks": LOCKS,
        "rlinf-src": tree,
        "runtime-src": ROOT / "runtime",
    }
    command = ["buildx", "build", "--no-cache", "--provenance=false"]
    command += [f"--build-context={name}={place}" for name, place in contexts.items()]
    command += [f"--build-arg=PYTHON_VERSION={manifest.versions.python}"]
    command += [*(f"--secret=id={name},src={path}" for name, path in secrets.items()), *own]
    begin = time.monotonic()
    docker(engine, *command)
    return time.monotonic() - begin


def seed_rows(
    manifest: Manifest, engine: Engine, platform: Platform, network: NetworkSettings, say: Say, repeat: int, add: Add
) -> None:
    """Measure our cold build against the usual single-stage Dockerfile; both on a base that is built already."""
    base = built_tag(ROOT, platform, "cann-base")
    prober = Prober(probe_seconds(manifest.defaults.probe_seconds))
    tree = resolve_source(manifest, manifest.defaults.source, None, network, CACHE, say, prober).path

    def cold(label: str, build: Callable[[], float]) -> tuple[str, Callable[[], float]]:
        def measure() -> float:
            seconds = build()
            remove_images(engine, say)  # gigabytes; the next turn would have to replace them
            return seconds

        return label, measure

    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, network.secrets() as secrets:
        folder = Path(scratch)
        ours, seed = medians(
            cold("our image, cold", lambda: image_ours(manifest, engine, base, tree, secrets, folder)),
            cold("single stage, cold", lambda: image_seed_style(manifest, engine, base, tree, secrets)),
            repeat,
            say,
        )
    times = f"{seed / ours:.1f} x faster"
    add(Row("image, cold", f"{ours:.1f} s", f"single stage, pip {seed:.1f} s", times, "3 x"))
