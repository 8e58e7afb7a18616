"""Atomic files, digests, checkpoints, records."""

import json
from pathlib import Path

import pytest
from rlinf_npu.recap.atomic import beside, copy_file, write_json
from rlinf_npu.recap.checkpoint import WEIGHTS, complete_checkpoints, problem, remove_unfinished, write_manifest
from rlinf_npu.recap.fingerprint import WHOLE, changes, file_digest, flatten, tree_digest
from rlinf_npu.recap.state import StepState, load_state, save_state


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "meta/returns.parquet"
    write_json(path, {"whole": True})
    with pytest.raises(RuntimeError), beside(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert json.loads(path.read_text()) == {"whole": True}
    assert [p.name for p in path.parent.iterdir()] == ["returns.parquet"]


def test_the_temporary_name_has_not_the_suffix(tmp_path: Path) -> None:
    with beside(tmp_path / "returns.parquet") as part:
        part.write_text("x")
        assert not list(tmp_path.glob("*.parquet"))


def test_copy(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    copy_file(tmp_path / "a", tmp_path / "deep/b")
    assert (tmp_path / "deep/b").read_text() == "text"


def test_digests_see_content_not_time(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (3 * WHOLE))
    before = file_digest(path)
    path.touch()
    assert file_digest(path) == before
    path.write_bytes(b"x" * (3 * WHOLE - 1) + b"y")
    assert file_digest(path) != before


def test_tree_digest_sees_names(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("1")
    before = tree_digest(tmp_path, ("**/*.mp4",))
    (tmp_path / "other.txt").write_text("2")
    assert tree_digest(tmp_path, ("**/*.mp4",)) == before
    (tmp_path / "a.mp4").rename(tmp_path / "b.mp4")
    assert tree_digest(tmp_path, ("**/*.mp4",)) != before
    assert tree_digest(tmp_path / "nowhere") == "absent"


def test_changes_are_named() -> None:
    before = flatten({"value": {"lr": 1e-4, "paths": ["a", "b"]}})
    after = flatten({"value": {"lr": 5e-5, "paths": ["a"]}})
    assert changes(before, after) == ["value.lr: 0.0001 -> 5e-05", "value.paths.1: b -> absent"]
    assert changes(before, before) == []


def make_checkpoint(root: Path, step: int) -> Path:
    folder = root / f"global_step_{step}"
    (folder / WEIGHTS).parent.mkdir(parents=True)
    (folder / WEIGHTS).write_bytes(b"w" * 100)
    (folder / "actor/dcp_checkpoint").mkdir()
    (folder / "actor/dcp_checkpoint/.metadata").write_bytes(b"m")
    write_manifest(folder, step)
    return folder


def test_complete_checkpoints_in_numeric_order(tmp_path: Path) -> None:
    for step in (10, 9, 100):
        make_checkpoint(tmp_path, step)
    (tmp_path / "global_step_200/actor").mkdir(parents=True)  # upstream's own, killed while saving
    assert [p.name for p in complete_checkpoints(tmp_path)] == ["global_step_9", "global_step_10", "global_step_100"]


def test_what_happened_to_a_checkpoint(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path, 3)
    assert problem(folder) is None
    (folder / WEIGHTS).write_bytes(b"w" * 99)
    assert problem(folder) == f"{WEIGHTS} has 99 bytes, was written with 100"
    (folder / "actor/dcp_checkpoint/.metadata").unlink()
    (folder / WEIGHTS).write_bytes(b"w" * 100)
    assert problem(folder) == "actor/dcp_checkpoint/.metadata is missing"
    (folder / "recap.json").unlink()
    assert "was not finished" in str(problem(folder))


def test_unfinished_saves_are_removed(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 3)
    (tmp_path / ".part_global_step_6/actor").mkdir(parents=True)
    assert [p.name for p in remove_unfinished(tmp_path)] == [".part_global_step_6"]
    assert [p.name for p in tmp_path.iterdir()] == ["global_step_3"]


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "state/returns.json"
    assert load_state(path, "returns").status == "pending"
    state = StepState(step="returns", status="done", inputs={"a": 1}, log_dir=tmp_path)
    save_state(path, state)
    assert load_state(path, "returns") == state
    path.write_text("{")
    assert load_state(path, "returns").status == "pending"
