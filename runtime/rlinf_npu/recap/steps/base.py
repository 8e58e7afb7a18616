"""What all steps share."""

import functools
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlinf_npu.recap.atomic import beside, copy_file
from rlinf_npu.recap.compose import views
from rlinf_npu.recap.config import Config, Dataset
from rlinf_npu.recap.errors import StepFailed
from rlinf_npu.recap.fingerprint import file_digest, tree_digest
from rlinf_npu.recap.layout import Run
from rlinf_npu.recap.source import Source
from rlinf_npu.recap.state import StepState

ADDED_BY_STEP_1 = ("return", "reward", "prompt")


@dataclass(frozen=True)
class Context:
    """A run in progress."""

    config: Config
    run: Run
    source: Source
    cards: int
    say: Callable[[str], None]


class Step:
    """A step. `free` are prefixes of inputs that may change without making finished work worthless."""

    name: str
    free: tuple[str, ...] = ()
    resumable = False

    def inputs(self, context: Context) -> dict[str, Any]:
        """Return all that the result depends on, flat."""
        raise NotImplementedError

    def prepare(self, context: Context, log_dir: Path, resume: Path | None) -> tuple[list[str], Path]:
        """Write RLinf's configuration; return the command and its log file."""
        raise NotImplementedError

    def batch(self, context: Context) -> int | None:
        """Samples per global step, None for steps that do not train."""
        return None

    def last_checkpoint(self, state: StepState) -> Path | None:
        """Return the newest complete checkpoint to go on from."""
        return None

    def collect(self, context: Context, state: StepState) -> dict[str, str]:
        """Check what the step was to make, put it in place, return its files with digests.

        Raises:
            StepFailed: something is missing or wrong.
        """
        raise NotImplementedError

    def damaged(self, context: Context, state: StepState) -> list[str]:
        """Name recorded outputs that are no longer there or no longer the same."""
        found = []
        for name, digest in state.outputs.items():
            path = Path(name)
            if not path.is_file():
                found.append(f"{path} is gone")
            elif file_digest(path) != digest:
                found.append(f"{path} has changed")
        return found


class TableStep(Step):
    """A step whose result is a table in meta/ of some datasets: made in their views, then published into themselves."""

    columns: tuple[str, ...]
    finite: tuple[str, ...]  # of them those that hold numbers
    companions: tuple[str, ...] = ()  # files in meta/ that RLinf writes along with the table

    def targets(self, context: Context) -> list[tuple[Dataset, Path]]:
        """Return the datasets that get one, with their views."""
        raise NotImplementedError

    def collect(self, context: Context, state: StepState) -> dict[str, str]:
        """Check, sort and publish the tables."""
        name = result_name(self.name, context.config.tag)
        outputs, rows = {}, 0
        for dataset, view in self.targets(context):
            path = view / "meta" / name
            require_table(path, self.columns, total_frames(view), self.finite)
            rows += sort_table(path)
            publish(view, dataset.path, [name, *self.companions])
            outputs[str(path)] = file_digest(path)
        state.figures = {"frames": rows}
        return outputs

    def damaged(self, context: Context, state: StepState) -> list[str]:
        """Put a lost published copy back; only the view's own file counts."""
        found = super().damaged(context, state)
        if not found:
            for dataset, view in self.targets(context):
                publish(view, dataset.path, [result_name(self.name, context.config.tag)])
        return found


def launcher(step: str, config_file: Path, script: Path | None) -> list[str]:
    """Return the command of a step's process."""
    command = [sys.executable, "-m", "rlinf_npu.recap.drivers.launch", step, str(config_file)]
    return [*command, str(script)] if script else command


def make_view(dataset: Dataset, view: Path) -> None:
    """Make a folder that looks like the dataset, with a meta/ of its own for RLinf to write into.

    So the dataset itself changes only by whole, renamed files, and may be shared by runs.
    """
    meta = view / "meta"
    meta.mkdir(parents=True, exist_ok=True)
    for source in dataset.path.iterdir():
        link = view / source.name
        if source.name == "meta":
            continue
        if link.is_symlink():
            link.unlink()
        link.symlink_to(source.resolve())
    for source in (dataset.path / "meta").iterdir():
        if source.is_file() and not source.name.startswith((".", "returns", "advantages")):
            shutil.copyfile(source, meta / source.name)


def result_name(kind: str, tag: str | None) -> str:
    """Return returns.parquet or advantages.parquet, with the tag when there is one."""
    return f"{kind}_{tag}.parquet" if tag else f"{kind}.parquet"


def sort_table(path: Path) -> int:
    """Put a result into (episode, frame) order, as upstream's threads write in order of completion; return its rows."""
    import pyarrow.parquet as pq

    table = pq.read_table(path).sort_by([("episode_index", "ascending"), ("frame_index", "ascending")])
    with beside(path) as part:
        pq.write_table(table.replace_schema_metadata(None), part)
    return int(table.num_rows)


def publish(view: Path, dataset: Path, names: list[str]) -> None:
    """Copy results from the view into the dataset's own meta/, each by rename."""
    for name in names:
        source, target = view / "meta" / name, dataset / "meta" / name
        if source.is_file() and not (target.is_file() and file_digest(target) == file_digest(source)):
            copy_file(source, target)


def require_table(path: Path, columns: tuple[str, ...], rows: int, finite: tuple[str, ...]) -> None:
    """Open a result and check its columns, its row count and that numbers are numbers.

    Raises:
        StepFailed: what is wrong with it.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise StepFailed(f"{path} was not written")
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise StepFailed(f"{path} is not a parquet file: {error}") from error
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise StepFailed(f"{path} lacks the columns {', '.join(missing)}")
    if table.num_rows != rows:
        raise StepFailed(f"{path} has {table.num_rows} rows, the dataset {rows} frames")
    for name in finite:
        if not np.isfinite(table[name].to_numpy()).all():
            raise StepFailed(f"{path}: column {name} holds NaN or infinity")


def total_frames(dataset: Path) -> int:
    """Return the dataset's number of frames, as its info.json says."""
    import json

    return int(json.loads((dataset / "meta/info.json").read_text(encoding="utf-8"))["total_frames"])


@functools.lru_cache(maxsize=256)
def cached_digest(root: Path, *patterns: str) -> str:
    """Digest of files below a folder; read once per command, as several steps depend on the same."""
    return tree_digest(root, patterns or ("**/*",))


def dataset_inputs(context: Context, videos: bool) -> dict[str, Any]:
    """Digests of the datasets, without what step 1 itself changes."""
    found = {}
    for index, (dataset, _) in enumerate(views(context.config, context.run)):
        key = f"dataset.{index}.{dataset.path.name}"
        found[f"{key}.data"] = cached_digest(dataset.path, "data/**/*.parquet")
        found[f"{key}.meta"] = cached_digest(dataset.path, "meta/tasks.jsonl", "meta/episodes.jsonl")
        if videos:
            found[f"{key}.videos"] = cached_digest(dataset.path, "videos/**/*.mp4")
    return found


def source_inputs(context: Context) -> dict[str, Any]:
    """Which RLinf."""
    described = context.source.describe()
    return {f"rlinf.{key}": described[key] for key in ("kind", "version", "revision")}
