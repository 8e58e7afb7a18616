"""recap check: every finding names the place and the cure."""

import errno
import json
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rlinf_npu.recap.check import datasets, host, models, run_checks
from rlinf_npu.recap.check.access import guarded
from rlinf_npu.recap.check.finding import Finding
from rlinf_npu.recap.check.safetensors_file import read_table
from rlinf_npu.recap.config import Config, Dataset, Value, validate


def errors(findings: Any) -> list[Finding]:
    return [finding for finding in findings if finding.level == "error"]


def safetensors(path: Path, shape: tuple[int, ...] = (2, 3), cut: int = 0) -> Path:
    size = 4
    for side in shape:
        size *= side
    header = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * (size - cut))
    return path


def test_safetensors(tmp_path: Path) -> None:
    assert read_table(safetensors(tmp_path / "whole")).parameters == 6
    with pytest.raises(ValueError, match="incomplete download"):
        read_table(safetensors(tmp_path / "cut", cut=5))
    (tmp_path / "html").write_text("<html>not found</html>")
    with pytest.raises(ValueError, match="not a safetensors file"):
        read_table(tmp_path / "html")


def model(folder: Path, config: dict[str, Any]) -> Path:
    safetensors(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_siglip(tmp_path: Path) -> None:
    assert not errors(models.check_siglip(model(tmp_path / "a", {"vision_config": {"image_size": 224}})))
    [found] = errors(models.check_siglip(model(tmp_path / "b", {"image_size": 384})))
    assert "384 px" in found.what
    [found] = errors(models.check_siglip(tmp_path / "none"))
    assert "download it" in found.fix


def test_a_shard_of_the_index_is_missing(tmp_path: Path) -> None:
    folder = model(tmp_path / "a", {"image_size": 224})
    index = {"weight_map": {"w": "model.safetensors", "v": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    [found] = errors(models.check_siglip(folder))
    assert found.where.endswith("model-2.safetensors")


def test_gemma(tmp_path: Path) -> None:
    good = {"head_dim": 256, "num_key_value_heads": 1, "num_hidden_layers": 18}
    assert not errors(models.check_gemma(model(tmp_path / "a", good), "gemma_1m"))
    bad = {"text_config": {"head_dim": 128, "num_key_value_heads": 4, "num_hidden_layers": 2}}
    assert len(errors(models.check_gemma(model(tmp_path / "b", bad), "gemma_1m"))) == 3


def test_policy_needs_norm_stats(tmp_path: Path) -> None:
    safetensors(tmp_path / "model.safetensors")
    [found] = errors(models.check_policy(tmp_path))
    assert "norm_stats" in found.what
    stats = {part: {key: [0.0] for key in ("mean", "std", "q01", "q99")} for part in ("state", "actions")}
    path = tmp_path / "physical-intelligence/libero/norm_stats.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"norm_stats": stats}))
    assert not errors(models.check_policy(tmp_path))
    del stats["state"]["q99"]
    path.write_text(json.dumps({"norm_stats": stats}))
    assert "state.q99" in errors(models.check_policy(tmp_path))[0].what


def test_openpi_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENPI_DATA_HOME", raising=False)
    assert [finding.level for finding in models.check_openpi(None)] == ["warning"]
    assert len(errors(models.check_openpi(tmp_path))) == 1
    (tmp_path / "big_vision").mkdir()
    (tmp_path / "big_vision/paligemma_tokenizer.model").touch()
    assert [finding.level for finding in models.check_openpi(tmp_path)] == ["ok"]


INFO = {
    "codebase_version": "v2.1",
    "total_episodes": 2,
    "total_frames": 5,
    "features": {name: {"dtype": "float32"} for name in ("image", "wrist_image", "state", "actions", "is_success")},
    "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
}


def dataset(root: Path, **changes: Any) -> Dataset:
    (root / "meta").mkdir(parents=True, exist_ok=True)
    (root / "meta/info.json").write_text(json.dumps({**INFO, **changes}))
    rows = [{"episode_index": 0, "length": 3}, {"episode_index": 1, "length": 2}]
    (root / "meta/episodes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (root / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "pick"}')
    return Dataset(path=root, type="rollout")


def test_meta(tmp_path: Path) -> None:
    meta, found = datasets.read_meta(dataset(tmp_path).path)
    assert meta is not None
    assert not found
    assert meta.path(tmp_path, 1, "image").name == "episode_000001.mp4"


def test_meta_that_does_not_fit(tmp_path: Path) -> None:
    _, found = datasets.read_meta(dataset(tmp_path, codebase_version="v3.0", total_frames=9).path)
    assert [finding.what for finding in found] == ["format v3.0", "total_frames 9, episodes.jsonl has 5"]
    _, found = datasets.read_meta(tmp_path / "nowhere")
    assert "LeRobot v2.1" in found[0].fix


def test_features(tmp_path: Path) -> None:
    features: dict[str, Any] = {name: {} for name in ("image", "state", "actions")}
    checked = dataset(tmp_path, features=features)
    meta, _ = datasets.read_meta(tmp_path)
    assert meta is not None
    texts = [finding.what for finding in datasets.check_features(checked, meta)]
    assert texts == ["no feature wrist_image/observation.wrist_image", "no feature is_success"]
    unknown = Dataset(path=tmp_path, type="sft", robot="spot")
    assert "spot" in next(iter(datasets.check_features(unknown, meta))).what


def test_sample_holds_first_and_last() -> None:
    assert datasets.sample(range(10), full=False) == list(range(10))
    some = datasets.sample(range(1000), full=False)
    assert (some[0], some[-1], len(some)) == (0, 999, datasets.SAMPLE)
    assert len(datasets.sample(range(1000), full=True)) == 1000


def test_many_faulty_files_are_counted(tmp_path: Path) -> None:
    problems = iter([(tmp_path / str(i), "missing") for i in range(10)])
    found = list(datasets.summarise(tmp_path, problems, 10, 100))
    assert [finding.level for finding in found] == ["error"] * 4 + ["warning"]
    assert "7 more" in found[3].what


def test_data_files(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is in the image, not on every host")
    import pyarrow.parquet as pq

    checked = dataset(tmp_path)
    meta, _ = datasets.read_meta(tmp_path)
    assert meta is not None
    (tmp_path / "data/chunk-000").mkdir(parents=True)
    pq.write_table(pyarrow.table({"is_success": [[True]] * 3}), tmp_path / "data/chunk-000/episode_000000.parquet")
    (tmp_path / "data/chunk-000/episode_000001.parquet").write_bytes(b"PAR1 cut off")
    found = [text for _, text in datasets.parquet_problems(checked, meta, [0, 1], lambda *_: None)]
    assert "not a boolean" in found[0]
    assert "not a parquet file" in found[1]


def test_videos(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="PyAV is in the image, not on every host")
    import numpy
    from rlinf_npu.recap.check.video import video_problem

    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        for index in range(12):
            frame = av.VideoFrame.from_ndarray(numpy.full((64, 64, 3), index * 20, numpy.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    for full in (False, True):
        assert video_problem(path, 12, full) is None
        assert "12 frames" in str(video_problem(path, 13, full))
        assert video_problem(tmp_path / "none.mp4", 12, full) == "missing"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "cannot be decoded" in str(video_problem(path, 12, full=False))
    path.write_bytes(b"")
    assert "cannot be decoded" in str(video_problem(path, 12, full=False))


def test_checkpoints_that_the_settings_imply() -> None:
    assert host.checkpoint_count(Value(max_epochs=10, max_steps=-1), frames_=1280) == (100, 1)
    assert host.checkpoint_count(Value(max_epochs=30000, max_steps=6001), frames_=12800) == (6001, 3)


def test_disk(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "parameters", lambda folder: 3_000_000_000)
    monkeypatch.setattr(host, "frames", lambda config: 12800)
    [found] = host.check_disk(config)
    assert found.level in {"warning", "error"}
    assert "raise save_every" in found.fix


def test_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(64 << 20, 0, 64 << 20))
    assert "--shm-size" in errors(host.check_shm(tmp_path))[0].fix
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(32 << 30, 0, 32 << 30))
    assert not errors(host.check_shm(tmp_path))


@pytest.mark.parametrize(("available", "expected"), [(0, "no NPU"), (3, "not a multiple")])
def test_cards(config: Config, monkeypatch: pytest.MonkeyPatch, available: int, expected: str) -> None:
    monkeypatch.setattr(host, "frames", lambda config: 12800)
    assert expected in errors(host.check_cards(config, available))[0].what


def test_what_is_not_there_is_neither_in_order_nor_a_reason_for_advice(config: Config) -> None:
    """Without models and data nobody knows what the checkpoints need, nor whether the batches are too large."""
    [disk] = host.check_disk(config)
    assert disk.level == "warning"
    assert "cannot be told without the models and the training sets" in disk.what
    assert "save_every" not in disk.fix
    assert [found.what for found in host.check_cards(config, 8)] == ["8 of 8 visible"]


def test_info_that_is_not_json_is_a_finding_and_no_crash(config: Config) -> None:
    root = config.datasets.train[0].path
    (root / "meta").mkdir(parents=True)
    (root / "meta/info.json").write_text("<html>")
    found = run_checks(config, full=False, cards=8)
    assert any(finding.where == str(root / "meta") and "not readable" in finding.what for finding in found)


def test_policy_that_an_earlier_run_saved_has_a_size(tmp_path: Path) -> None:
    path = tmp_path / "actor/model_state_dict/full_weights.pt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"0" * 4000)
    assert host.parameters(tmp_path) == 1000


@pytest.mark.parametrize(("kind", "faults"), [("siglip2", 0), ("clip", 1)])
def test_another_kind_of_model(tmp_path: Path, kind: str, faults: int) -> None:
    found = errors(models.check_siglip(model(tmp_path, {"model_type": kind, "vision_config": {}})))
    assert len(found) == faults
    assert all("siglip model is needed" in finding.fix for finding in found)


def test_a_missing_language_model_is_named_once(config: Config) -> None:
    found = errors(run_checks(config, full=False, cards=8))
    assert [finding.where for finding in found].count(str(config.models.gemma3)) == 1
    assert not [finding for finding in found if "tokenizer.json" in finding.what]


@pytest.fixture
def barred() -> Iterator[Path]:
    """A folder that this process may not enter."""
    with tempfile.TemporaryDirectory() as name:
        folder, root = Path(name), os.geteuid() == 0
        folder.chmod(0o700 if root else 0)
        if root:
            os.seteuid(65534)
        yield folder
        if root:
            os.seteuid(0)
        folder.chmod(0o700)


def test_a_data_folder_that_may_not_be_entered_is_one_finding(raw: dict[str, Any], barred: Path) -> None:
    """Paths count from recap.yaml's folder; only the log folder is elsewhere."""
    within = validate({**raw, "log_dir": "/tmp"}, barred / "recap.yaml")
    found = errors(run_checks(within, full=False, cards=8))
    [named] = [finding for finding in found if "may not read it" in finding.what]
    owner = barred.stat().st_uid if os.geteuid() else 0
    assert named.where == str(barred)
    assert named.what.startswith(f"uid {os.geteuid()} may not read it: it belongs to {owner}:")
    assert ("chown" in named.fix and "RUN_AS=" in named.fix) or os.geteuid() == owner
    assert not [finding for finding in found if "missing" in finding.what], "nobody knows what is in it"


def test_a_disk_that_fails_is_named() -> None:
    [found] = guarded(failing())
    assert (found.where, found.what) == ("/data/x", "Stale file handle")


def failing() -> Iterator[Finding]:
    raise OSError(errno.ESTALE, "Stale file handle", "/data/x")
    yield
