"""What our drivers compute, and the exact resume."""

import sys
import types
from pathlib import Path
from typing import ClassVar

import pytest
from rlinf_npu.recap.drivers.worker_ext import resume_mid_epoch, skip_once, skip_used


class Sampler:
    """Counts upwards, as DistributedSampler does without shuffling."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(range(self.size))

    def __len__(self) -> int:
        return self.size


class Loader:
    """As far as skip_used looks at torch's DataLoader."""

    def __init__(self, batches: int, batch_size: int) -> None:
        self.batches, self.batch_size, self.sampler = batches, batch_size, Sampler(batches * batch_size)

    def __len__(self) -> int:
        return self.batches


def test_the_first_pass_is_cut_the_next_whole() -> None:
    sampler = Sampler(6)
    skip_once(sampler, 4)
    assert list(sampler) == [4, 5]
    assert list(sampler) == [0, 1, 2, 3, 4, 5]
    assert len(sampler) == 6
    assert isinstance(sampler, Sampler)


@pytest.mark.parametrize(("step", "first"), [(0, 0), (1, 8), (3, 24), (4, 0), (6, 16)])
def test_resume_goes_on_inside_the_epoch(step: int, first: int) -> None:
    loader = Loader(batches=9, batch_size=4)
    skip_used(loader, step, accumulation=2)  # 4 steps an epoch
    assert next(iter(loader.sampler)) == first


class Strategy:
    """RLinf's FSDPStrategyBase, as far as the resume relies on it."""

    loaded: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.cfg = types.SimpleNamespace(global_batch_size=16, micro_batch_size=4)
        self.world_size = 2

    @classmethod
    def load_checkpoint(cls, model: object, optimizer: object, scheduler: object, load_path: str) -> None:
        cls.loaded.append(load_path)


class LoaderImpl:
    """RLinf's BaseDataLoaderImpl, likewise."""

    def __init__(self) -> None:
        self._data_loader, self.epoch = Loader(batches=9, batch_size=4), -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def test_the_hooks_sit_where_ray_leaves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("rlinf.data.datasets.recap.common", "rlinf.hybrid_engines.fsdp.strategy.base")
    for name in {".".join(full.split(".")[:depth]) for full in names for depth in range(1, 6)}:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr(sys.modules[names[0]], "BaseDataLoaderImpl", LoaderImpl, raising=False)
    monkeypatch.setattr(sys.modules[names[1]], "FSDPStrategyBase", Strategy, raising=False)
    resume_mid_epoch()
    strategy, loader = Strategy(), LoaderImpl()
    loader.set_epoch(0)
    assert next(iter(loader._data_loader.sampler)) == 0
    strategy.load_checkpoint(None, None, None, "/run/checkpoints/global_step_5/actor")
    loader.set_epoch(1)
    assert Strategy.loaded == ["/run/checkpoints/global_step_5/actor"]
    assert loader.epoch == 1
    assert (
        next(iter(loader._data_loader.sampler)) == 8
    )  # step 5 of 4 a epoch: one step of two micro batches of 4 is used
    loader.set_epoch(2)
    assert next(iter(loader._data_loader.sampler)) == 0


def test_returns_of_an_episode() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is in the image, not on every host")
    pytest.importorskip("pyarrow", reason="pyarrow is in the image, not on every host")
    from rlinf_npu.recap.drivers.returns import episode_returns

    returns, rewards = episode_returns(4, True, 1.0, -300.0)
    assert returns.tolist() == [-3, -2, -1, 0]
    assert rewards.tolist() == [-1, -1, -1, 0]
    assert episode_returns(3, False, 1.0, -300.0)[0].tolist() == [-302, -301, -300]
    assert numpy.allclose(episode_returns(3, False, 0.5, -8.0)[0], [-3.5, -5, -8])


def test_advantages_by_hand() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is in the image, not on every host")
    from rlinf_npu.recap.drivers.advantage_math import Frames, Scale, advantages, shards, threshold

    frames = Frames(
        episode=numpy.array([0, 0, 0, 1]),
        frame=numpy.array([0, 1, 2, 0]),
        episode_end=numpy.array([3, 3, 3, 4]),
        returns=numpy.array([-2.0, -1.0, 0.0, -9.0]),
        rewards=numpy.array([-1.0, -1.0, 0.0, -9.0]),
    )
    values = numpy.array([-0.2, -0.1, -0.05, -0.9])
    ahead = values[[2, 3, 3, 3]]
    found = advantages(frames, values, ahead, Scale(low=-10.0, high=0.0, gamma=1.0, lookahead=2))
    assert found["reward_sum_raw"].tolist() == [-2.0, -1.0, 0.0, -9.0]
    assert found["value_next"].tolist() == [-0.05, 0.0, 0.0, 0.0]
    assert found["num_valid_rewards"].tolist() == [2, 2, 1, 1]
    assert numpy.allclose(found["advantage_continuous"], [-0.2 - 0.05 + 0.2, -0.1 + 0.1, 0.05, -0.9 + 0.9])
    discounted = advantages(frames, values, ahead, Scale(low=-10.0, high=0.0, gamma=0.5, lookahead=2))
    assert discounted["reward_sum_raw"].tolist() == [-1.5, -1.0, 0.0, -9.0]
    assert numpy.isclose(discounted["advantage_continuous"][0], (-1.5 + 10) / 10 - 1 + 0.25 * -0.05 + 0.2)
    assert threshold(numpy.arange(11.0), 0.3) == 7.0
    assert shards(7, 3) == [range(3), range(3, 5), range(5, 7)]
    assert shards(1, 2) == [range(1), range(1, 1)]


def test_returns_of_a_dataset(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is in the image, not on every host")
    import json

    import pyarrow.parquet as pq
    from rlinf_npu.recap.drivers.returns import dataset_returns
    from rlinf_npu.recap.steps.base import sort_table

    (tmp_path / "data/chunk-000").mkdir(parents=True)
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text(json.dumps({"features": {"state": {}}}))
    (tmp_path / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "pick"}\n')
    for episode, success in ((1, False), (0, True)):
        columns = {
            "episode_index": [episode] * 2,
            "frame_index": [0, 1],
            "task_index": [0, 0],
            "is_success": [success] * 2,
        }
        pq.write_table(pyarrow.table(columns), tmp_path / f"data/chunk-000/{1 - episode}.parquet")
    dataset_returns(tmp_path, "rollout", 1.0, -10.0, None, 2)
    sort_table(tmp_path / "meta/returns.parquet")
    table = pq.read_table(tmp_path / "meta/returns.parquet").to_pydict()
    assert table["return"] == [-1, 0, -11, -10]
    assert table["episode_index"] == [0, 0, 1, 1]
    assert table["prompt"] == ["pick"] * 4
    assert json.loads((tmp_path / "meta/stats.json").read_text())["return"]["min"] == -11
    assert "return" in json.loads((tmp_path / "meta/info.json").read_text())["features"]
