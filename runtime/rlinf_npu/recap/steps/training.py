"""Steps 2 and 4: RLinf's SFT runner with its value worker and its CFG worker."""

import math
from pathlib import Path
from typing import Any

from rlinf_npu.recap.atomic import write_text
from rlinf_npu.recap.checkpoint import MANIFEST, complete_checkpoints, problem, remove_unfinished, step_of
from rlinf_npu.recap.compose import compose, policy_settings, train_views, value_settings, views
from rlinf_npu.recap.config import Training
from rlinf_npu.recap.errors import StepFailed
from rlinf_npu.recap.fingerprint import file_digest, flatten
from rlinf_npu.recap.layout import CONFIG_NAMES, LOG_NAMES, checkpoints_dir
from rlinf_npu.recap.progress import PROGRESS_FILE, read_json
from rlinf_npu.recap.scalars import Scalars
from rlinf_npu.recap.state import StepState
from rlinf_npu.recap.steps.base import (
    Context,
    Step,
    cached_digest,
    dataset_inputs,
    launcher,
    result_name,
    source_inputs,
)

NOWHERE = Path("LOG_DIR")  # stands for the log folder where settings are compared


class TrainingStep(Step):
    """A step that trains and writes checkpoints."""

    resumable = True
    # Changing these does not make a checkpoint worthless: training goes on from it.
    free = (
        "settings.runner.max_epochs",
        "settings.runner.max_steps",
        "settings.runner.val_check_interval",
        "settings.runner.save_interval",
        "settings.cluster.",
        "settings.actor.micro_batch_size",
        "settings.data.num_workers",
        "settings.data.train_num_workers",
        "settings.data.eval_num_workers",
        "rlinf.",
    )

    def training(self, context: Context) -> Training:
        """Return this step's block of recap.yaml."""
        raise NotImplementedError

    def settings(self, context: Context, log_dir: Path) -> dict[str, Any]:
        """Return what recap decides."""
        raise NotImplementedError

    def table(self, context: Context) -> str:
        """Name of the table in meta/ that this step reads."""
        raise NotImplementedError

    def tables(self, context: Context) -> dict[str, Any]:
        """Digests of the tables made by the step before."""
        name = self.table(context)
        found = {}
        for dataset, view in views(context.config, context.run):
            path = view / "meta" / name
            if path.is_file():
                found[f"table.{dataset.path.name}.{name}"] = file_digest(path)
        return found

    def batch(self, context: Context) -> int | None:
        """Samples per global step."""
        return self.training(context).global_batch

    def inputs(self, context: Context) -> dict[str, Any]:
        """Settings, overrides, tables, datasets, models."""
        return {
            **flatten(self.settings(context, NOWHERE), "settings"),
            **flatten(self.training(context).overrides, "overrides"),
            **self.tables(context),
            **dataset_inputs(context, videos=True),
            **source_inputs(context),
        }

    def prepare(self, context: Context, log_dir: Path, resume: Path | None) -> tuple[list[str], Path]:
        """Write the configuration, with the checkpoint to go on from."""
        missing = [
            view / "meta" / self.table(context)
            for _, view in train_views(context.config, context.run)
            if not (view / "meta" / self.table(context)).is_file()
        ]
        if missing:
            raise StepFailed(f"{missing[0]} is missing: run the steps before this one")
        settings = self.settings(context, log_dir)
        if resume is not None:
            settings["runner"]["resume_dir"] = str(resume)
        remove_unfinished(checkpoints_dir(self.name, log_dir))
        (log_dir / PROGRESS_FILE).unlink(missing_ok=True)
        config_file = log_dir / f"{CONFIG_NAMES[self.name]}.yaml"
        write_text(config_file, compose(context.source, self.name, settings, self.training(context).overrides))
        return launcher(self.name, config_file, context.source.script(self.name)), log_dir / LOG_NAMES[self.name]

    def last_checkpoint(self, state: StepState) -> Path | None:
        """Newest complete checkpoint in the step's log folder."""
        if state.log_dir is None:
            return None
        found = complete_checkpoints(checkpoints_dir(self.name, state.log_dir))
        return found[-1] if found else None

    def collect(self, context: Context, state: StepState) -> dict[str, str]:
        """The runner must have finished, its last checkpoint be complete, its loss be a number."""
        assert state.log_dir is not None
        facts = read_json(state.log_dir / PROGRESS_FILE)
        if facts.get("status") != "finished":
            reached = f"at step {facts['global_step']} of {facts['max_steps']}" if facts else "before the first step"
            raise StepFailed(f"training ended {reached}")
        last = self.last_checkpoint(state)
        if last is None or step_of(last) != facts["max_steps"]:
            raise StepFailed(f"no complete checkpoint of step {facts['max_steps']}")
        scalars = Scalars(state.log_dir / "tensorboard").refresh()
        loss = scalars.last("train/loss")
        if loss is None or not math.isfinite(loss):
            raise StepFailed(f"train/loss is {loss} at the end: lower lr, or look at the data")
        state.figures = {"global_step": facts["max_steps"], "loss": loss, "checkpoint": str(last)}
        return {str(last / MANIFEST): file_digest(last / MANIFEST)}

    def damaged(self, context: Context, state: StepState) -> list[str]:
        """Look at the files that the manifest lists, too."""
        found = super().damaged(context, state)
        for name in state.outputs:
            wrong = problem(Path(name).parent)
            if wrong and not found:
                found.append(f"{Path(name).parent}: {wrong}")
        return found


class ValueSftStep(TrainingStep):
    """Step 2."""

    name = "value_sft"

    def training(self, context: Context) -> Training:
        """The block `value`."""
        return context.config.value

    def settings(self, context: Context, log_dir: Path) -> dict[str, Any]:
        """Value model, training and evaluation sets."""
        return value_settings(context.config, context.run, context.source, log_dir, context.cards)

    def table(self, context: Context) -> str:
        """Returns."""
        return result_name("returns", context.config.tag)

    def inputs(self, context: Context) -> dict[str, Any]:
        """And the pretrained parts of the value model."""
        models = context.config.models
        return {
            **super().inputs(context),
            "model.siglip": cached_digest(models.siglip),
            "model.gemma3": cached_digest(models.gemma3),
            "model.tokenizer": cached_digest(context.config.tokenizer),
        }


class CfgRlStep(TrainingStep):
    """Step 4."""

    name = "cfg_rl"

    def training(self, context: Context) -> Training:
        """The block `policy`."""
        return context.config.policy

    def settings(self, context: Context, log_dir: Path) -> dict[str, Any]:
        """Policy and training sets."""
        return policy_settings(context.config, context.run, log_dir, context.cards)

    def table(self, context: Context) -> str:
        """Advantages."""
        return result_name("advantages", context.config.tag)

    def inputs(self, context: Context) -> dict[str, Any]:
        """And the policy."""
        return {**super().inputs(context), "model.policy": cached_digest(context.config.models.policy)}
