"""How long a fresh container takes until RLinf on torch_npu is imported, against an environment that is warm."""

import time

from imagekit.bench.common import Add, Row, docker, median, simulated_run
from imagekit.engine import Engine
from imagekit.manifest import Manifest, Platform
from imagekit.process import Say

IMPORTS = ("python", "-c", "import torch, torch_npu, rlinf")


def start_rows(manifest: Manifest, engine: Engine, platform: Platform, say: Say, repeat: int, add: Add) -> None:
    """Measure the import in a new container against the same in one that runs already: what a container costs.

    Both read the same files from the same (warm) page cache; a host's own environment would need CANN on the host.
    """
    options, image = simulated_run(manifest, platform)
    name = docker(engine, "run", "--detach", "--rm", *options, image, "sleep", "infinity").strip()
    try:
        _timed(engine, "exec", name, *IMPORTS)  # the page cache is warm from here on
        warm = median(lambda: _timed(engine, "exec", name, *IMPORTS), repeat, say, "import, warm")
    finally:
        docker(engine, "kill", name)
    fresh = median(
        lambda: _timed(engine, "run", "--rm", *options, image, *IMPORTS), repeat, say, "import, fresh container"
    )
    ratio = f"{fresh / warm:.2f} x"
    add(Row("import torch, torch_npu, rlinf", f"{fresh:.1f} s", f"warm environment {warm:.1f} s", ratio, "1.3 x"))


def _timed(engine: Engine, *words: str) -> float:
    begin = time.monotonic()
    docker(engine, *words)
    return time.monotonic() - begin
