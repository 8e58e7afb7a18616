"""Statuses, idempotence, atomic writing, the record, what counts as open."""

import stat
from pathlib import Path

import pytest
from mini_tree import SKELETON, TreeMaker
from rlinf_npu.npufix import engine, plan, report
from rlinf_npu.npufix.catalogue import FIXES
from rlinf_npu.npufix.model import HELPER_PATH, NpufixError, Report, Status, UsageError
from rlinf_npu.npufix.tree import RECORD_NAME, Tree
from rlinf_npu.npufix.verify import problems

FILES = {
    "rlinf/a.py": "import torch\n\n\ndef f():\n    torch.cuda.synchronize()\n",
    "rlinf/b.py": "def g(x):\n    return x.cuda()\n",
    "examples/run.sh": "#!/bin/bash\npython x.py 2>&1 | tee log\n",
    "examples/a.yaml": "distributed:\n  backend: nccl\n",
}


def snapshot(tree: Tree) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(tree.root.rglob("*")) if path.is_file()}


def status(found: Report, fix_id: str) -> Status:
    return next(result.status for result in found.results if result.fix.id == fix_id)


def again(tree: Tree) -> Tree:
    return Tree(tree.root)


def test_scan_changes_nothing_and_tells_what_is_pending(make_tree: TreeMaker) -> None:
    tree = make_tree(FILES)
    before = snapshot(tree)
    found = engine.scan(tree)
    assert snapshot(tree) == before
    assert status(found, "cuda-memory-call") is Status.PENDING
    assert {use.fix for use in report.open_on_paths(found)} == {
        "cuda-memory-call",
        "tensor-cuda-method",
        "autocast-device",
        "dist-backend-config",
    }


def test_apply_then_already(make_tree: TreeMaker) -> None:
    tree = make_tree(FILES)
    first = engine.apply(tree)
    assert status(first, "cuda-memory-call") is Status.APPLIED
    assert status(first, "dist-backend-config") is Status.APPLIED
    assert report.open_on_paths(first) == []
    assert {use.status for use in first.uses} == {"fixed"}
    after_first = snapshot(tree)
    second = engine.apply(again(tree))
    assert snapshot(tree) == after_first
    assert second.changed == {}
    assert status(second, "cuda-memory-call") is Status.ALREADY
    assert status(second, "script-exit-code") is Status.ALREADY
    assert second.uses == first.uses  # what was fixed is still told
    assert problems(engine.scan(again(tree))) == []


def test_new_code_after_apply_is_found(make_tree: TreeMaker) -> None:
    tree = make_tree(FILES)
    engine.apply(tree)
    (tree.root / "rlinf/c.py").write_text("import torch\n\n\ndef f():\n    torch.cuda.empty_cache()\n")
    assert any("rlinf/c.py:5" in line for line in problems(engine.scan(again(tree))))
    second = engine.apply(again(tree))
    assert status(second, "cuda-memory-call") is Status.APPLIED
    assert set(again(tree).record["cuda-memory-call"]) == {"rlinf/a.py", "rlinf/c.py"}
    assert problems(engine.scan(again(tree))) == []


def test_upstream_cure_is_not_needed(make_tree: TreeMaker) -> None:
    cured = SKELETON["rlinf/manager.py"].replace('device_type="cuda"', "device_type=Worker.torch_device_type")
    found = engine.apply(make_tree({"rlinf/manager.py": cured}))
    assert status(found, "autocast-device") is Status.NOT_NEEDED
    assert status(found, "worker-set-device") is Status.NOT_NEEDED
    result = next(result for result in found.results if result.fix.id == "autocast-device")
    assert result.notes == ["rlinf/manager.py: upstream has its own cure"]


def test_unknown_form_has_vanished_and_nothing_is_written(make_tree: TreeMaker) -> None:
    strange = SKELETON["rlinf/manager.py"].replace('torch.amp.autocast(device_type="cuda", ', "make_context(")
    tree = make_tree({**FILES, "rlinf/manager.py": strange})
    before = snapshot(tree)
    found = engine.apply(tree)
    assert [result.fix.id for result in found.vanished] == ["autocast-device"]
    assert "rlinf/manager.py" in found.vanished[0].notes[0]
    assert snapshot(tree) == before


def test_required_code_that_is_gone_has_vanished(make_tree: TreeMaker) -> None:
    found = engine.scan(make_tree({"rlinf/manager.py": "pass\n"}))
    assert {result.fix.id for result in found.vanished} == {"worker-set-device", "autocast-device"}


def test_code_that_no_fix_knows_is_open_and_left_alone(make_tree: TreeMaker) -> None:
    text = "import torch\n\n\ndef f():\n    torch.cuda.jiterator.go()\n"
    tree = make_tree({"rlinf/new.py": text})
    found = engine.apply(tree)
    (use,) = report.open_on_paths(found)
    assert (use.path, use.line, use.fix) == ("rlinf/new.py", 5, "")
    assert (tree.root / "rlinf/new.py").read_text() == text
    assert any("rlinf/new.py:5: open use" in line for line in problems(engine.scan(again(tree))))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("examples/offline_rl/x.py", "offline-rl"),
        ("examples/sft/x.yaml", "sft"),
        ("examples/embodiment/config/x.yaml", "embodied"),
        ("examples/agent/tool.py", "agent"),
        ("examples/something_new/x.py", "core"),
        ("rlinf/agents/x.py", "agent"),
        ("rlinf/workers/sft/x.py", "core"),
    ],
)
def test_area(path: str, expected: str) -> None:
    assert report.area(path) == expected


def test_failed_write_leaves_the_tree_as_it_was(make_tree: TreeMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(FILES)
    before = snapshot(tree)
    real = Path.replace
    calls: list[Path] = []

    def failing(source: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == 4:
            raise OSError(28, "No space left on device", str(target))
        return real(source, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(NpufixError, match="No space left on device; the tree is unchanged"):
        engine.apply(tree)
    assert len(calls) == 4
    assert snapshot(tree) == before


def test_interrupt_leaves_the_tree_as_it_was(make_tree: TreeMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(FILES)
    before = snapshot(tree)
    real = Path.replace
    calls: list[Path] = []

    def interrupted(source: Path, target: Path) -> Path:
        calls.append(real(source, target))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return target

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.apply(tree)
    assert snapshot(tree) == before


def test_an_edit_that_cannot_be_placed_stops_everything(make_tree: TreeMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(FILES)
    before = snapshot(tree)
    monkeypatch.setattr(plan, "rewrite", _refuse)
    with pytest.raises(NpufixError, match="could not place"):
        engine.apply(tree)
    assert snapshot(tree) == before


def _refuse(path: str, *_: object) -> str:
    raise NpufixError(f"{path}: could not place the edit")


def test_modes_are_kept_and_the_helper_is_added(make_tree: TreeMaker) -> None:
    tree = make_tree(FILES)
    (tree.root / "examples/run.sh").chmod(0o755)
    engine.apply(tree)
    assert stat.S_IMODE((tree.root / "examples/run.sh").stat().st_mode) == 0o755
    assert (tree.root / HELPER_PATH).read_text() == plan.helper_text()
    assert stat.S_IMODE((tree.root / HELPER_PATH).stat().st_mode) == 0o644


def test_changed_helper_is_a_problem(make_tree: TreeMaker) -> None:
    tree = make_tree(FILES)
    engine.apply(tree)
    (tree.root / HELPER_PATH).unlink()
    assert any(HELPER_PATH in line for line in problems(engine.scan(again(tree))))


@pytest.mark.parametrize("path", ["rlinf/broken.py"])
def test_broken_python_is_named(path: str, make_tree: TreeMaker) -> None:
    with pytest.raises(NpufixError, match=r"rlinf/broken\.py:2: not valid Python"):
        engine.scan(make_tree({path: "import torch.cuda\ndef f(:\n"}))


def test_text_that_is_not_utf8_is_named(make_tree: TreeMaker) -> None:
    tree = make_tree()
    (tree.root / "rlinf/latin.py").write_bytes(b"# caf\xe9\nx.cuda()\n")
    with pytest.raises(UsageError, match=r"rlinf/latin\.py: not UTF-8"):
        engine.scan(tree)


def test_damaged_record_is_named(make_tree: TreeMaker) -> None:
    tree = make_tree()
    for text in ("{", "[]", "{}", '{"fixes": 3}'):
        (tree.root / RECORD_NAME).write_text(text)
        with pytest.raises(UsageError, match="damaged"):
            engine.scan(again(tree))


def test_tree_is_found_from_the_package_too(make_tree: TreeMaker, tmp_path: Path) -> None:
    tree = make_tree()
    assert Tree(tree.root / "rlinf").root == tree.root
    with pytest.raises(UsageError, match=r"rlinf/__init__\.py"):
        Tree(tmp_path)
    with pytest.raises(UsageError, match="not a folder"):
        Tree(tmp_path / "missing")


def test_columns_behind_other_scripts_and_line_ends(make_tree: TreeMaker) -> None:
    text = "import torch\r\n\r\n\r\ndef f(x):\r\n    return '\u6a21\u578b', x.cuda(), torch.cuda.device_count()\r\n"
    tree = make_tree({"rlinf/cn.py": text})
    engine.apply(tree)
    fixed = (tree.root / "rlinf/cn.py").read_bytes().decode()
    assert "    return '\u6a21\u578b', x.to(accel_type()), accel().device_count()\r\n" in fixed
    assert "\n" not in fixed.replace("\r\n", "")


def test_catalogue_is_complete() -> None:
    assert len({fix.id for fix in FIXES}) == len(FIXES)
    for fix in FIXES:
        texts = (fix.title, fix.symptom, fix.why, fix.seen, fix.hint)
        assert all(text.strip() for text in texts), fix.id
        assert (fix.find_python is None) != (fix.find_text is None), fix.id
