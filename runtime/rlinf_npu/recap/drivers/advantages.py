"""Step 3 for RLinf sources without its script. The value model and its preprocessing are RLinf's.

Under torchrun every rank scores one slice of each dataset on its own card; rank 0 labels and writes.
"""

import importlib
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
import yaml
from tqdm import tqdm

from rlinf_npu.recap.drivers.advantage_math import Frames, Scale, advantages, shards, threshold
from rlinf_npu.recap.drivers.returns import read_tasks

# Newer RLinf has these modules one level deeper or under another name.
CRITIC = (
    "rlinf.models.embodiment.value_model.recap.modeling_critic",
    "rlinf.models.embodiment.value_model.modeling_critic",
)
DATASET = ("rlinf.data.datasets.recap.value_dataset", "rlinf.data.datasets.recap.value_model")


def first_module(names: tuple[str, ...]) -> Any:
    """Import the first module that exists."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
    return importlib.import_module(names[-1])


def set_up(config: Any) -> tuple[int, int, str]:
    """Join the process group when there is one; return rank, world size and device."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank, local_rank = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    if not (hasattr(torch, "npu") and torch.npu.is_available()):
        return rank, world, "cpu"
    torch.npu.set_device(local_rank)
    if world > 1:
        settings = config.distributed
        dist.init_process_group(backend=settings.backend, timeout=timedelta(seconds=settings.timeout))
    return rank, world, f"npu:{local_rank}"


def load_model(config: Any, device: str) -> Any:
    """Return RLinf's value model with its preprocessing, on the device."""
    model = config.advantage.model
    critic = first_module(CRITIC).ValueCriticModel
    return critic.from_checkpoint(
        config.advantage.value_checkpoint,
        device=device,
        env_type=config.data.train_data_paths[0].robot_type,
        model_type=config.data.model_type,
        num_return_bins=model.num_bins,
        return_min=model.v_min,
        return_max=model.v_max,
        critic_expert_variant=model.critic_expert_variant,
        tokenizer_path=model.tokenizer_path,
        siglip_path=model.siglip_path,
        gemma3_path=model.gemma3_path,
    )


class Observations(torch.utils.data.Dataset):  # type: ignore[misc, type-arg]
    """Frames of a LeRobot dataset as the value model wants them, prepared on the CPU."""

    def __init__(self, dataset: Any, model: Any, keys: dict[str, str], tasks: dict[int, str]) -> None:
        """`keys`: observation name -> column; `tasks`: prompt by task index."""
        self.dataset, self.keys, self.tasks = dataset, keys, tasks
        self.transform, self.processor = model._input_transform, model.processor
        self.prepare = type(model)._prepare_observation_cpu

    def __len__(self) -> int:
        """Frames."""
        return len(self.dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One prepared observation, a batch of one."""
        sample = self.dataset[index]
        observation = {name: np.asarray(sample[key]) for name, key in self.keys.items() if key in sample}
        observation["prompt"] = sample.get("task") or self.tasks[int(sample["task_index"])]
        return self.prepare(self.transform(observation), processor=self.processor)  # type: ignore[no-any-return]


def open_dataset(path: Path) -> Any:
    """Open a LeRobot dataset for access to single frames."""
    from lerobot.common.datasets.lerobot_dataset import LeRobotDataset  # the name that RLinf uses too
    from rlinf.data.datasets.recap.utils import decode_image_struct_batch

    dataset = LeRobotDataset(path.name, root=path, download_videos=False, video_backend="pyav")
    dataset.hf_dataset.set_transform(decode_image_struct_batch)
    return dataset


def observation_keys(robot: str) -> dict[str, str]:
    """Observation name -> dataset column, from RLinf's own table of robots."""
    table = first_module(DATASET)._REPACK_KEYS
    if robot not in table:
        raise ValueError(f"robot {robot!r} is not known to RLinf; known: {', '.join(table)}")
    return {name: key for name, key in table[robot].items() if name.startswith("observation/")}


def score(model: Any, data: Observations, part: range, config: Any, label: str) -> np.ndarray:
    """Return the values of the frames in `part`, shape (len(part),) float64."""
    settings = config.advantage
    workers = int(settings.num_dataloader_workers_per_gpu)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.Subset(data, part),
        batch_size=settings.batch_size,
        num_workers=workers,
        prefetch_factor=settings.prefetch_factor if workers else None,
        collate_fn=list,
    )
    values: list[float] = []
    with tqdm(total=len(part), desc=label, unit="samples") as bar, torch.no_grad():
        for batch in loader:
            results = model.infer_batch(
                batch, batch_size=settings.batch_size, pretransformed=True, already_cpu_prepared=True
            )
            values += [result["value"] for result in results]
            bar.update(len(batch))
    return np.array(values, np.float64)


def score_all(
    model: Any, data: Observations, config: Any, rank: int, world: int, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Score a dataset over all ranks; return on every rank the values and those `lookahead` later, both (frames,).

    Every rank scores `lookahead` frames beyond its own, in upstream's batches: the numbers are upstream's to the bit.
    """
    lookahead = int(config.data.advantage_lookahead_step)
    part = shards(len(data), world)[rank]
    extended = range(part.start, min(part.stop + lookahead, len(data)) if len(part) else part.start)
    found = score(model, data, extended, config, f"[Rank {rank}] {name}")
    ahead = found[np.minimum(np.arange(len(part)) + lookahead, max(0, len(found) - 1))] if len(part) else found
    own = (found[: len(part)], ahead)
    if world == 1:
        return own
    parts: list[Any] = [None] * world
    dist.all_gather_object(parts, own)
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def frame_table(dataset: Any, path: Path, tag: str | None) -> Frames:
    """Return episode, frame, return and reward of every frame."""
    from rlinf.data.datasets.recap.utils import load_returns_sidecar

    sidecar = load_returns_sidecar(path, returns_tag=tag)
    if sidecar is None:
        raise FileNotFoundError(f"{path}/meta/returns.parquet is missing: run step 1 first")
    ends = [int(end) for end in dataset.episode_data_index["to"]]
    lengths = np.diff([0, *ends])
    episodes = range(len(ends))
    return Frames(
        episode=np.repeat(episodes, lengths),
        frame=np.concatenate([np.arange(n) for n in lengths]),
        episode_end=np.repeat(ends, lengths),
        returns=np.concatenate([sidecar[e]["return"] for e in episodes]).astype(np.float64),
        rewards=np.concatenate([sidecar[e]["reward"] for e in episodes]).astype(np.float64),
    )


def return_range(paths: list[Path]) -> tuple[float, float]:
    """Return the lowest and highest return over all datasets, from their stats.json."""
    from rlinf.data.datasets.recap.utils import load_return_stats_from_dataset

    pairs = [load_return_stats_from_dataset(path) for path in paths]
    return min(p[0] for p in pairs), max(p[1] for p in pairs)


def write(path: Path, table: pd.DataFrame, tag: str | None) -> None:
    """Write advantages.parquet."""
    table.to_parquet(path / "meta" / (f"advantages_{tag}.parquet" if tag else "advantages.parquet"), index=False)


def note_mixture(
    path: Path, scale: Scale, entries: list[dict[str, Any]], label: dict[str, float], tag: str | None
) -> None:
    """Record range, datasets and threshold in meta/mixture_config.yaml, keeping what else is there."""
    file = path / "meta/mixture_config.yaml"
    content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else {}
    content.update(global_return_min=scale.low, global_return_max=scale.high, datasets=entries)
    if tag:
        content.setdefault("tags", {})[tag] = label
    else:
        content.update(label)
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def run(config: Any) -> None:
    """Label all training sets of a configuration."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rank, world, device = set_up(config)
    print(f"[Rank {rank}] device {device}, {world} rank(s)", flush=True)
    model = load_model(config, device)
    entries = list(config.data.train_data_paths)
    paths = [Path(entry.dataset_path) for entry in entries]
    low, high = return_range(paths)
    scale = Scale(
        low, high, config.data.gamma, config.data.advantage_lookahead_step, config.advantage.discount_next_value
    )
    tables = []
    for entry, path in zip(entries, paths, strict=True):
        dataset = open_dataset(path)
        data = Observations(dataset, model, observation_keys(entry.robot_type), read_tasks(path))
        values, ahead = score_all(model, data, config, rank, world, path.name)
        frames = frame_table(dataset, path, config.advantage.returns_tag)
        columns = {
            "episode_index": frames.episode,
            "frame_index": frames.frame,
            **advantages(frames, values, ahead, scale),
        }
        tables.append(pd.DataFrame(columns).assign(dataset_name=path.name))
    if rank == 0:
        label_and_write(config, entries, paths, tables, scale)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def label_and_write(
    config: Any, entries: list[Any], paths: list[Path], tables: list[pd.DataFrame], scale: Scale
) -> None:
    """Find the threshold over all datasets together, label every frame, write the files."""
    quantile, tag = config.advantage.positive_quantile, config.advantage.tag
    limit = threshold(np.concatenate([t["advantage_continuous"] for t in tables]), quantile)
    mixture = [
        {"name": p.name, "weight": e.get("weight", 1.0), "return_min": None, "return_max": None}
        for e, p in zip(entries, paths, strict=True)
    ]
    for entry, path, table in zip(entries, paths, tables, strict=True):
        positive = True if entry.type == "sft" else table["advantage_continuous"] >= limit
        write(path, table.assign(advantage=positive), tag)
        note_mixture(path, scale, mixture, {"unified_threshold": limit, "positive_quantile": quantile}, tag)
        print(f"{path.name}: {int(np.sum(table.assign(a=positive).a))} of {len(table)} frames positive", flush=True)
