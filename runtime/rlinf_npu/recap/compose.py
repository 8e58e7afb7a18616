"""The configuration RLinf gets: a base, then everything that recap decides, then the user's overrides.

The base is upstream's own YAML where the source has it (composed by Hydra), else ours in `configs/`.
"""

import io
import os
import warnings
from pathlib import Path
from typing import Any

from rlinf_npu.recap.config import Config, Dataset, Training
from rlinf_npu.recap.errors import UsageError
from rlinf_npu.recap.layout import CONFIG_NAMES, EXPERIMENTS, Run
from rlinf_npu.recap.source import Source

OURS = Path(__file__).with_name("configs")


def views(config: Config, run: Run) -> list[tuple[Dataset, Path]]:
    """All datasets, training sets first, with their views."""
    everything = [*config.datasets.train, *config.datasets.eval]
    return [(dataset, run.view(index, dataset.path.name)) for index, dataset in enumerate(everything)]


def train_views(config: Config, run: Run) -> list[tuple[Dataset, Path]]:
    """Training sets with their views."""
    return views(config, run)[: len(config.datasets.train)]


def returns_settings(config: Config, run: Run) -> dict[str, Any]:
    """What recap decides about step 1. Evaluation sets need returns too."""
    step = config.returns
    entries = [{"dataset_path": str(view), "type": dataset.type} for dataset, view in views(config, run)]
    return {
        "data": {
            "data_root": None,
            "train_data_paths": entries,
            "gamma": step.gamma,
            "failure_reward": step.failure_reward,
            "tag": config.tag,
            "num_workers": step.workers,
        }
    }


def value_settings(config: Config, run: Run, source: Source, log_dir: Path, cards: int) -> dict[str, Any]:
    """What recap decides about step 2."""
    step = config.value
    evals = views(config, run)[len(config.datasets.train) :]
    data = {
        "tag": config.tag,
        "train_data_paths": [{**_entry(d, view), "model_type": "pi05"} for d, view in train_views(config, run)],
        "eval_data_paths": [
            {
                "dataset_path": str(view),
                "max_samples": step.eval_max_samples,
                "robot_type": dataset.robot,
                "model_type": "pi05",
            }
            for dataset, view in evals
        ],
        "train_num_workers": step.loaders,
        "eval_num_workers": step.eval_loaders,
        "gamma": config.returns.gamma,
        "robot_type": config.datasets.train[0].robot,
        "model_type": "pi05",
        "do_augment": step.augment,
    }
    model = {
        "model_type": source.value_model_type,
        "precision": step.precision,
        "siglip_path": str(config.models.siglip),
        "gemma3_path": str(config.models.gemma3),
        "tokenizer_path": str(config.tokenizer),
        "critic_expert_variant": step.expert,
    }
    val_every = step.val_every if evals else -1
    settings = _training("value_sft", step, config, log_dir, cards, val_every)
    settings["data"] = data
    settings["actor"]["model"] = model
    settings["actor"]["optim"]["value_lr"] = step.value_lr
    return settings


def advantage_settings(config: Config, run: Run, checkpoint: Path) -> dict[str, Any]:
    """What recap decides about step 3."""
    step = config.advantages
    return {
        "advantage": {
            "value_checkpoint": str(checkpoint),
            "batch_size": step.batch,
            "num_dataloader_workers_per_gpu": step.loaders,
            "positive_quantile": step.positive_quantile,
            "tag": config.tag,
            "returns_tag": config.tag,
            "model": {
                "critic_expert_variant": config.value.expert,
                "tokenizer_path": str(config.tokenizer),
                "siglip_path": str(config.models.siglip),
                "gemma3_path": str(config.models.gemma3),
            },
        },
        "data": {
            "model_type": "pi05",
            "train_data_paths": [_entry(dataset, view) for dataset, view in train_views(config, run)],
            "advantage_lookahead_step": step.lookahead,
            "gamma": config.returns.gamma,
        },
        "distributed": {"enabled": True, "backend": step.backend, "timeout": step.timeout},
    }


def policy_settings(config: Config, run: Run, log_dir: Path, cards: int) -> dict[str, Any]:
    """What recap decides about step 4. The advantage tag is step 3's, never a path."""
    step = config.policy
    settings = _training("cfg_rl", step, config, log_dir, cards, -1)
    settings["data"] = {
        "num_workers": step.loaders,
        "advantage_tag": config.tag,
        "train_data_paths": [
            {"dataset_path": str(view), "type": dataset.type, "weight": dataset.weight}
            for dataset, view in train_views(config, run)
        ],
    }
    settings["actor"]["model"] = {
        "model_path": str(config.models.policy),
        "model_type": "cfg_model",
        "openpi": {
            "config_name": step.openpi_config,
            "cfgrl_guidance_scale": step.guidance_scale,
            "unconditional_prob": step.unconditional_prob,
        },
    }
    settings["actor"]["fsdp_config"]["gradient_checkpointing"] = step.gradient_checkpointing
    return settings


def compose(source: Source, step: str, settings: dict[str, Any], overrides: dict[str, Any]) -> str:
    """Merge base, settings and dotted overrides into YAML for RLinf.

    Raises:
        UsageError: an override does not fit, with its key.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    config = _base(source, step)
    OmegaConf.set_struct(config, False)
    config = OmegaConf.merge(config, settings)
    for key, value in overrides.items():
        try:
            OmegaConf.update(config, key, value, merge=False)
        except OmegaConfBaseException as error:
            raise UsageError(f"overrides: {key}: {str(error).splitlines()[0]}") from error
    text = io.StringIO()
    OmegaConf.save(config, text)
    return text.getvalue()


def _base(source: Source, step: str) -> Any:
    from omegaconf import OmegaConf

    directory = source.config_dir
    if directory is None:
        return OmegaConf.load(OURS / f"{CONFIG_NAMES[step]}.yaml")
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    os.environ.setdefault("REPO_PATH", str(source.home))  # upstream's YAML looks it up
    with warnings.catch_warnings(), initialize_config_dir(str(directory), version_base=None):
        warnings.simplefilter("ignore", UserWarning)  # upstream's lists lack _self_; the order is right all the same
        return hydra_compose(CONFIG_NAMES[step])


def _entry(dataset: Dataset, view: Path) -> dict[str, Any]:
    return {
        "dataset_path": str(view),
        "type": dataset.type,
        "weight": dataset.weight,
        "robot_type": dataset.robot,
    }


def _training(name: str, step: Training, config: Config, log_dir: Path, cards: int, val_every: int) -> dict[str, Any]:
    return {
        "cluster": {
            "num_nodes": config.nodes,
            "component_placement": {"actor,env,rollout": f"0-{cards * config.nodes - 1}"},
        },
        "runner": {
            "logger": {
                "log_path": str(log_dir),
                "experiment_name": EXPERIMENTS[name],
                "logger_backends": ["tensorboard"],
            },
            "max_epochs": step.max_epochs,
            "max_steps": step.max_steps,
            "val_check_interval": val_every,
            "save_interval": step.save_every,
        },
        "actor": {
            "micro_batch_size": step.micro_batch,
            "global_batch_size": step.global_batch,
            "seed": config.seed,
            "optim": {
                "lr": step.lr,
                "lr_scheduler": step.scheduler,
                "lr_warmup_steps": step.warmup_steps,
                "total_training_steps": step.total_steps,
            },
            "fsdp_config": {"strategy": step.strategy, "sharding_strategy": step.sharding},
        },
    }
