"""Our SFTRunner: checkpoints by rename, stop on SIGTERM. RLinf's base class is replaced by its contract."""

import importlib
import json
import os
import signal
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rlinf_npu.recap.checkpoint import complete_checkpoints


class Base:
    """What RLinf's SFTRunner does, as far as ours relies on it."""

    def __init__(self, cfg: Any, actor: Any, run_timer: Any = None) -> None:
        self.cfg, self.actor, self.global_step = cfg, actor, 0
        self.max_steps, self.num_steps_per_epoch = 4, 2
        self.flushes: list[int] = []
        writer = types.SimpleNamespace(flush=lambda: self.flushes.append(self.global_step))
        loggers = [{"tensorboard": types.SimpleNamespace(writer=writer)}]
        self.metric_logger = types.SimpleNamespace(finish=lambda: None, _all_loggers=loggers)

    def _save_checkpoint(self, is_best: bool = False) -> None:
        raise AssertionError("RLinf's own save is not atomic")

    def run(self) -> None:
        for _ in range(self.global_step, self.max_steps):
            if hasattr(self.actor, "set_global_step"):
                self.actor.set_global_step(self.global_step)
            self.actor.train()
            self.global_step += 1
            if self.global_step % 2 == 0:
                self._save_checkpoint()


class Actor:
    """A worker group that saves one file; `on_train` is called in every step."""

    def __init__(self, on_train: Any = lambda: None) -> None:
        self.train = on_train
        self.steps: list[int] = []

    def set_global_step(self, step: int) -> None:
        self.steps.append(step)

    def save_checkpoint(self, path: str, step: int) -> Any:
        weights = Path(path) / "model_state_dict/full_weights.pt"
        weights.parent.mkdir(parents=True)
        weights.write_text(str(step))
        return types.SimpleNamespace(wait=lambda: None)


@pytest.fixture
def runner_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("rlinf", "rlinf.runners"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    fake = types.ModuleType("rlinf.runners.sft_runner")
    fake.SFTRunner = Base  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.delitem(sys.modules, "rlinf_npu.recap.drivers.runner", raising=False)
    yield importlib.import_module("rlinf_npu.recap.drivers.runner")
    signal.signal(signal.SIGTERM, before)


def config(tmp_path: Path) -> Any:
    logger = types.SimpleNamespace(log_path=str(tmp_path), experiment_name="value_sft")
    return types.SimpleNamespace(runner=types.SimpleNamespace(logger=logger))


def progress(tmp_path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((tmp_path / "recap_progress.json").read_text())
    return content


def test_checkpoints_and_progress(runner_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "FLUSH_SECONDS", 0.0)
    actor = Actor()
    runner = runner_module.RecapRunner(config(tmp_path), actor)
    runner.run()
    assert runner.flushes == [0, 1, 2, 3]
    root = tmp_path / "value_sft/checkpoints"
    assert [path.name for path in complete_checkpoints(root)] == ["global_step_2", "global_step_4"]
    assert sorted(path.name for path in root.iterdir()) == ["global_step_2", "global_step_4"]
    assert actor.steps == [0, 1, 2, 3]
    assert progress(tmp_path)["status"] == "finished"
    assert progress(tmp_path)["global_step"] == 4


def test_sigterm_saves_and_leaves_with_75(runner_module: Any, tmp_path: Path) -> None:
    runner = runner_module.RecapRunner(config(tmp_path), Actor())
    runner.actor._actor.train = lambda: os.kill(os.getpid(), signal.SIGTERM) if runner.global_step == 2 else None
    with pytest.raises(SystemExit) as stop:
        runner.run()
    assert stop.value.code == 75
    assert [p.name for p in complete_checkpoints(tmp_path / "value_sft/checkpoints")] == [
        "global_step_2",
        "global_step_3",
    ]
    assert progress(tmp_path)["status"] == "stopped"


def test_a_killed_save_never_looks_whole(runner_module: Any, tmp_path: Path) -> None:
    actor = Actor()

    def killed(path: str, step: int) -> Any:
        (Path(path) / "half").write_text("x")
        raise KeyboardInterrupt

    actor.save_checkpoint = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        runner_module.RecapRunner(config(tmp_path), actor).run()
    root = tmp_path / "value_sft/checkpoints"
    assert complete_checkpoints(root) == []
    assert not list(root.glob("global_step_*"))
