"""recap.yaml: models of what a run is made of, with the defaults for 8 x Ascend 910B3."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rlinf_npu.recap.errors import UsageError
from rlinf_npu.recap.keys import unknown_key

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Count = Annotated[int, Field(ge=1)]
Workers = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A block of recap.yaml: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Models(Section):
    """Folders of the pretrained models."""

    siglip: Path
    gemma3: Path
    tokenizer: Path | None = None  # None: the gemma3 folder
    policy: Path
    openpi_home: Path | None = None  # holds big_vision/paligemma_tokenizer.model


class Dataset(Section):
    """A LeRobot v2.1 dataset."""

    path: Path
    type: Literal["sft", "rollout"]
    weight: Annotated[float, Field(ge=0)] = 1.0
    robot: str = "libero"


class Datasets(Section):
    """Training sets (all steps) and evaluation sets (value SFT)."""

    train: Annotated[list[Dataset], Field(min_length=1)]
    eval: list[Dataset] = []


class Returns(Section):
    """Step 1."""

    gamma: Annotated[float, Field(gt=0, le=1)] = 1.0
    failure_reward: float = -300.0
    workers: Count = 16


class Training(Section):
    """What steps 2 and 4 have in common."""

    micro_batch: Count = 16
    global_batch: Count = 128
    lr: Positive = 5.0e-5
    max_epochs: int = 30000
    max_steps: int = -1
    val_every: int = 500
    save_every: Count = 3000
    scheduler: Literal["constant", "cosine"] = "cosine"
    warmup_steps: Workers = 500
    total_steps: Count = 30000
    strategy: Literal["fsdp", "fsdp2"] = "fsdp"
    sharding: Literal["no_shard", "full_shard", "shard_grad_op", "hybrid_shard"] = "no_shard"
    loaders: Workers = 8
    overrides: dict[str, Any] = {}

    @model_validator(mode="after")
    def _bounded(self) -> "Training":
        if self.max_epochs < 1 and self.max_steps < 1:
            raise ValueError("max_epochs and max_steps are both unset: the step would never end")
        return self


class Value(Training):
    """Step 2."""

    value_lr: Positive = 1.0e-4
    precision: Literal["bf16", "fp16", "fp32"] = "bf16"
    scheduler: Literal["constant", "cosine"] = "constant"
    total_steps: Count = 8000
    expert: str = "gemma_1m"
    eval_max_samples: Count = 10000
    eval_loaders: Workers = 4
    augment: bool = True

    @model_validator(mode="after")
    def _intervals(self) -> "Value":
        # RLinf asserts this in the middle of training, at the first step.
        if self.val_every > 0 and self.save_every % self.val_every:
            raise ValueError(f"save_every {self.save_every} is not a multiple of val_every {self.val_every}")
        return self


class Advantages(Section):
    """Step 3."""

    lookahead: Count = 10
    positive_quantile: Annotated[float, Field(gt=0, lt=1)] = 0.3
    batch: Count = 1024
    loaders: Workers = 12
    backend: str = "hccl"
    timeout: Count = 3600
    value_step: Count | None = None  # global step of the value checkpoint; None: the last


class Policy(Training):
    """Step 4."""

    val_every: Literal[-1] = -1  # RLinf's CFG worker has no evaluation
    warmup_steps: Workers = 5000
    openpi_config: str = "pi05_libero"
    guidance_scale: Positive = 1.0
    unconditional_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    gradient_checkpointing: bool = True


class Watchdog(Section):
    """When a step counts as hung. Seconds."""

    silence: Positive = 1800.0
    after_error: Positive = 90.0
    stop_grace: Positive = 300.0


class Config(Section):
    """A run."""

    name: Annotated[str, Field(pattern=NAME)] = "recap"
    log_dir: Path = Path("runs")
    cards: Literal["auto"] | Count = "auto"
    nodes: Count = 1  # machines that train together, each with `cards`
    tag: Annotated[str, Field(pattern=NAME)] | None = None
    seed: int = 0
    rlinf_home: Path | None = None
    ext_module: str | None = None
    ray_address: str | None = None
    models: Models
    datasets: Datasets
    returns: Returns = Returns()
    value: Value = Value()
    advantages: Advantages = Advantages()
    policy: Policy = Policy()
    watchdog: Watchdog = Watchdog()

    @property
    def run_dir(self) -> Path:
        """Folder of the run."""
        return self.log_dir / self.name

    @property
    def tokenizer(self) -> Path:
        """Tokenizer folder of the value model."""
        return self.models.tokenizer or self.models.gemma3


def load_config(path: Path, settings: tuple[str, ...] = ()) -> Config:
    """Read recap.yaml, apply `key.key=value` settings, make paths absolute (relative to the file).

    Raises:
        UsageError: no such file, not YAML, an unknown key, a wrong value; names the file and the key.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; copy recap.yaml from /usr/share/rlinf-npu or give --config FILE")
    try:
        raw = YAML(typ="safe").load(path.read_text(encoding="utf-8")) or {}
    except YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise UsageError(f"{path}: expected keys such as models and datasets, found {type(raw).__name__}")
    for setting in settings:
        _apply(raw, setting)
    if os.environ.get("LOG_DIR"):
        raw.setdefault("log_dir", os.environ["LOG_DIR"])
    return validate(_expand(raw), path)


def validate(raw: dict[str, Any], path: Path) -> Config:
    """Check the parsed file against the model and resolve its paths."""
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        raise UsageError(f"{path}: {'; '.join(map(_wrong, error.errors()))}") from error
    return Config.model_validate(_absolute(config.model_dump(), path.resolve().parent))


def _wrong(found: "ErrorDetails") -> str:
    parts = [str(part) for part in found["loc"]]
    unknown = unknown_key(Config, parts) if found["type"] == "extra_forbidden" else None
    return unknown or f"{'.'.join(parts)}: {found['msg']}"


def _apply(raw: dict[str, Any], setting: str) -> None:
    key, separator, text = setting.partition("=")
    if not separator or not key:
        raise UsageError(f"--set {setting}: expected key.key=value, for instance value.max_steps=100")
    if unknown := unknown_key(Config, key.split(".")):
        raise UsageError(f"--set {setting}: {unknown}")
    *parents, leaf = key.split(".")
    node: Any = raw
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        if node is None or not isinstance(node, dict | list):
            raise UsageError(f"--set {setting}: {part} is not a block of recap.yaml")
    value = YAML(typ="safe").load(text)
    if isinstance(node, list):
        node[int(leaf)] = value
    else:
        node[leaf] = value


def _expand(value: Any) -> Any:
    """Replace ${NAME} in strings from the environment; an unset one is an error."""
    if isinstance(value, dict):
        return {key: _expand(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item) for item in value]
    if not isinstance(value, str):
        return value

    def replacement(match: "re.Match[str]") -> str:
        name, fallback = match.group(1), match.group(2)
        found = os.environ.get(name) or fallback
        if found is None:
            raise UsageError(f"recap.yaml uses ${{{name}}}, which is not set in the environment")
        return found

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}", replacement, value)


def _absolute(value: Any, base: Path) -> Any:
    if isinstance(value, dict):
        return {key: _absolute(item, base) for key, item in value.items()}
    if isinstance(value, list):
        return [_absolute(item, base) for item in value]
    if isinstance(value, Path):
        return Path(os.path.normpath(base / value.expanduser()))
    return value
