"""What a step has done: a JSON record in the run folder."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from rlinf_npu.recap.atomic import write_json

Status = Literal["pending", "running", "done", "failed", "stopped"]


class StepState(BaseModel):
    """Record of a step. Times are Unix seconds."""

    step: str
    status: Status = "pending"
    inputs: dict[str, Any] = {}
    outputs: dict[str, str] = {}
    log_dir: Path | None = None
    started: float | None = None
    ended: float | None = None
    seconds: float = 0.0
    attempts: int = 0
    resumed_from: int | None = None
    message: str = ""
    figures: dict[str, Any] = {}


def load_state(path: Path, step: str) -> StepState:
    """Read a step's record; a missing or broken one means that nothing is known."""
    try:
        return StepState.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return StepState(step=step)


def save_state(path: Path, state: StepState) -> None:
    """Write a step's record atomically."""
    write_json(path, state.model_dump(mode="json"))
