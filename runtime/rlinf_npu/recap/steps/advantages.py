"""Step 3: value of every frame by the trained model, advantages and labels into meta/advantages.parquet."""

import json
import socket
import sys
from pathlib import Path
from typing import Any

from rlinf_npu.recap.atomic import write_text
from rlinf_npu.recap.checkpoint import MANIFEST, complete_checkpoints, problem
from rlinf_npu.recap.compose import advantage_settings, compose, train_views
from rlinf_npu.recap.config import Dataset
from rlinf_npu.recap.errors import StepFailed
from rlinf_npu.recap.fingerprint import file_digest, flatten
from rlinf_npu.recap.layout import CONFIG_NAMES, LOG_NAMES, checkpoints_dir
from rlinf_npu.recap.state import StepState, load_state
from rlinf_npu.recap.steps.base import (
    Context,
    TableStep,
    dataset_inputs,
    launcher,
    result_name,
    source_inputs,
)

COLUMNS = (
    "episode_index",
    "frame_index",
    "advantage_continuous",
    "return",
    "value_current",
    "value_next",
    "reward_sum",
    "reward_sum_raw",
    "num_valid_rewards",
    "dataset_name",
    "advantage",
)
FINITE = COLUMNS[2:9]


class AdvantagesStep(TableStep):
    """Runs upstream's compute_advantages.py or our driver, one process a card."""

    name = "advantages"
    columns, finite, companions = COLUMNS, FINITE, ("mixture_config.yaml",)
    free = ("settings.advantage.num_dataloader_workers_per_gpu", "settings.distributed.timeout", "rlinf.", "cards")

    def targets(self, context: Context) -> list[tuple[Dataset, Path]]:
        """The training sets."""
        return train_views(context.config, context.run)

    def inputs(self, context: Context) -> dict[str, Any]:
        """Settings, the value checkpoint, returns and datasets."""
        checkpoint = value_checkpoint(context)
        name = result_name("returns", context.config.tag)
        tables = {
            f"table.{dataset.path.name}.{name}": file_digest(view / "meta" / name)
            for dataset, view in train_views(context.config, context.run)
            if (view / "meta" / name).is_file()
        }
        return {
            **flatten(advantage_settings(context.config, context.run, checkpoint), "settings"),
            "model.value": file_digest(checkpoint / MANIFEST),
            **tables,
            **dataset_inputs(context, videos=True),
            **source_inputs(context),
            "cards": context.cards,
        }

    def prepare(self, context: Context, log_dir: Path, resume: Path | None) -> tuple[list[str], Path]:
        """Write the configuration; with more than one card, start through torchrun."""
        for _, view in train_views(context.config, context.run):
            (view / "meta" / result_name("advantages", context.config.tag)).unlink(missing_ok=True)
        settings = advantage_settings(context.config, context.run, value_checkpoint(context))
        config_file = log_dir / f"{CONFIG_NAMES[self.name]}.yaml"
        write_text(config_file, compose(context.source, self.name, settings, {}))
        command = launcher(self.name, config_file, context.source.script(self.name))
        if context.cards > 1:
            torchrun = [
                "-m",
                "torch.distributed.run",
                f"--nproc_per_node={context.cards}",
                f"--master_port={free_port()}",
            ]
            command = [sys.executable, *torchrun, *command[1:]]
        return command, log_dir / LOG_NAMES[self.name]

    def collect(self, context: Context, state: StepState) -> dict[str, str]:
        """And all ranks must have used their card."""
        assert state.log_dir is not None
        memory = require_npu(state.log_dir, context.cards)
        outputs = super().collect(context, state)
        state.figures["device_mb"] = memory
        return outputs


def value_checkpoint(context: Context) -> Path:
    """Return the value checkpoint that step 3 uses: the configured global step, else the last of step 2.

    Raises:
        StepFailed: there is none, or it is not complete.
    """
    state = load_state(context.run.state_file("value_sft"), "value_sft")
    if state.log_dir is None:
        raise StepFailed("there is no value model: run step 2 first")
    root = checkpoints_dir("value_sft", state.log_dir)
    wanted = context.config.advantages.value_step
    if wanted is not None:
        path = root / f"global_step_{wanted}"
        wrong = problem(path)
        if wrong:
            raise StepFailed(f"advantages.value_step {wanted}: {path}: {wrong}")
        return path
    found = complete_checkpoints(root)
    if not found or state.status != "done":
        raise StepFailed(f"step 2 is {state.status}: run it to its end first, or set advantages.value_step")
    return found[-1]


def require_npu(log_dir: Path, cards: int) -> int:
    """Return the ranks' peak device memory in MB.

    Raises:
        StepFailed: a rank did its work on the CPU, which unfixed RLinf does without a word.
    """
    facts = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(log_dir.glob("device_rank_*.json"))]
    if len(facts) != cards:
        raise StepFailed(f"{len(facts)} of {cards} ranks came to their end")
    idle = [str(fact["rank"]) for fact in facts if fact["peak_bytes"] <= 0]
    if idle:
        raise StepFailed(f"rank {', '.join(idle)} allocated nothing on its NPU: step 3 ran on the CPU")
    return int(sum(fact["peak_bytes"] for fact in facts)) >> 20


def free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
