"""Has the machine room for the run: disk for the checkpoints, shared memory for Ray, cards for the batches?"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from rlinf_npu.recap.cards import batch_problem
from rlinf_npu.recap.check.datasets import INFO
from rlinf_npu.recap.check.finding import Finding, error, ok, warning
from rlinf_npu.recap.check.models import saved_weights
from rlinf_npu.recap.check.safetensors_file import read_table
from rlinf_npu.recap.config import Config, Training

GB = 1e9
SHM = Path("/dev/shm")
SHM_NEEDED = 2 * GB  # per machine, for Ray's object store and the data loaders' batches
# A checkpoint holds the weights twice (shards and full_weights.pt) and two Adam moments, in float32 at most.
BYTES_PER_WEIGHT = 4
BYTES_PER_PARAMETER = 4 * BYTES_PER_WEIGHT
VALUE_HEAD_PARAMETERS = 34_200_000  # what RLinf's value expert and head (gemma_1m) add to SigLIP and Gemma


def parameters(folder: Path) -> int:
    """Return the number of parameters in a model's safetensors files; 0 when they cannot be read."""
    try:
        if saved := saved_weights(folder):
            return saved.stat().st_size // BYTES_PER_WEIGHT
        return sum(read_table(path).parameters for path in folder.glob("*.safetensors"))
    except (ValueError, OSError):
        return 0


def frames(config: Config) -> int:
    """Return the number of frames in the training sets; 0 when one of them cannot be read."""
    try:
        infos = [json.loads((dataset.path / INFO).read_text(encoding="utf-8")) for dataset in config.datasets.train]
        counts = [int(info["total_frames"]) for info in infos]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return sum(counts) if all(counts) else 0


def checkpoint_count(step: Training, frames_: int) -> tuple[int, int]:
    """Return (global steps, checkpoints) that the settings imply."""
    per_epoch = max(1, frames_ // step.global_batch)
    limits = [per_epoch * step.max_epochs] if step.max_epochs > 0 else []
    limits += [step.max_steps] if step.max_steps > 0 else []
    steps = min(limits)
    return steps, -(-steps // step.save_every)


def check_disk(config: Config) -> Iterator[Finding]:
    """Compare the checkpoints' size with the free space of log_dir."""
    root = next(path for path in (config.run_dir, *config.run_dir.parents) if path.exists())
    if not os.access(root, os.W_OK):
        yield error(root, "log_dir is not writable", f"chown it to uid {os.getuid()}, or set LOG_DIR")
        return
    free = shutil.disk_usage(root).free
    if unknown := _unknown(config):
        text = f"what the checkpoints need cannot be told without {unknown}; {free / GB:.0f} GB are free"
        yield warning(root, text, f"put {unknown} in order first")
        return
    value = parameters(config.models.siglip) + parameters(config.models.gemma3) + VALUE_HEAD_PARAMETERS
    needed, told = 0.0, []
    for name, step, size in (
        ("value", config.value, value),
        ("policy", config.policy, parameters(config.models.policy)),
    ):
        steps, count = checkpoint_count(step, frames(config))
        needed += count * size * BYTES_PER_PARAMETER
        told.append(f"{name} {count} x {size * BYTES_PER_PARAMETER / GB:.1f} GB ({steps} steps)")
    text = f"checkpoints need up to {needed / GB:.0f} GB: {', '.join(told)}; {free / GB:.0f} GB are free"
    if needed > free:
        fix = "raise save_every, lower max_epochs or max_steps, or `recap clean --checkpoints` now and then"
        # One of each must fit, or nothing works; all of them only if nobody ever cleans up.
        largest = max(value, parameters(config.models.policy)) * BYTES_PER_PARAMETER
        yield error(root, text, fix) if 2 * largest > free else warning(root, text, fix)
    else:
        yield ok(root, text)


def _unknown(config: Config) -> str:
    """What would be needed to know the checkpoints' number and size, and is not readable; empty when all is."""
    folders = (config.models.siglip, config.models.gemma3, config.models.policy)
    lacking = [
        "the models" if not all(parameters(folder) for folder in folders) else "",
        "the training sets" if not frames(config) else "",
    ]
    return " and ".join(filter(None, lacking))


def check_shm(path: Path) -> Iterator[Finding]:
    """Docker gives 64 MB unless told otherwise; Ray then works on disk, and data loaders die with a bus error."""
    if not path.is_dir():
        yield error(path, "missing", "run the container with --shm-size=32g")
        return
    size = shutil.disk_usage(path).total
    text = f"{size / GB:.1f} GB of shared memory"
    if size < SHM_NEEDED:
        yield error(path, text, f"Ray and the data loaders need {SHM_NEEDED / GB:.0f} GB and more: --shm-size=32g")
    else:
        yield ok(path, text)


def check_cards(config: Config, available: int) -> Iterator[Finding]:
    """Compare the cards that are visible with what is asked for, and with the batch sizes."""
    wanted = available if config.cards == "auto" else config.cards
    if available == 0:
        yield error("cards", "no NPU is visible", "give the container its devices (`doctor` says what is missing)")
        return
    if wanted > available:
        yield error(
            "cards", f"{wanted} asked for, {available} visible", f"set cards: {available}, or give more devices"
        )
    else:
        yield ok("cards", f"{wanted} of {available} visible")
    for name, step in (("value", config.value), ("policy", config.policy)):
        everywhere = max(1, wanted) * config.nodes
        problem = batch_problem(name, step.micro_batch, step.global_batch, everywhere)
        if problem:
            yield error("recap.yaml", *problem.split("; ", 1))
        elif 0 < (found := frames(config)) < step.micro_batch * everywhere:
            text = f"{found} training frames, {name} needs {step.micro_batch} x {everywhere} for one step"
            yield error("recap.yaml", text, f"lower {name}.micro_batch, or use fewer cards")
