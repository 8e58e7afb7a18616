"""RLinf extension (RLINF_EXT_MODULE): runs once in every worker process, before the worker is made.

RLinf does not seed its workers, and on resume it starts the epoch's data again. Both would make a resumed run end
elsewhere than an undisturbed one.
"""

import importlib
import os
import random
from pathlib import Path
from typing import Any

from rlinf_npu.recap.drivers import stacks


def register() -> None:
    """Seed this process, make resume exact, then hand on to the user's own extension."""
    stacks.listen()
    seed_process(int(os.environ.get("RECAP_SEED", "0")) + int(os.environ.get("RANK", "0")))
    resume_mid_epoch()
    chained = os.environ.get("RECAP_EXT_MODULE")
    if chained:
        importlib.import_module(chained).register()


def seed_process(seed: int) -> None:
    """Seed Python, NumPy and torch."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def resume_mid_epoch() -> None:
    """After a checkpoint is loaded, skip the samples of the epoch that were already used."""
    from rlinf.hybrid_engines.fsdp.fsdp_model_manager import FSDPModelManager

    original = FSDPModelManager.load_checkpoint
    if getattr(original, "_recap", False):
        return

    def load_checkpoint(self: Any, load_path: str, *args: Any, **kwargs: Any) -> Any:
        result = original(self, load_path, *args, **kwargs)
        step = Path(load_path).parent.name.rsplit("_", 1)[-1]
        if step.isdigit():
            skip_used(self, int(step))
        return result

    load_checkpoint._recap = True  # type: ignore[attr-defined]
    FSDPModelManager.load_checkpoint = load_checkpoint


def skip_used(worker: Any, step: int) -> None:
    """Let the next pass over the worker's sampler begin where the checkpoint left the epoch."""
    loader = getattr(getattr(worker, "data_loader", None), "_data_loader", None)
    sampler = getattr(loader, "sampler", None)
    if loader is None or sampler is None:
        return
    steps_per_epoch = max(1, len(loader) // worker.gradient_accumulation)
    batches = (step % steps_per_epoch) * worker.gradient_accumulation
    skip_once(sampler, batches * loader.batch_size)


def skip_once(sampler: Any, count: int) -> None:
    """Drop the first `count` indices of the sampler's next pass; later passes are whole.

    At the sampler, because dropping an index costs nothing, while skipping batches would decode their videos.
    """
    kind = type(sampler)

    class Resumed(kind):  # type: ignore[misc, valid-type]
        _recap_skip = 0

        def __iter__(self) -> Any:
            indices = list(super().__iter__())
            skip, self._recap_skip = self._recap_skip, 0
            return iter(indices[skip:])

    sampler.__class__ = Resumed
    sampler._recap_skip = count
