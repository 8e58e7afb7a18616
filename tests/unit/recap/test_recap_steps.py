"""Views, settings, layout, status, plots and the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from rlinf_npu.recap import compose
from rlinf_npu.recap.cli import app
from rlinf_npu.recap.config import Config, Dataset
from rlinf_npu.recap.environment import ray_dir, step_environment
from rlinf_npu.recap.errors import StepFailed, UsageError
from rlinf_npu.recap.layout import Run, step_name
from rlinf_npu.recap.progress import duration, line
from rlinf_npu.recap.source import Source, find_source
from rlinf_npu.recap.state import StepState, save_state
from rlinf_npu.recap.steps.advantages import require_npu
from rlinf_npu.recap.steps.base import make_view, publish
from typer.testing import CliRunner


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "runs/recap")


@pytest.mark.parametrize("text", ["2", "value_sft", "value-sft"])
def test_step_names(text: str) -> None:
    assert step_name(text) == "value_sft"


def test_no_such_step() -> None:
    with pytest.raises(ValueError, match="4 cfg-rl"):
        step_name("5")


def test_a_view_shares_data_and_has_its_own_meta(tmp_path: Path) -> None:
    root = tmp_path / "set"
    for name in ("data/chunk-000/e.parquet", "videos/v.mp4", "meta/info.json", "meta/returns.parquet"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    view = tmp_path / "view/set"
    for _ in range(2):  # again after a crash
        make_view(Dataset(path=root, type="sft"), view)
    assert [path.name for path in (view / "data").rglob("*.parquet")] == ["e.parquet"]
    assert not (view / "meta/returns.parquet").exists()
    (view / "meta/info.json").write_text("changed")
    (view / "meta/returns.parquet").write_text("new")
    assert (root / "meta/info.json").read_text() == "meta/info.json"
    publish(view, root, ["returns.parquet", "absent.json"])
    assert (root / "meta/returns.parquet").read_text() == "new"


def test_settings_of_all_steps(config: Config, run: Run, tmp_path: Path) -> None:
    value = compose.value_settings(config, run, Source(tmp_path), tmp_path / "logs", 8)
    assert value["cluster"]["component_placement"] == {"actor,env,rollout": "0-7"}
    assert value["actor"]["optim"]["value_lr"] == 1e-4
    assert value["data"]["eval_data_paths"][0]["dataset_path"].endswith("data/01/two")
    assert value["actor"]["model"]["model_type"] == "value_model"
    policy = compose.policy_settings(config, run, tmp_path / "logs", 8)
    assert policy["data"]["advantage_tag"] is None
    assert policy["runner"]["logger"]["experiment_name"] == "cfg_sft"
    advantage = compose.advantage_settings(config, run, tmp_path / "global_step_3")
    assert advantage["distributed"]["backend"] == "hccl"
    assert len(compose.returns_settings(config, run)["data"]["train_data_paths"]) == 2


def test_tags_agree_between_steps(config: Config, run: Run, tmp_path: Path) -> None:
    tagged = config.model_copy(update={"tag": "a"})
    assert compose.policy_settings(tagged, run, tmp_path, 1)["data"]["advantage_tag"] == "a"
    assert compose.advantage_settings(tagged, run, tmp_path)["advantage"]["tag"] == "a"
    assert compose.value_settings(tagged, run, Source(tmp_path), tmp_path, 1)["data"]["tag"] == "a"


def test_compose_without_upstream(config: Config, run: Run, tmp_path: Path) -> None:
    omegaconf = pytest.importorskip("omegaconf", reason="omegaconf is in the image, not on every host")
    settings = compose.value_settings(config, run, Source(tmp_path), tmp_path / "logs", 2)
    text = compose.compose(Source(tmp_path), "value_sft", settings, {"actor.optim.clip_grad": 0.5})
    loaded = omegaconf.OmegaConf.create(text)
    assert loaded.actor.optim.clip_grad == 0.5
    assert loaded.actor.fsdp_config.mixed_precision.param_dtype == "bf16"
    assert loaded.actor.fsdp_config.sharding_strategy == "no_shard"


def test_environment(config: Config, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":/a::/b:")
    monkeypatch.setenv("TMPDIR", "/a/very/long/path/that/would/not/leave/room/for/the/sockets")
    env = step_environment(config, run, Source(tmp_path))
    assert env["PYTHONPATH"] == f"{tmp_path}:/a:/b"
    assert env["RAY_ADDRESS"] == "local"
    assert len(str(ray_dir(run))) < 60
    assert env["RLINF_EXT_MODULE"].endswith("worker_ext")
    other = Run(run.root.with_name("other"))
    assert step_environment(config, other, Source(tmp_path))["RAY_TMPDIR"] != env["RAY_TMPDIR"]


def test_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="does not hold RLinf"):
        find_source(tmp_path)
    (tmp_path / "rlinf").mkdir()
    monkeypatch.setenv("RLINF_HOME", str(tmp_path))
    assert find_source().kind == "package"
    for name in ("compute_returns.py", "compute_advantages.py"):
        path = tmp_path / "examples/offline_rl/advantage_labeling/recap/process" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert find_source().kind == "package"  # all four, or our drivers
    (path.parents[1] / "train_value.py").touch()
    cfg = tmp_path / "examples/offline_rl/policy_optimization/cfg_rl/train_cfg.py"
    cfg.parent.mkdir(parents=True)
    cfg.touch()
    assert find_source().kind == "examples"


def device(folder: Path, rank: int, peak: int) -> None:
    facts = {"rank": rank, "npu_available": True, "peak_bytes": peak}
    (folder / f"device_rank_{rank}.json").write_text(json.dumps(facts))


def test_step_3_on_the_cpu_is_a_failure(tmp_path: Path) -> None:
    device(tmp_path, 0, 3 << 20)
    assert require_npu(tmp_path, 1) == 3
    with pytest.raises(StepFailed, match="1 of 2 ranks"):
        require_npu(tmp_path, 2)
    device(tmp_path, 1, 0)
    with pytest.raises(StepFailed, match="rank 1 allocated nothing on its NPU"):
        require_npu(tmp_path, 2)


def test_progress_line() -> None:
    figures = {"done": 20, "total": 31, "loss": 0.0684, "lr": 5e-5, "grad norm": 0.83, "conditional": 0.92, "eta": 70.0}
    text = line("4 CFG RL", figures, 125)
    assert text == "4 CFG RL  2m05s  20/31  loss 0.0684  lr 5e-05  grad norm 0.83  conditional 0.92  ETA 1m10s"
    assert line("1 returns", {}, 3) == "1 returns  3s  starting"
    assert (duration(59), duration(60), duration(7620)) == ("59s", "1m00s", "2h07m")


def recap(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "recap.yaml"
    path.write_text("models: {siglip: a, gemma3: b, policy: c}\ndatasets: {train: [{path: d, type: sft}]}\n")
    return str(path)


def test_command_line(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOG_DIR", raising=False)
    assert "global_batch: 128" in recap("config", "-c", file).output
    assert recap("status", "-c", file).exit_code == 2
    assert recap("resume", "-c", file).exit_code == 2
    assert recap("step", "9", "-c", file).exit_code == 2
    assert recap("run", "-c", str(tmp_path / "none.yaml")).exit_code == 2
    run = Run(tmp_path / "runs/recap")
    save_state(run.state_file("returns"), StepState(step="returns", status="running", started=1.0, attempts=1))
    assert "killed" in recap("status", "-c", file).output
    assert recap("clean", "-c", file, "--yes").exit_code == 0
    assert not run.root.exists()


def test_check_for_programs(file: str) -> None:
    result = recap("check", "--json", file)
    findings = json.loads(result.stdout)["findings"]
    assert result.exit_code == 1
    assert {"level", "where", "what", "fix"} == findings[0].keys()
    assert any("no such dataset" in finding["what"] for finding in findings)


def test_clean_refuses_what_is_not_a_run(file: str, tmp_path: Path) -> None:
    (tmp_path / "runs/recap").mkdir(parents=True)
    (tmp_path / "runs/recap/precious").touch()
    assert recap("clean", "-c", file, "--yes").exit_code == 2
    assert (tmp_path / "runs/recap/precious").exists()


def test_too_many_cards_are_refused_before_anything_starts(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlinf_npu.recap import cards

    (tmp_path / "rlinf").mkdir()
    monkeypatch.setattr(cards, "count_cards", lambda: 2)
    result = recap("run", "-c", file, "-s", "cards=3", "-s", f"rlinf_home={tmp_path}")
    assert result.exit_code == 2
    assert not (tmp_path / "runs").exists()
    result = recap("run", "-c", file, "-s", "value.global_batch=100", "-s", f"rlinf_home={tmp_path}")
    assert "100 is not a multiple of value.micro_batch 16 x 2 cards = 32; use 96 or 128" in result.output
