"""What recap costs over the four bare commands."""

import json
import os
import statistics
import subprocess

from imagekit.bench.common import Row
from imagekit.compose.host import simulated_mounts
from imagekit.compose.record import find_built
from imagekit.compose.render import sim_services
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest, Platform
from imagekit.planner import SIM_DRIVER
from imagekit.process import Say
from imagekit.tags import SIM


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
