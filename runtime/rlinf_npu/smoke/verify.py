"""What the four steps must have made of the fixtures, checked by content."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlinf_npu.recap.checkpoint import WEIGHTS, complete_checkpoints, problem
from rlinf_npu.recap.config import Config
from rlinf_npu.recap.layout import Run, checkpoints_dir
from rlinf_npu.recap.scalars import Scalars
from rlinf_npu.recap.state import load_state
from rlinf_npu.smoke.fixtures import Fixtures
from rlinf_npu.smoke.fixtures.datasets import DATASETS, Episode
from rlinf_npu.smoke.wrong import require

# TensorBoard scalars that RLinf writes; of step 4 those that a user is told to watch.
SCALARS = {
    "value_sft": (
        "train/loss",
        "train/lr",
        "train/grad_norm",
        "train/mae",
        "train/value_spearman",
        "eval/loss",
        "time/step",
    ),
    "cfg_rl": (
        "train/loss",
        "train/conditional_loss",
        "train/unconditional_loss",
        "train/grad_norm",
        "train/learning_rate",
        "train/conditional_ratio",
    ),
}


@dataclass(frozen=True)
class Check:
    """A named check; `run` returns what to tell, or raises Wrong."""

    name: str
    run: Callable[[], str]


@dataclass(frozen=True)
class Verifier:
    """Checks the outputs of one run on the fixtures. `started`: Unix time before the first step."""

    fixtures: Fixtures
    config: Config
    started: float

    @property
    def run(self) -> Run:
        """The run folder."""
        return Run(self.config.run_dir)

    def checks(self, step: str) -> Iterator[Check]:
        """Return the checks of a step."""
        table: dict[str, list[Check]] = {
            "returns": [Check("returns.parquet", self.returns)],
            "value_sft": [
                Check("value checkpoint", lambda: self.checkpoint("value_sft")),
                Check("value scalars", lambda: self.scalars("value_sft")),
            ],
            "advantages": [Check("advantages.parquet", self.advantages)],
            "cfg_rl": [
                Check("policy checkpoint", lambda: self.checkpoint("cfg_rl")),
                Check("policy differs from its base", self.policy_moved),
                Check("policy scalars", lambda: self.scalars("cfg_rl")),
            ],
        }
        return iter(table[step])

    def table(self, dataset: str, name: str) -> Any:
        """Read a result in a dataset's own meta/; it must be newer than the run."""
        import pyarrow.parquet as pq

        path = self.fixtures.dataset(dataset) / "meta" / name
        require(path.is_file(), f"{path} is missing")
        require(path.stat().st_mtime >= self.started, f"{path} is older than this run")
        return pq.read_table(path).to_pandas()

    def returns(self) -> str:
        """Every return, computed here from the episodes' lengths and outcomes."""
        penalty, rows = self.config.returns.failure_reward, 0
        for dataset, episodes in DATASETS.items():
            table = self.table(dataset, "returns.parquet")
            expected = np.concatenate([expected_returns(episode, penalty) for episode in episodes])
            require(len(table) == len(expected), f"{dataset}: {len(table)} rows, {len(expected)} frames")
            require(bool(np.array_equal(table["return"], expected)), f"{dataset}: returns are wrong")
            require(bool((table["prompt"].str.len() > 0).all()), f"{dataset}: empty prompts")
            rows += len(table)
        return f"{rows} rows, every return as computed"

    def advantages(self) -> str:
        """Columns, finite numbers, the formula, and the labels."""
        tables = {name: self.table(name, "advantages.parquet") for name in ("sft", "train")}
        rows = 0
        for name, table in tables.items():
            frames = sum(episode.frames for episode in DATASETS[name])
            require(len(table) == frames, f"{name}: {len(table)} rows, {frames} frames")
            numbers = table[["advantage_continuous", "value_current", "value_next", "reward_sum"]].to_numpy()
            require(bool(np.isfinite(numbers).all()), f"{name}: NaN or infinity")
            formula = table["reward_sum"] + table["value_next"] - table["value_current"]
            require(bool(np.allclose(formula, table["advantage_continuous"], atol=1e-6)), f"{name}: A != R + V' - V")
            require(table["advantage"].dtype == bool, f"{name}: labels are {table['advantage'].dtype}")
            require(table["value_current"].std() > 0, f"{name}: the value model says the same of every frame")
            rows += len(table)
        require(bool(tables["sft"]["advantage"].all()), "sft: a demonstration is labelled negative")
        positive = self._labels_follow_threshold(tables)
        return f"{rows} rows, {positive} of {len(tables['train'])} rollout frames positive"

    def _labels_follow_threshold(self, tables: dict[str, Any]) -> int:
        scores = np.concatenate([table["advantage_continuous"] for table in tables.values()])
        limit = np.percentile(scores, (1 - self.config.advantages.positive_quantile) * 100)
        expected = tables["train"]["advantage_continuous"] >= limit
        require(bool((expected == tables["train"]["advantage"]).all()), "train: labels do not follow the threshold")
        return int(expected.sum())

    def last_checkpoint(self, step: str) -> Path:
        """Return the newest complete checkpoint of a step."""
        log_dir = load_state(self.run.state_file(step), step).log_dir
        require(log_dir is not None, f"no record of {step}")
        assert log_dir is not None
        found = complete_checkpoints(checkpoints_dir(step, log_dir))
        require(bool(found), f"{checkpoints_dir(step, log_dir)}: no complete checkpoint")
        return found[-1]

    def checkpoint(self, step: str) -> str:
        """Load the weights; every number finite; shards and metadata there."""
        folder = self.last_checkpoint(step)
        wrong = problem(folder)
        require(wrong is None, f"{folder}: {wrong}")
        require(folder.stat().st_mtime >= self.started, f"{folder} is older than this run")
        shards = folder / "actor/dcp_checkpoint"
        require((shards / ".metadata").is_file(), f"{shards}/.metadata is missing")
        require(any(shards.glob("*.distcp")), f"{shards}: no shard")
        weights = load_weights(folder / WEIGHTS)
        for name, tensor in weights.items():
            require(bool(tensor.isfinite().all()), f"{folder}: {name} holds NaN or infinity")
        count = sum(tensor.numel() for tensor in weights.values())
        return f"{folder.name}: {len(weights)} tensors, {count / 1e6:.1f} M parameters, all finite"

    def policy_moved(self) -> str:
        """Training must have changed the policy."""
        from safetensors.torch import load_file

        base = load_file(self.fixtures.policy / "model.safetensors")
        trained = load_weights(self.last_checkpoint("cfg_rl") / WEIGHTS)
        common = [name for name in base if name in trained and base[name].shape == trained[name].shape]
        require(len(common) > 0, "the checkpoint has no tensor of the base model")
        moved = max(float((base[name].float() - trained[name].float()).abs().max()) for name in common)
        require(moved > 0, "no weight has changed")
        return f"{len(common)} tensors, largest change {moved:.2g}"

    def scalars(self, step: str) -> str:
        """All scalars there, finite, one for every step."""
        log_dir = load_state(self.run.state_file(step), step).log_dir
        assert log_dir is not None
        series = Scalars(log_dir / "tensorboard").refresh().series
        missing = [name for name in SCALARS[step] if name not in series]
        require(not missing, f"missing: {', '.join(missing)}")
        for name in SCALARS[step]:
            require(all(map(math.isfinite, series[name].values.values())), f"{name} holds NaN or infinity")
        steps = (self.config.value if step == "value_sft" else self.config.policy).max_steps
        require(
            len(series["train/loss"].values) == steps, f"train/loss has {len(series['train/loss'].values)} of {steps}"
        )
        return f"{len(series)} scalars, loss {series['train/loss'].last:.4g}"


def expected_returns(episode: Episode, penalty: float) -> np.ndarray:
    """Undiscounted returns, (frames,) float32: minus the frames left, and the penalty at the end of a failure."""
    left = np.arange(episode.frames - 1, -1, -1)
    return (-left + (0 if episode.success else penalty)).astype(np.float32)


def load_weights(path: Path) -> dict[str, Any]:
    """Load a checkpoint's weights on the CPU."""
    import torch

    weights: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return weights
