"""Folders of a run, in the layout of RLinf's own scripts.

<log_dir>/<name>/
  recap.yaml environment.json lock
  state/<step>.json
  data/<n>/<dataset>/         a view of the dataset: links to its data and videos, its own meta/
  logs/value_sft/recap_value_model_sft-<time>/{run_value_sft.log, tensorboard/, value_sft/checkpoints/global_step_N/}
  logs/cfg_rl/cfg_rl_openpi-<time>/{run_cfg_rl.log, tensorboard/, cfg_sft/checkpoints/global_step_N/}
"""

import time
from dataclasses import dataclass
from pathlib import Path

STEPS = ("returns", "value_sft", "advantages", "cfg_rl")
TITLES = {
    "returns": "1 returns",
    "value_sft": "2 value SFT",
    "advantages": "3 advantages",
    "cfg_rl": "4 CFG RL",
}
CONFIG_NAMES = {
    "returns": "recap_compute_returns",
    "value_sft": "recap_value_model_sft",
    "advantages": "recap_compute_advantages",
    "cfg_rl": "cfg_rl_openpi",
}
EXPERIMENTS = {"value_sft": "value_sft", "cfg_rl": "cfg_sft"}
LOG_NAMES = {step: f"run_{name}.log" for step, name in CONFIG_NAMES.items()} | {
    "returns": "run_compute_returns.log",
    "value_sft": "run_value_sft.log",
    "advantages": "run_compute_advantages.log",
    "cfg_rl": "run_cfg_rl.log",
}


def step_name(text: str) -> str:
    """Turn 1-4, a name, or a name with dashes into a step.

    Raises:
        ValueError: no such step.
    """
    name = text.replace("-", "_")
    if name in STEPS:
        return name
    if text.isdigit() and 1 <= int(text) <= len(STEPS):
        return STEPS[int(text) - 1]
    raise ValueError(f"no step {text!r}; steps are 1 returns, 2 value-sft, 3 advantages, 4 cfg-rl")


@dataclass(frozen=True)
class Run:
    """A run folder."""

    root: Path

    @property
    def state_dir(self) -> Path:
        """Folder of the steps' records."""
        return self.root / "state"

    def state_file(self, step: str) -> Path:
        """Record of a step."""
        return self.state_dir / f"{step}.json"

    def view(self, index: int, name: str) -> Path:
        """View of a dataset. The last component is the dataset's own name, which RLinf writes into its files."""
        return self.root / "data" / f"{index:02d}" / name

    def new_log_dir(self, step: str) -> Path:
        """Fresh log folder of a step."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        return self.root / "logs" / step / f"{CONFIG_NAMES[step]}-{stamp}"


def checkpoints_dir(step: str, log_dir: Path) -> Path:
    """Folder that holds global_step_N of a training step."""
    return log_dir / EXPERIMENTS[step] / "checkpoints"
