"""Where step 3 really ran. Unfixed, it exits 0 on an NPU machine after having used the CPU only."""

import json
import os
from pathlib import Path

PREFIX = "device_rank_"


def record(folder: Path) -> None:
    """Write what this rank allocated on its NPU, in bytes, into `device_rank_<rank>.json`."""
    import torch

    rank = int(os.environ.get("RANK", "0"))
    available = hasattr(torch, "npu") and torch.npu.is_available()
    peak = int(torch.npu.max_memory_allocated(int(os.environ.get("LOCAL_RANK", "0")))) if available else 0
    facts = {"rank": rank, "npu_available": available, "peak_bytes": peak}
    (folder / f"{PREFIX}{rank}.json").write_text(json.dumps(facts), encoding="utf-8")
