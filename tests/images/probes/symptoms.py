# ruff: noqa: PLW1510  # each symptom imports what it needs; a failing program is what is being looked at
"""Provoke one documented symptom of upstream's CUDA-only code, with RLinf's own code; argument: its name.

Prints what a user would see: the last line is {"seen": text}. The caller has a time limit, which fits the machine.
"""

import contextlib
import importlib
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = "/opt/rlinf/examples/offline_rl/advantage_labeling/recap/process/run_compute_advantages.sh"


class Reached(Exception):
    """The code under test got past the place where it used to fail."""


def stop(*_args, **_kwargs):
    """Stand in for what comes after that place."""
    raise Reached


def worker_set_device():
    """A worker's __init__, from after its base classes have chosen the device to its first use of the cluster."""
    module = importlib.import_module("rlinf.workers.sft.fsdp_cfg_worker")
    module.Worker.__init__ = module.FSDPModelManager.__init__ = lambda self, *_: None
    module.FSDPCfgWorker._world_size, module.FSDPCfgWorker._rank = 1, 0
    module.Cluster = module.HybridComponentPlacement = stop  # whatever comes first; Ray itself is not at issue
    config = type("Config", (), {"actor": None})()
    try:
        module.FSDPCfgWorker(config)
    except Reached:
        return "the worker starts"
    except (AttributeError, RuntimeError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return "no verdict"


def silent_cpu():
    """The device that step 3 chooses when it is started as one process."""
    module = importlib.import_module("rlinf.data.process.distributed")
    return "device " + str(module.setup_distributed({})[2]).partition(":")[0]


def nccl():
    """Two processes of step 3, started as its script does, with the configuration that it ships."""
    code = (
        "import os, sys, yaml; sys.path[:0] = ['/opt/rlinf']\n"
        "from rlinf.data.process.distributed import setup_distributed, cleanup_distributed\n"
        "cfg = yaml.safe_load(open('/opt/rlinf/examples/offline_rl/config/recap_compute_advantages.yaml'))\n"
        "rank, size, device = setup_distributed(cfg)\n"
        "import torch, torch.distributed as dist\n"
        "t = torch.ones(1, device=device); dist.all_reduce(t)\n"
        "seen = f'backend {dist.get_backend()} sum {int(t.item())} device {device.partition(\":\")[0]}'\n"
        "os.write(1, (seen + '\\n').encode())\n"  # at once: print writes in pieces, and both processes write
        "cleanup_distributed()\n"
    )
    path = Path(tempfile.mkdtemp(), "two.py")
    path.write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29611", str(path)],
        capture_output=True,
        text=True,
    )
    told = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("backend") or "Error:" in line]
    return told[0] if told else f"exit code {done.returncode}: {done.stderr[-500:]}"


def stand_in(name, body, version="9.9"):
    """An installed package that is unusable in the documented way; returns the folder for PYTHONPATH."""
    root = Path(tempfile.mkdtemp())
    (root / name).mkdir()
    (root / name / "__init__.py").write_text(body)
    info = root / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return str(root)


def torchcodec():
    """The first frame of a value dataset, with a torchcodec installed that was built for CUDA."""
    sys.path.insert(0, stand_in("torchcodec", "raise OSError('libnvrtc.so.13: cannot open shared object file')\n"))
    from rlinf_npu.recap import lerobot_alias
    from rlinf_npu.smoke.fixtures.datasets import Episode, make_dataset

    lerobot_alias.install()
    root = Path(tempfile.mkdtemp(), "tiny")
    with contextlib.redirect_stdout(io.StringIO()):
        make_dataset(root, (Episode(4, True),), 0)
    for name in ("value_dataset", "value_model"):
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(f"rlinf.data.datasets.recap.{name}")
            break
    module.load_returns_sidecar = stop  # the dataset is open by then
    dataset = module.ValueDataset.__new__(module.ValueDataset)
    with contextlib.suppress(Reached):
        dataset.__init__(str(root), "libero", "pi05")
    try:
        frame = dataset._base[0]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"a frame of {list(next(v for k, v in frame.items() if 'image' in k).shape)}"


def tensorflow():
    """RLinf and then transformers imported, with a tensorflow installed that crashes beside torch_npu."""
    folder = stand_in("tensorflow", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n", "2.19.0")
    code = "import rlinf\nfrom transformers.image_transforms import center_crop\nprint('imported')"
    env = {**os.environ, "PYTHONPATH": folder + ":" + os.environ.get("PYTHONPATH", "")}
    env.pop("USE_TF", None)  # the image sets it too; the fix has to do without
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if done.returncode < 0:
        return f"the process dies of signal {-done.returncode}"
    return done.stdout.strip() or done.stderr[-300:]


def gpus_one():
    """What the script of step 3 says about the number of cards. What it would start is replaced."""
    folder = Path(tempfile.mkdtemp())
    for name in ("python", "torchrun"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", SCRIPT, "any"], env=env, capture_output=True, text=True)
    return next((line.strip() for line in done.stdout.splitlines() if "GPUs:" in line), done.stderr[-300:])


def exit_code():
    """The exit code of a training script whose training fails."""
    folder = Path(tempfile.mkdtemp())
    (folder / "python").write_text("#!/bin/sh\necho training failed >&2\nexit 7\n")
    (folder / "python").chmod(0o755)
    script = Path(tempfile.mkdtemp(), "rlinf")
    subprocess.run(["cp", "-r", "/opt/rlinf", str(script)], check=True)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    run = script / "examples/offline_rl/advantage_labeling/recap/run_value_sft.sh"
    done = subprocess.run(["bash", str(run), "recap_value_model_sft"], env=env, capture_output=True, text=True)
    return f"exit code {done.returncode}"


def advantage_tag():
    """Labels read for step 4 with a whole path as advantage_tag, as the seed found it in a configuration."""
    import pandas

    worker = importlib.import_module("rlinf.workers.sft.fsdp_cfg_worker").FSDPCfgWorker
    root = Path(tempfile.mkdtemp())
    (root / "meta").mkdir()
    path = root / "meta" / "advantages.parquet"
    pandas.DataFrame({"episode_index": [0], "frame_index": [0], "advantage": [True]}).to_parquet(path)
    try:
        labels = worker._load_advantages_lookup(str(root), str(path))
    except FileNotFoundError as error:
        return "FileNotFoundError: " + str(error).replace(str(root), "<dataset>")
    return f"labels {labels}"


def autocast():
    """What mixed precision gives for a multiplication under RLinf's own context."""
    import types
    import warnings

    import torch

    manager = importlib.import_module("rlinf.hybrid_engines.fsdp.fsdp_model_manager").FSDPModelManager
    amp = types.SimpleNamespace(enabled=True, precision="bf16")
    config = types.SimpleNamespace(fsdp_config=types.SimpleNamespace(amp_autocast=amp))
    model = types.SimpleNamespace(_cfg=config, _logger=logging.getLogger())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with manager._create_amp_context(model):
            result = torch.ones(2, 2, device="npu:0") @ torch.ones(2, 2, device="npu:0")
    told = [warning for warning in warned if "CUDA is not available" in str(warning.message)]
    return f"{result.dtype}{', with a warning that CUDA is not available' if told else ''}"


if __name__ == "__main__":
    print(json.dumps({"seen": globals()[sys.argv[1]]()}))
