"""What a run was made with: effective configuration, environment, versions, image."""

import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from rlinf_npu.facts import load_facts
from rlinf_npu.recap.atomic import beside, write_json
from rlinf_npu.recap.steps.base import Context

PACKAGES = (
    "rlinf", "torch", "torch-npu", "torchvision", "ray", "transformers", "rlinf-transformer-openpi", "rlinf-openpi",
    "lerobot", "datasets", "pyarrow", "numpy", "av", "rlinf-npu-runtime",
)  # fmt: skip
KEPT = (
    "ASCEND",
    "HCCL",
    "RAY",
    "RLINF",
    "RECAP",
    "HF_",
    "OPENPI",
    "CANNSIM",
    "PYTHON",
    "LD_LIBRARY",
    "MUJOCO",
    "TASK_QUEUE",
)
SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD")


def write_record(context: Context, env: dict[str, str]) -> None:
    """Write recap.yaml (effective) and environment.json into the run folder."""
    write_config(context, context.run.root / "recap.yaml")
    write_json(context.run.root / "environment.json", describe(context, env))


def write_config(context: Context, path: Path) -> None:
    """Write the effective configuration; it can be given to `recap --config` again."""
    with beside(path) as part, part.open("w", encoding="utf-8") as handle:
        YAML().dump(context.config.model_dump(mode="json"), handle)


def describe(context: Context, env: dict[str, str]) -> dict[str, Any]:
    """Return versions, source, cards, image and the variables that matter; nothing that looks like a secret."""
    return {
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": platform.node(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "rlinf": context.source.describe(),
        "cards": context.cards,
        "image": image(),
        "environment": {
            key: value
            for key, value in sorted(env.items())
            if key.startswith(KEPT) and not any(word in key.upper() for word in SECRET)
        },
    }


def image() -> dict[str, Any]:
    """Return what is known of the image: its facts, and digest and name where compose gave them."""
    known: dict[str, Any] = {
        key: os.environ[name]
        for key, name in (("name", "RLINF_NPU_IMAGE"), ("digest", "RLINF_NPU_IMAGE_DIGEST"))
        if os.environ.get(name)
    }
    try:
        facts = load_facts()
    except (FileNotFoundError, ValueError, json.JSONDecodeError):
        return known
    return {**known, "facts": facts}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
