"""Steps 2 and 4: RLinf's own runner and workers, wired together as upstream's train scripts do."""

import os
from typing import Any


def name_our_ray() -> None:
    """Once Ray is up, have RAY_ADDRESS name it.

    RLinf's handler of a failed worker asks for the cluster's actors; with several Rays on a machine it asks the wrong
    one, or dies of the question and hides the failure.
    """
    import ray

    original = ray.init

    def init(*args: Any, **kwargs: Any) -> Any:
        context = original(*args, **kwargs)
        os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
        return context

    ray.init = init


def use_recap_runner() -> None:
    """Have upstream's scripts find our runner under the name they import."""
    import rlinf.runners.sft_runner as module

    from rlinf_npu.recap.drivers.runner import RecapRunner

    module.SFTRunner = RecapRunner


def worker_class(step: str) -> Any:
    """Return RLinf's worker of a training step."""
    if step == "value_sft":
        from rlinf.workers.sft.fsdp_value_sft_worker import FSDPValueSftWorker

        return FSDPValueSftWorker
    from rlinf.workers.sft.fsdp_cfg_worker import FSDPCfgWorker

    return FSDPCfgWorker


def run(step: str, loaded: Any) -> None:
    """Train one step on a finished configuration."""
    import torch.multiprocessing
    from rlinf.config import validate_cfg
    from rlinf.scheduler import Cluster
    from rlinf.utils.placement import HybridComponentPlacement

    from rlinf_npu.recap.drivers.runner import RecapRunner

    torch.multiprocessing.set_start_method("spawn", force=True)  # a forked child must not inherit a device
    config = validate_cfg(loaded)
    cluster = Cluster(cluster_cfg=config.cluster)
    placement = HybridComponentPlacement(config, cluster).get_strategy("actor")
    workers = worker_class(step).create_group(config)
    group = workers.launch(cluster, name=config.actor.group_name, placement_strategy=placement)
    runner = RecapRunner(cfg=config, actor=group)
    runner.init_workers()
    runner.run()
