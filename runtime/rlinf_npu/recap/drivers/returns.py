"""Step 1 for RLinf sources without its script: discounted returns of every frame.

Reward -1 per frame; at an episode's end 0 for a success, `failure_reward` for a failure. G_t = r_t + gamma * G_{t+1},
in float32 as upstream does, so that both sources give the same numbers.
"""

import itertools
import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FALLBACK_PROMPT = "perform the task"  # RLinf's own
WANTED = ("episode_index", "frame_index", "is_success", "task_index", "task")


def episode_returns(length: int, success: bool, gamma: float, failure_reward: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (returns, rewards) of an episode, both (length,) float32."""
    rewards = np.full(length, -1, np.float32)
    rewards[-1] = 0 if success else failure_reward
    returns = rewards.copy()
    for t in reversed(range(length - 1)):
        returns[t] = rewards[t] + gamma * returns[t + 1]
    return returns, rewards


def file_returns(path: Path, kind: str, gamma: float, failure_reward: float, tasks: dict[int, str]) -> pa.Table:
    """Return episode_index, frame_index, return, reward and prompt of one of the dataset's parquet files.

    Raises:
        ValueError: a rollout file without success labels.
    """
    names = pq.read_schema(path).names
    table = pq.read_table(path, columns=[name for name in WANTED if name in names])
    if kind != "sft" and "is_success" not in names:
        raise ValueError(f"{path}: no column is_success, which a rollout dataset needs")
    episodes = table["episode_index"].to_numpy().astype(np.int64)
    starts = [0, *(np.flatnonzero(np.diff(episodes)) + 1).tolist(), len(episodes)]
    returns, rewards = np.empty(len(episodes), np.float32), np.empty(len(episodes), np.float32)
    for start, end in itertools.pairwise(starts):
        if start == end:
            continue
        success = kind == "sft" or bool(table["is_success"][end - 1].as_py())
        returns[start:end], rewards[start:end] = episode_returns(end - start, success, gamma, failure_reward)
    return pa.table(
        {
            "episode_index": episodes,
            "frame_index": table["frame_index"].to_numpy().astype(np.int64),
            "return": returns,
            "reward": rewards,
            "prompt": pa.array(_prompts(table, tasks), pa.string()),
        }
    )


def _prompts(table: pa.Table, tasks: dict[int, str]) -> list[str]:
    if "task" in table.column_names:
        return [str(task) for task in table["task"].to_pylist()]
    if "task_index" in table.column_names:
        return [tasks.get(int(index), FALLBACK_PROMPT) for index in table["task_index"].to_pylist()]
    return [FALLBACK_PROMPT] * table.num_rows


def dataset_returns(root: Path, kind: str, gamma: float, failure_reward: float, tag: str | None, workers: int) -> None:
    """Write meta/returns.parquet; add the columns' range to stats.json and their types to info.json."""
    files = sorted((root / "data").rglob("*.parquet"))
    if not files:
        raise FileNotFoundError(f"{root / 'data'} holds no parquet file")
    tasks = read_tasks(root)
    with ThreadPoolExecutor(workers) as pool:
        tables = list(pool.map(lambda path: file_returns(path, kind, gamma, failure_reward, tasks), files))
    table = pa.concat_tables(tables)
    pq.write_table(table, root / "meta" / (f"returns_{tag}.parquet" if tag else "returns.parquet"))
    _update(root / "meta/stats.json", {name: _range(table[name].to_numpy()) for name in ("return", "reward")})
    types = {"return": "float32", "reward": "float32", "prompt": "string"}
    features = {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in types.items()}
    info = json.loads((root / "meta/info.json").read_text(encoding="utf-8"))
    _update(root / "meta/info.json", {"features": {**info["features"], **features}})
    print(f"{root.name}: {table.num_rows} frames of {len(files)} files", flush=True)


def read_tasks(root: Path) -> dict[int, str]:
    """Return the task texts by index."""
    path = root / "meta/tasks.jsonl"
    if not path.is_file():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {row["task_index"]: row["task"] for row in rows}


def _range(values: np.ndarray) -> dict[str, float]:
    variance = float(values.astype(np.float64).var())
    return {
        "mean": float(values.mean()),
        "std": math.sqrt(max(variance, 0.0)),
        "min": float(values.min()),
        "max": float(values.max()),
    }


def _update(path: Path, values: dict[str, Any]) -> None:
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps({**content, **values}, indent=2), encoding="utf-8")


def run(config: Any) -> None:
    """Compute the returns of all datasets of a configuration."""
    data = config.data
    for entry in data.train_data_paths:
        dataset_returns(
            Path(entry.dataset_path), entry.type, data.gamma, data.failure_reward, data.tag, int(data.num_workers)
        )
