"""What builds cost: size, a change, the package step against bare uv."""

import sys
import tempfile
import time
from pathlib import Path

from imagekit.bench.changes import change_rows, update_row
from imagekit.bench.common import (
    IMAGES,
    Add,
    Row,
    build,
    built_tag,
    cold_dockerfile,
    copy_checkout,
    docker,
    median,
    medians,
)
from imagekit.builder import unpacked_size
from imagekit.engine import Engine
from imagekit.locks import LOCKS
from imagekit.manifest import Manifest, Platform
from imagekit.network import NetworkSettings
from imagekit.process import Say


def packages_ours(manifest: Manifest, engine: Engine, base: str, secrets: dict[str, Path], folder: Path) -> float:
    """Return the seconds of our package step, cold."""
    contexts = {
        "cann-base": f"docker-image://{base}",
        "common": IMAGES / "common",
        "stubgen": IMAGES / "stubgen",
        "locks": LOCKS,
    }
    with cold_dockerfile(folder) as dockerfile:
        command = ["buildx", "build", "--target=packages", "--no-cache", "--output=type=cacheonly"]
        command += [f"--file={dockerfile}", *(f"--build-context={name}={place}" for name, place in contexts.items())]
        command += [
            f"--build-arg=PYTHON_VERSION={manifest.versions.python}",
            f"--build-arg=UV_VERSION={manifest.versions.uv}",
            f"--build-arg=FILE_DATE={manifest.apt.seconds}",
        ]
        command += [*(f"--secret=id={name},src={path}" for name, path in secrets.items()), str(IMAGES / "rlinf-npu")]
        begin = time.monotonic()
        docker(engine, *command)
        return time.monotonic() - begin


def packages_bare(manifest: Manifest, engine: Engine, base: str, secrets: dict[str, Path], machine: str) -> float:
    """Return the seconds of a bare `uv pip install` of the same lock on the same base, cold; uv is there already."""
    uv = Path(sys.executable).parent / "uv"
    # The vendor's Python by its path; uv's own static binary from the host.
    script = (
        f"uv venv -q -p /usr/local/python{manifest.versions.python}/bin/python3 /bare && date +%s.%N && "
        f"VIRTUAL_ENV=/bare uv pip install -q --no-deps --require-hashes -r /locks/{machine}.txt && date +%s.%N"
    )
    command = ["run", "--rm", "--tmpfs=/tmp:exec", "--env=UV_NO_CACHE=1", "--env=UV_COMPILE_BYTECODE=1"]
    command += ["--env=UV_LINK_MODE=copy", f"--volume={uv}:/usr/local/bin/uv:ro", f"--volume={LOCKS}:/locks:ro"]
    command += [f"--volume={secrets['ca']}:/run/secrets/ca:ro", f"--volume={secrets['net']}:/run/secrets/net:ro"]
    command += [f"--volume={IMAGES / 'common' / 'with-net'}:/usr/local/bin/with-net:ro"]
    command += ["--entrypoint=with-net", base, "sh", "-ec", script]
    begin, end = (float(line) for line in docker(engine, *command).split()[-2:])
    return end - begin


def build_rows(
    manifest: Manifest, engine: Engine, platform: Platform, network: NetworkSettings, say: Say, repeat: int, add: Add
) -> None:
    """Measure builds: size, no change, changes, what an update brings, the package step."""
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
        ratio = f"{size / (budget << 20):.2f}"
        add(Row("image, unpacked", f"{size / 1e6:,.0f} MB", f"budget {budget} MiB", ratio, "1"))
        seconds = median(lambda: build(folder), repeat, say, "no change")
        add(Row("no change", f"{seconds:.1f} s", "", "", "10 s"))
        change_rows(engine, platform, folder, say, repeat, add)
        add(update_row(manifest, engine, platform, folder, say))
        with network.secrets() as secrets:
            ours, bare = medians(
                ("our package step", lambda: packages_ours(manifest, engine, base, secrets, folder)),
                ("bare uv", lambda: packages_bare(manifest, engine, base, secrets, platform.machine)),
                repeat,
                say,
            )
        add(Row("packages, cold", f"{ours:.1f} s", f"bare uv {bare:.1f} s", f"{ours / bare:.2f} x", "1.3 x"))
