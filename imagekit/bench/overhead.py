"""What recap costs over the four bare commands."""

import json
import statistics

from imagekit.bench.common import Add, Row, simulated_run
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import Manifest, Platform
from imagekit.process import Say, follow


def recap_overhead(manifest: Manifest, engine: Engine, platform: Platform, say: Say, repeat: int, add: Add) -> None:
    """Run the four steps on the tiny fixtures through `recap` and as bare commands, in one container with two cards.

    Raises:
        Problem: no simulated image, or a run failed.
    """
    options, image = simulated_run(manifest, platform)
    command = [*engine.docker, "run", "--rm", *options, "--shm-size=32g", "--tmpfs=/work:exec,mode=1777", image]
    command += ["python", "-m", "rlinf_npu.recap.overhead", "/work", str(repeat)]
    say("the four steps through recap and bare, in turns")
    done = follow(command, lambda line: say(f"  {line.rstrip()}"), env=engine.env)
    if not done.ok:
        raise Problem("a run of the four steps failed, see above", "make test-smoke must work first")
    result = next(line for line in reversed(done.out.splitlines()) if line.startswith("{"))
    seconds: dict[str, list[float]] = json.loads(result)
    # Of each pair: a machine that is faster at noon than in the morning is so for both of a turn.
    ratio = statistics.median(recap / bare for recap, bare in zip(seconds["recap"], seconds["bare"], strict=True))
    recap, bare = (statistics.median(seconds[name]) for name in ("recap", "bare"))
    measured, against = f"{recap:.1f} s", f"four bare commands {bare:.1f} s"
    add(Row("recap, tiny run", measured, against, f"{ratio:.3f} x", "1.05 x, 300 s"))
