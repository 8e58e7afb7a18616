"""How long a fresh container takes until RLinf on torch_npu is imported, against an environment that is warm."""

import os
import subprocess
import time

from imagekit.bench.common import Row, median, simulated_run
from imagekit.engine import Engine
from imagekit.manifest import Manifest, Platform
from imagekit.process import Say

IMPORTS = ("python", "-c", "import torch, torch_npu, rlinf")


def start_rows(manifest: Manifest, engine: Engine, platform: Platform, say: Say, repeat: int) -> list[Row]:
    """Measure the import in a new container against the same in one that runs already: what a container costs.

    Both read the same files from the same (warm) page cache; a host's own environment would need CANN on the host.
    """
    options, image = simulated_run(manifest, platform)
    created = [*engine.docker, "run", "--detach", "--rm", *options, image, "sleep", "infinity"]
    name = _run(engine, created).strip()
    try:
        _timed(engine, [*engine.docker, "exec", name, *IMPORTS])  # the page cache is warm from here on
        warm = median(lambda: _timed(engine, [*engine.docker, "exec", name, *IMPORTS]), repeat, say, "import, warm")
    finally:
        _run(engine, [*engine.docker, "kill", name])
    fresh_command = [*engine.docker, "run", "--rm", *options, image, *IMPORTS]
    fresh = median(lambda: _timed(engine, fresh_command), repeat, say, "import, fresh container")
    ratio = f"{fresh / warm:.2f} x"
    return [Row("import torch, torch_npu, rlinf", f"{fresh:.1f} s", f"warm environment {warm:.1f} s", ratio, "1.3 x")]


def _timed(engine: Engine, command: list[str]) -> float:
    begin = time.monotonic()
    _run(engine, command)
    return time.monotonic() - begin


def _run(engine: Engine, command: list[str]) -> str:
    done = subprocess.run(command, env=os.environ | engine.env, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
