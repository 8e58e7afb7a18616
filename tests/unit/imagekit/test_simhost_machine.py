"""A machine becomes a simulated host and is exactly what it was before, in a folder that stands for the machine."""

import os
from pathlib import Path

import pytest
from hostkit import Said

from imagekit import simhost
from imagekit.errors import Problem
from imagekit.manifest import Manifest

SIMULATED, REAL = "a clone of /dev/null", "a card"


class FileNodes(simhost.Nodes):
    """Files stand for nodes: making real ones needs root."""

    def make(self, path: Path) -> None:
        path.write_text(SIMULATED)

    def is_simulated(self, path: Path) -> bool:
        return path.read_text() == SIMULATED


@pytest.fixture
def machine(tmp_path: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "machine"
    for folder in ("dev", "etc", "usr/local/bin", "var/lib"):
        (root / folder).mkdir(parents=True)
    (root / "dev/davinci_other").write_text("not a card by its name")
    if os.geteuid() != 0:
        monkeypatch.setattr(os, "chown", lambda *_: None)
    return root


@pytest.fixture
def build(tmp_path: Path) -> Path:
    folder = tmp_path / "sim-driver"
    for name in ("driver/simulated.info", "driver/lib64/driver/libascend_hal.so", "bin/npu-smi", "dcmi/README"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "etc").mkdir()
    (folder / "etc/ascend_install.info").write_text("info")
    (folder / "bin/npu-smi").chmod(0o755)
    return folder


def contents(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() if path.is_file() else "folder"
        for path in root.rglob("*")
        if "rlinf-npu" not in str(path.relative_to(root))
    }


def prepare(manifest: Manifest, build: Path, cards: int, said: Said, root: Path) -> None:
    simhost.prepare(manifest, build, cards, said, root=root, nodes=FileNodes())


def clean(manifest: Manifest, said: Said, root: Path) -> None:
    simhost.clean(manifest, said, root=root, nodes=FileNodes())


def cards_of(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "dev").glob("davinci[0-9]*"))


def test_there_and_back_again(manifest: Manifest, machine: Path, build: Path, said: Said) -> None:
    before = contents(machine)
    prepare(manifest, build, 2, said, machine)
    assert cards_of(machine) == ["davinci0", "davinci1"]
    for manager in manifest.devices.managers:
        node = machine / manager[1:]
        assert node.stat().st_mode & 0o777 == 0o660
        if os.geteuid() == 0:
            assert (node.stat().st_uid, node.stat().st_gid) == (1000, 1000)
    assert (machine / "usr/local/Ascend/driver/lib64/driver/libascend_hal.so").is_file()
    assert os.access(machine / "usr/local/bin/npu-smi", os.X_OK)
    assert (machine / "etc/ascend_install.info").read_text() == "info"
    assert "2 simulated card(s)" in said.text
    clean(manifest, said, machine)
    assert contents(machine) == before
    assert not (machine / "var/lib/rlinf-npu/simhost.json").exists()


def test_preparing_again_changes_the_number_and_the_driver(
    manifest: Manifest, machine: Path, build: Path, said: Said
) -> None:
    before = contents(machine)
    prepare(manifest, build, 8, said, machine)
    (build / "driver/lib64/driver/libascend_hal.so").write_text("newer")
    for cards in (1, 16, 3):
        prepare(manifest, build, cards, said, machine)
        assert len(cards_of(machine)) == cards
    assert (machine / "usr/local/Ascend/driver/lib64/driver/libascend_hal.so").read_text() == "newer"
    clean(manifest, said, machine)
    assert contents(machine) == before


@pytest.mark.parametrize("node", ["davinci7", "davinci_manager"])
def test_real_cards_stop_both(manifest: Manifest, machine: Path, build: Path, said: Said, node: str) -> None:
    (machine / "dev" / node).write_text(REAL)
    before = contents(machine)
    for action in (lambda: prepare(manifest, build, 2, said, machine), lambda: clean(manifest, said, machine)):
        with pytest.raises(Problem, match=rf"/dev/{node} is a real device: this is an Ascend host"):
            action()
    assert contents(machine) == before


def test_a_real_driver_stops_both(manifest: Manifest, machine: Path, build: Path, said: Said) -> None:
    (machine / "usr/local/Ascend/driver").mkdir(parents=True)
    before = contents(machine)
    for action in (lambda: prepare(manifest, build, 2, said, machine), lambda: clean(manifest, said, machine)):
        with pytest.raises(Problem, match=r"/usr/local/Ascend/driver holds a driver that is not simulated"):
            action()
    assert contents(machine) == before


def test_what_somebody_else_put_there_is_not_replaced(
    manifest: Manifest, machine: Path, build: Path, said: Said
) -> None:
    for name in ("dev/davinci1", "usr/local/bin/npu-smi"):
        (machine / name).write_text(SIMULATED)
        with pytest.raises(Problem, match=f"/{name} exists and is not ours; move it away first"):
            prepare(manifest, build, 2, said, machine)
        (machine / name).unlink()


def test_what_was_changed_afterwards_is_left_and_named(
    manifest: Manifest, machine: Path, build: Path, said: Said
) -> None:
    prepare(manifest, build, 1, said, machine)
    (machine / "usr/local/bin/npu-smi").write_text("the real one, installed later")
    clean(manifest, said, machine)
    assert "/usr/local/bin/npu-smi is no longer what was put there; left alone." in said
    assert (machine / "usr/local/bin/npu-smi").exists()
    assert not (machine / "etc/ascend_install.info").exists()


def test_folders_that_others_use_by_now_stay(manifest: Manifest, machine: Path, build: Path, said: Said) -> None:
    prepare(manifest, build, 1, said, machine)
    (machine / "usr/local/Ascend/toolkit").mkdir()
    clean(manifest, said, machine)
    assert [path.name for path in (machine / "usr/local/Ascend").iterdir()] == ["toolkit"]


def test_after_a_restart_the_nodes_are_gone_and_cleaning_still_works(
    manifest: Manifest, machine: Path, build: Path, said: Said
) -> None:
    prepare(manifest, build, 2, said, machine)
    for path in (machine / "dev").glob("davinci[0-9]"):
        path.unlink()
    clean(manifest, said, machine)
    assert not (machine / "usr/local/Ascend").exists()


def test_a_prepare_that_fails_half_way_leaves_nothing(
    manifest: Manifest, machine: Path, build: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(machine)

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copy2", full_disk)
    with pytest.raises(OSError, match="No space"):
        prepare(manifest, build, 2, said, machine)
    assert contents(machine) == before


@pytest.mark.parametrize("cards", [-1, 0, 17, 1000])
def test_the_number_of_cards_has_limits(manifest: Manifest, machine: Path, build: Path, said: Said, cards: int) -> None:
    with pytest.raises(Problem, match=f"CARDS={cards}: 1 to 16 are possible") as caught:
        prepare(manifest, build, cards, said, machine)
    assert caught.value.exit_code == 2
    assert "CARDS=8" in caught.value.fix


def test_whoever_is_not_root_is_told_what_to_run(
    manifest: Manifest, machine: Path, build: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Problem, match=r"making device nodes needs root; run it as root: sudo make sim-host$"):
        simhost.prepare(manifest, build, 1, said, root=machine)
    simhost.clean(manifest, said, root=machine)
    assert said == ["No simulated host here; nothing to remove."]
    prepare(manifest, build, 1, said, machine)
    with pytest.raises(Problem, match=r"removing its device nodes and driver needs root.*sudo make sim-host-clean$"):
        simhost.clean(manifest, said, root=machine)


def test_something_else_than_the_simulated_driver_is_refused(
    manifest: Manifest, machine: Path, build: Path, said: Said
) -> None:
    (build / "driver/simulated.info").unlink()
    with pytest.raises(Problem, match="not marked as a simulated driver"):
        prepare(manifest, build, 1, said, machine)
    with pytest.raises(Problem, match="has no driver"):
        prepare(manifest, build / "etc", 1, said, machine)


def test_nothing_to_clean_is_said(manifest: Manifest, machine: Path, said: Said) -> None:
    clean(manifest, said, machine)
    assert said == ["No simulated host here; nothing to remove."]


@pytest.mark.skipif(os.geteuid() != 0, reason="making device nodes needs root")
def test_real_nodes_are_clones_of_dev_null(manifest: Manifest, machine: Path, build: Path, said: Said) -> None:
    simhost.prepare(manifest, build, 1, said, root=machine)
    node = machine / "dev/davinci0"
    assert node.is_char_device()
    assert node.stat().st_rdev == Path("/dev/null").stat().st_rdev
    assert (node.stat().st_uid, node.stat().st_gid, node.stat().st_mode & 0o777) == (1000, 1000, 0o660)
    (machine / "dev/davinci1").unlink(missing_ok=True)
    os.mknod(machine / "dev/davinci1", 0o20600, os.makedev(1, 5))  # another kind of device stands for a real card
    with pytest.raises(Problem, match="/dev/davinci1 is a real device"):
        simhost.clean(manifest, said, root=machine)
