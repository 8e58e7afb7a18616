"""Entry of a step's process: `python -m rlinf_npu.recap.drivers.launch STEP CONFIG [SCRIPT]`.

Runs upstream's script where there is one, else our thin driver. The working folder is the step's log folder.
"""

import ctypes
import runpy
import signal
import sys
from pathlib import Path

from rlinf_npu.recap.drivers import stacks

PR_SET_PDEATHSIG = 1
TRAINING = ("value_sft", "cfg_rl")


def main(argv: list[str]) -> None:
    """Prepare this process, then run the step."""
    step, config = argv[0], Path(argv[1])
    script = Path(argv[2]) if len(argv) > 2 else None
    die_with_parent()
    stacks.listen()
    if step in TRAINING:
        from rlinf_npu.recap.drivers import train

        train.name_our_ray()
        train.use_recap_runner()
    if script is not None:
        run_script(script, config)
    else:
        run_ours(step, config)
    if step == "advantages":
        from rlinf_npu.recap.drivers import device

        device.record(Path.cwd())


def die_with_parent() -> None:
    """Have the kernel end this process when its parent is killed: no step goes on without its `recap`."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run_script(script: Path, config: Path) -> None:
    """Run one of upstream's Hydra scripts on a finished configuration."""
    sys.path.insert(0, str(script.parent))
    sys.argv = [
        str(script),
        "--config-path",
        str(config.parent),
        "--config-name",
        config.stem,
        "hydra/job_logging=stdout",
        "hydra.run.dir=.",
        "hydra.output_subdir=null",
        "hydra.job.chdir=false",
    ]
    runpy.run_path(str(script), run_name="__main__")


def run_ours(step: str, config: Path) -> None:
    """Run our driver of a step."""
    from omegaconf import OmegaConf

    loaded = OmegaConf.load(config)
    if step == "returns":
        from rlinf_npu.recap.drivers import returns

        returns.run(loaded)
    elif step == "advantages":
        from rlinf_npu.recap.drivers import advantages

        advantages.run(loaded)
    else:
        from rlinf_npu.recap.drivers import train

        train.run(step, loaded)


if __name__ == "__main__":
    main(sys.argv[1:])
