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
    """After a checkpoint is loaded, skip the samples of the epoch that were already used.

    The worker's own methods cannot be replaced here: Ray has taken hold of them before it makes the worker. So the step
    is noted where the worker calls its FSDP strategy, and used where it sets its loader to the epoch.
    """
    from rlinf.data.datasets.recap.common import BaseDataLoaderImpl
    from rlinf.hybrid_engines.fsdp.strategy.base import FSDPStrategyBase

    load, set_epoch = FSDPStrategyBase.__dict__["load_checkpoint"], BaseDataLoaderImpl.set_epoch
    pending: list[tuple[int, int]] = []  # (finished steps, micro batches a step)

    def load_and_note(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = load.__func__(type(self), *args, **kwargs)
        path = Path(kwargs.get("load_path") or args[3])
        step = path.parent.name.rsplit("_", 1)[-1]
        if step.isdigit():
            accumulation = self.cfg.global_batch_size // self.cfg.micro_batch_size // self.world_size
            pending[:] = [(int(step), accumulation)]
        return result

    def set_epoch_and_skip(self: Any, epoch: int) -> None:
        set_epoch(self, epoch)
        if pending:
            skip_used(self._data_loader, *pending.pop())

    FSDPStrategyBase.load_checkpoint = load_and_note
    BaseDataLoaderImpl.set_epoch = set_epoch_and_skip


def skip_used(loader: Any, step: int, accumulation: int) -> None:
    """Let the loader's next pass begin where the checkpoint of a global step left its epoch."""
    steps_per_epoch = max(1, len(loader) // accumulation)
    batches = (step % steps_per_epoch) * accumulation
    skip_once(loader.sampler, batches * loader.batch_size)
    print(f"recap: resumed at step {step}, the epoch goes on at its micro batch {batches}", flush=True)


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
