"""Environment variables of a step's processes: what upstream's shell scripts set, and what keeps a run to itself."""

import hashlib
import os
import tempfile
from pathlib import Path

from rlinf_npu.recap.config import Config
from rlinf_npu.recap.layout import Run
from rlinf_npu.recap.source import CONFIG, Source

RUN_MARK = "RECAP_RUN"  # every process of a run carries it; it is how leftovers are recognised
EXT_MODULE = "rlinf_npu.recap.drivers.worker_ext"
CHAINED_EXT = "RECAP_EXT_MODULE"
SEED = "RECAP_SEED"
STACKS = "RECAP_STACKS"  # folder in which processes write their stacks when they get SIGUSR2
RAY_SOCKET_LIMIT = 40  # Ray's sockets live deep below its folder, and a unix socket's path holds 107 bytes


def run_mark(run: Run) -> str:
    """Value of RUN_MARK: the run's folder, hashed."""
    return hashlib.sha256(str(run.root).encode()).hexdigest()[:12]


def ray_dir(run: Run) -> Path:
    """Ray's folder of this run; short, because of the limit on socket names."""
    base = os.environ.get("RECAP_RAY_BASE") or tempfile.gettempdir()
    if len(base) > RAY_SOCKET_LIMIT:
        base = "/tmp"
    return Path(base) / f"recap-ray-{os.getuid()}-{run_mark(run)}"


def step_environment(config: Config, run: Run, source: Source) -> dict[str, str]:
    """Return the whole environment of a step's processes."""
    env = dict(os.environ)
    cache = Path(env.get("XDG_CACHE_HOME") or run.root.parent / ".cache")
    defaults = {
        "HF_HOME": str(cache / "huggingface"),
        "HF_DATASETS_CACHE": str(cache / "huggingface" / "datasets"),
        "HF_HUB_OFFLINE": "1",  # all models are local folders: never wait for a network that is not there
        "MUJOCO_GL": "osmesa",
        "PYOPENGL_PLATFORM": "osmesa",
        "TOKENIZERS_PARALLELISM": "false",
    }
    for name, value in defaults.items():
        env.setdefault(name, value)
    env.update(
        REPO_PATH=str(source.home),
        EMBODIED_PATH=str(source.home / "examples"),
        OFFLINE_RL_CONFIG=str(source.home / CONFIG),
        PYTHONPATH=_join(str(source.home), env.get("PYTHONPATH", "")),
        PYTHONUNBUFFERED="1",
        USE_TF="0",
        AV_LOG_FORCE_NOCOLOR="1",
        OPENCV_LOG_LEVEL="off",
        RAY_TMPDIR=str(ray_dir(run)),
        # RLinf asks for address "auto", which takes *any* Ray it finds on the machine. "local" starts our own.
        RAY_ADDRESS=config.ray_address or "local",
        RAY_USAGE_STATS_ENABLED="0",
        RLINF_EXT_MODULE=EXT_MODULE,
        **{CHAINED_EXT: config.ext_module or env.get("RLINF_EXT_MODULE", ""), SEED: str(config.seed)},
        **{RUN_MARK: run_mark(run)},
    )
    if config.models.openpi_home is not None:
        env["OPENPI_DATA_HOME"] = str(config.models.openpi_home)
    return env


def _join(first: str, rest: str) -> str:
    """Prepend to a path list, without empty elements."""
    return ":".join([first, *[part for part in rest.split(":") if part and part != first]])
