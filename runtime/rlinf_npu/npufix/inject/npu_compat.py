"""Device-agnostic calls for code that was written for CUDA. Added by npufix; needs torch, and only when called.

Without an NPU every function answers what the CUDA-only code said, so a fixed tree still runs on a GPU or a CPU.
"""

import importlib
import importlib.util
import logging
import os
from functools import lru_cache
from pathlib import PurePath
from typing import Any

logger = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def _load_torch_npu() -> None:
    """Load torch_npu where it is installed but torch was told not to (a parent that imports torch_npu says so)."""
    if importlib.util.find_spec("torch_npu") is None:
        return
    try:
        importlib.import_module("torch_npu")
    except Exception as error:  # it raises whatever its libraries make of a machine without driver or toolkit
        logger.warning("torch_npu is installed but does not load, so no NPU is used: %s", error)


def npu_available() -> bool:
    """Whether torch_npu sees at least one card."""
    import torch  # importing this module must stay cheap

    if not hasattr(torch, "npu"):
        _load_torch_npu()
    return hasattr(torch, "npu") and torch.npu.is_available()


def accel() -> Any:
    """`torch.npu` where an NPU is available, else `torch.cuda`; both have the same calls."""
    import torch  # importing this module must stay cheap

    return torch.npu if npu_available() else torch.cuda


def accel_type() -> str:
    """Device type of :func:`accel`: "npu" or "cuda"."""
    return "npu" if npu_available() else "cuda"


def ccl_backend() -> str:
    """Backend name for torch.distributed on accelerators: "hccl" or "nccl"."""
    return "hccl" if npu_available() else "nccl"


def pin_device(pin_memory: bool) -> str:
    """Value for DataLoader's pin_memory_device: torch 2.6 ignores pin_memory on an NPU unless it is named here."""
    return "npu" if pin_memory and npu_available() else ""


def disable_tensorflow() -> None:
    """Tell transformers not to import tensorflow: in a process with torch_npu that import can crash."""
    if importlib.util.find_spec("torch_npu") is not None:
        os.environ.setdefault("USE_TF", "0")


def require_tensorflow() -> None:
    """Raise ImportError when USE_TF forbids tensorflow, so that optional imports of it take their fall-back."""
    if os.environ.get("USE_TF", "auto").lower() in ("0", "false", "no", "off"):
        raise ImportError("tensorflow is switched off by USE_TF")


def advantages_name(tag: Any) -> str:
    """File name below meta/ for an advantage tag; a full path is reduced to the name of the file it points to.

    Raises:
        ValueError: the tag is a path, but not one to an advantages file.
    """
    text = str(tag)
    if "/" not in text and not text.endswith(".parquet"):
        return f"advantages_{text}.parquet"
    name = PurePath(text).name
    if name == "advantages.parquet" or (name.startswith("advantages_") and name.endswith(".parquet")):
        logger.warning("advantage_tag %r is a path; reading %r in each dataset's own meta folder", text, name)
        return name
    raise ValueError(f"advantage_tag {text!r} is a path; give the tag alone, or null for meta/advantages.parquet")
