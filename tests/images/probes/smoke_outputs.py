"""Open everything that the four steps wrote below the folder given as argument, with nothing of our own runtime.

Prints what is there: row counts, columns, finiteness, checkpoints, scalars, calls of the stand-in.
"""

import collections
import json
import math
import os
import re
import sys
from pathlib import Path

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # files are read here; no device is needed

import numpy as np
import pyarrow.parquet as pq
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = Path(sys.argv[1])


def frames(dataset):
    """Frames of a LeRobot dataset, counted in its own data files."""
    return sum(pq.read_metadata(path).num_rows for path in dataset.glob("data/**/*.parquet"))


def tables(name):
    """Every result table called `name`, by dataset."""
    found = {}
    for path in sorted(ROOT.rglob(f"meta/{name}")):
        if path.is_symlink() or path.parent.is_symlink():
            continue
        table = pq.read_table(path).to_pandas()
        numbers = table.select_dtypes("number").to_numpy(dtype=float)
        found[str(path.parent.parent)] = {
            "rows": len(table),
            "frames": frames(path.parent.parent),
            "columns": sorted(table.columns),
            "finite": bool(np.isfinite(numbers).all()),
            "modified": path.stat().st_mtime,
            "positive": float(table["advantage"].mean()) if "advantage" in table else None,
        }
    return found


def checkpoints():
    """Every checkpoint whose weights load, with the number of tensors and whether they are finite."""
    found = {}
    for path in sorted(ROOT.rglob("full_weights.pt")):
        weights = torch.load(path, map_location="cpu", weights_only=True)
        shards = path.parent.parent / "dcp_checkpoint"
        found[str(path)] = {
            "tensors": len(weights),
            "finite": all(bool(tensor.isfinite().all()) for tensor in weights.values()),
            "sharded": (shards / ".metadata").is_file() and any(shards.glob("*.distcp")),
            "modified": path.stat().st_mtime,
        }
    return found


def scalars():
    """TensorBoard scalars by step of the pipeline, with the number of values and whether they are finite."""
    found = {}
    for path in sorted(ROOT.rglob("events.out.tfevents.*")):
        events = EventAccumulator(str(path.parent)).Reload()
        step = "cfg_rl" if "cfg_rl" in str(path) else "value_sft"
        for tag in events.Tags()["scalars"]:
            values = [event.value for event in events.Scalars(tag)]
            found.setdefault(step, {})[tag] = [len(values), all(map(math.isfinite, values))]
    return found


def calls():
    """Calls of the stand-in by step, from its log."""
    pattern = re.compile(r"^(?:\[cannsim \d+\] )?(\w+)", re.M)
    logs = sorted(ROOT.glob("calls/*.log"))
    return {path.stem: collections.Counter(pattern.findall(path.read_text(errors="replace"))) for path in logs}


print(
    json.dumps(
        {
            "returns": tables("returns.parquet"),
            "advantages": tables("advantages.parquet"),
            "checkpoints": checkpoints(),
            "scalars": scalars(),
            "calls": calls(),
            "videos": len([path for path in ROOT.rglob("*.mp4") if path.stat().st_size > 0]),
        }
    )
)
