"""`recap clean`: remove a run, or the checkpoints that no step needs any more."""

import shutil
from pathlib import Path

import typer

from rlinf_npu.recap import lock
from rlinf_npu.recap.checkpoint import complete_checkpoints, remove_unfinished
from rlinf_npu.recap.errors import UsageError
from rlinf_npu.recap.layout import EXPERIMENTS, Run, checkpoints_dir
from rlinf_npu.recap.state import load_state


def clean_run(run: Run, checkpoints_only: bool, yes: bool) -> None:
    """Remove after asking. Refuses a folder that is not a run, and one that is in use."""
    if not (run.root / "state").is_dir() and not (run.root / "recap.yaml").is_file():
        raise UsageError(f"{run.root} is not a run folder: nothing removed")
    with lock.hold(run.root):
        targets = superseded(run) if checkpoints_only else [run.root]
        if not targets:
            print("nothing to remove")
            return
        size = sum(_size(path) for path in targets)
        print("\n".join(str(path) for path in targets))
        if not yes and not typer.confirm(f"remove these, {size / 1e9:.2f} GB?"):
            return
        for path in targets:
            shutil.rmtree(path)


def superseded(run: Run) -> list[Path]:
    """Return checkpoints older than the last complete one, of every log folder of the training steps."""
    found: list[Path] = []
    for step in EXPERIMENTS:
        kept = load_state(run.state_file(step), step).log_dir
        for folder in sorted((run.root / "logs" / step).glob("*")):
            root = checkpoints_dir(step, folder)
            remove_unfinished(root)
            complete = complete_checkpoints(root)
            found += complete[:-1] if folder == kept else complete
    return found


def _size(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
