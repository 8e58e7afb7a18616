"""A minimal recap.yaml and its configuration."""

from pathlib import Path
from typing import Any

import pytest
from rlinf_npu.recap.config import Config, validate


@pytest.fixture
def raw() -> dict[str, Any]:
    return {
        "models": {"siglip": "siglip", "gemma3": "gemma", "policy": "pi05"},
        "datasets": {"train": [{"path": "data/one", "type": "rollout"}], "eval": [{"path": "data/two", "type": "sft"}]},
    }


@pytest.fixture
def config(raw: dict[str, Any], tmp_path: Path) -> Config:
    return validate(raw, tmp_path / "recap.yaml")
