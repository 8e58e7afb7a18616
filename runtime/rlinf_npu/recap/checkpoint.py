"""Checkpoints of the training steps: which are complete, which is the last.

A checkpoint is written under a name with PART_PREFIX, then gets a manifest, then its real name. So a folder
`global_step_N` is whole by construction; the manifest's sizes catch what happens to it later.
"""

import json
import os
from pathlib import Path

MANIFEST = "recap.json"
PART_PREFIX = ".part_"
WEIGHTS = Path("actor/model_state_dict/full_weights.pt")


def write_manifest(folder: Path, step: int) -> None:
    """Flush all files of a checkpoint to the disk and note their sizes."""
    sizes = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST):
        with path.open("rb") as handle:
            os.fsync(handle.fileno())
        sizes[str(path.relative_to(folder))] = path.stat().st_size
    (folder / MANIFEST).write_text(json.dumps({"global_step": step, "files": sizes}, indent=1), encoding="utf-8")


def problem(folder: Path) -> str | None:
    """Say why a checkpoint is not complete; None when it is."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"no {MANIFEST}: it was not finished"
    except ValueError:
        return f"{MANIFEST} is not JSON"
    for name, size in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes, was written with {size}"
    if str(WEIGHTS) not in manifest["files"]:
        return f"{WEIGHTS} is missing"
    return None


def step_of(folder: Path) -> int:
    """Return N of `global_step_N`."""
    return int(folder.name.rsplit("_", 1)[-1])


def complete_checkpoints(root: Path) -> list[Path]:
    """Return the complete checkpoints below `root`, oldest first."""
    found = [p for p in root.glob("global_step_*") if p.name.rsplit("_", 1)[-1].isdigit() and problem(p) is None]
    return sorted(found, key=step_of)


def remove_unfinished(root: Path) -> list[Path]:
    """Remove what a killed save left; return what was removed."""
    import shutil

    removed = list(root.glob(f"{PART_PREFIX}*"))
    for path in removed:
        shutil.rmtree(path, ignore_errors=True)
    return removed
