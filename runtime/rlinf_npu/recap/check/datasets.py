"""Is a dataset LeRobot v2.1, complete and readable, and does it have what its type needs?"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlinf_npu.recap.check.finding import Finding, error, ok, warning
from rlinf_npu.recap.check.video import video_problem
from rlinf_npu.recap.config import Dataset

VERSION = "v2.1"
INFO = Path("meta/info.json")
SAMPLE = 24  # files of a kind that are opened unless --full is given
NAMED = 3  # faulty files named one by one; of the rest only the number

# Columns that RLinf's transforms of a robot take; of each group one.
COLUMNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "libero": (("image", "observation.image"), ("wrist_image", "observation.wrist_image"), ("state",), ("actions",)),
    "franka": (("image",), ("state",), ("actions",)),
    "franka_co_train": (("image",), ("wrist_image",), ("state",), ("actions",)),
}


@dataclass(frozen=True)
class Meta:
    """meta/ of a dataset."""

    info: dict[str, Any]
    lengths: dict[int, int]

    def path(self, root: Path, episode: int, video: str | None = None) -> Path:
        """Where an episode's parquet or one of its videos lies."""
        chunk = episode // int(self.info.get("chunks_size", 1000))
        template = str(self.info["video_path" if video else "data_path"])
        return root / template.format(episode_chunk=chunk, episode_index=episode, video_key=video)

    @property
    def cameras(self) -> list[str]:
        """Names of the video features."""
        return [name for name, feature in self.info["features"].items() if feature.get("dtype") == "video"]


def check_dataset(dataset: Dataset, full: bool, tell: Callable[[str, int, int], None]) -> Iterator[Finding]:
    """Look at meta/, data/ and videos/."""
    root = dataset.path
    if not root.is_dir():
        yield error(root, "no such dataset", "correct its path (DATASET and DATA_DIR in .env, or recap.yaml)")
        return
    meta, problems = read_meta(root)
    yield from problems
    if meta is None:
        return
    yield from check_features(dataset, meta)
    yield from check_writable(root)
    episodes = sample(sorted(meta.lengths), full)
    yield from summarise(
        root / "data", parquet_problems(dataset, meta, episodes, tell), len(episodes), len(meta.lengths)
    )
    if meta.cameras:
        pairs = [(episode, camera) for episode in episodes for camera in meta.cameras]
        total = len(meta.lengths) * len(meta.cameras)
        yield from summarise(root / "videos", video_problems(root, meta, pairs, full, tell), len(pairs), total)


def read_meta(root: Path) -> tuple[Meta | None, list[Finding]]:
    """Read info.json and episodes.jsonl."""
    try:
        info = json.loads((root / INFO).read_text(encoding="utf-8"))
        rows = (root / "meta/episodes.jsonl").read_text(encoding="utf-8").splitlines()
        lengths = {row["episode_index"]: row["length"] for row in map(json.loads, filter(str.strip, rows))}
    except FileNotFoundError as missing:
        return None, [
            error(missing.filename, "missing", f"not a LeRobot {VERSION} dataset: convert it, or copy it completely")
        ]
    except (ValueError, KeyError) as problem:
        return None, [error(root / "meta", f"not readable: {problem}", "copy the dataset again")]
    found = []
    if info.get("codebase_version") != VERSION:
        fix = f"RLinf reads {VERSION}: convert it with LeRobot's own converter"
        found.append(error(root / INFO, f"format {info.get('codebase_version')}", fix))
    for key, actual in (("total_episodes", len(lengths)), ("total_frames", sum(lengths.values()))):
        if info.get(key) != actual:
            text = f"{key} {info.get(key)}, episodes.jsonl has {actual}"
            found.append(error(root / INFO, text, "the copy is incomplete: copy the dataset again"))
    if not (root / "meta/tasks.jsonl").is_file():
        found.append(error(root / "meta/tasks.jsonl", "missing", "step 3 takes the prompt from it"))
    return Meta(info, lengths), found


def check_features(dataset: Dataset, meta: Meta) -> Iterator[Finding]:
    """Columns for the robot, success labels for rollouts."""
    features = meta.info["features"]
    groups = COLUMNS.get(dataset.robot)
    if groups is None:
        yield error(dataset.path, f"robot {dataset.robot!r}", f"robots that all four steps know: {', '.join(COLUMNS)}")
        return
    lacking = ["/".join(group) for group in groups if not any(name in features for name in group)]
    if lacking:
        fix = f"robot {dataset.robot} needs them: set the right robot, or rename the columns"
        yield error(dataset.path / INFO, f"no feature {', '.join(lacking)}", fix)
    if dataset.type == "rollout" and "is_success" not in features:
        fix = "type rollout needs this label: add it, or set type: sft when all episodes succeed"
        yield error(dataset.path / INFO, "no feature is_success", fix)


def check_writable(root: Path) -> Iterator[Finding]:
    """Steps 1 and 3 write into meta/."""
    import os

    if not os.access(root / "meta", os.W_OK):
        fix = f"steps 1 and 3 write there: chown it to uid {os.getuid()}, or mount it without :ro"
        yield error(root / "meta", "not writable", fix)


def sample(items: Sequence[int], full: bool) -> list[int]:
    """Return all items, or SAMPLE of them spread evenly, first and last included."""
    if full or len(items) <= SAMPLE:
        return list(items)
    return sorted({items[round(i * (len(items) - 1) / (SAMPLE - 1))] for i in range(SAMPLE)})


def parquet_problems(
    dataset: Dataset, meta: Meta, episodes: list[int], tell: Callable[[str, int, int], None]
) -> Iterator[tuple[Path, str]]:
    """Compare row counts with episodes.jsonl; look at the success labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for done, episode in enumerate(episodes):
        tell(f"{dataset.path.name}: data", done, len(episodes))
        path = meta.path(dataset.path, episode)
        try:
            rows = pq.read_metadata(path).num_rows
            names = pq.read_schema(path).names
        except FileNotFoundError:
            yield path, "missing"
            continue
        except (pa.ArrowInvalid, OSError) as problem:
            yield path, f"not a parquet file ({str(problem).splitlines()[0]})"
            continue
        if rows != meta.lengths[episode]:
            yield path, f"{rows} rows, episodes.jsonl says {meta.lengths[episode]}"
        if dataset.type == "rollout":
            yield from ((path, text) for text in label_problems(path, names))


def label_problems(path: Path, names: list[str]) -> Iterator[str]:
    """is_success must be there, a plain boolean, and the same at an episode's end as RLinf reads it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if "is_success" not in names:
        yield "no column is_success"
        return
    column = pq.read_table(path, columns=["is_success"])["is_success"]
    if not (pa.types.is_boolean(column.type) or pa.types.is_integer(column.type)):
        yield f"is_success is {column.type}, not a boolean (RLinf would take every list for true)"
    elif column.null_count:
        yield f"is_success has {column.null_count} empty values"


def video_problems(
    root: Path, meta: Meta, pairs: list[tuple[int, str]], full: bool, tell: Callable[[str, int, int], None]
) -> Iterator[tuple[Path, str]]:
    """Open videos through PyAV, as LeRobot will."""
    for done, (episode, camera) in enumerate(pairs):
        tell(f"{root.name}: videos", done, len(pairs))
        path = meta.path(root, episode, camera)
        problem = video_problem(path, meta.lengths[episode], full)
        if problem:
            yield path, problem


def summarise(where: Path, problems: Iterator[tuple[Path, str]], looked: int, total: int) -> Iterator[Finding]:
    """Name the first faulty files, count the rest, say how many were looked at."""
    faulty = list(problems)
    for path, text in faulty[:NAMED]:
        yield error(path, text, "copy this file again, or leave the episode out")
    if len(faulty) > NAMED:
        yield error(where, f"{len(faulty) - NAMED} more faulty files", "copy the dataset again")
    if looked == 0:
        yield error(where, "nothing there", "copy the dataset again")
    elif not faulty:
        yield ok(where, f"{looked} of {total} files opened")
    elif looked < total:
        yield warning(where, f"only {looked} of {total} files were opened", "`recap check --full` opens all")
