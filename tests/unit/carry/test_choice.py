"""Which release is pulled: by images.lock, this host's chip and architecture, or what was asked for."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from imagekit.carry import chip
from imagekit.carry.lockfile import LOCK, Lock, Release, read_lock, write_lock
from imagekit.carry.pick import Wanted, pick_release
from imagekit.errors import Problem
from imagekit.manifest import Manifest, load_manifest
from imagekit.process import Finished

HERE, OTHER = "linux/arm64", "linux/amd64"
SMI = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.3.rc1                 Version: 25.3.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     {name:<19} | OK            | 95.5        46                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3393 / 65536         |
+===========================+===============+====================================================+
| 1     {other:<19} | OK            | 95.5        46                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3393 / 65536         |
+===========================+===============+====================================================+
"""


def digest(text: str) -> str:
    return "sha256:" + (text.encode().hex() * 64)[:64]


def release(tag: str, **more: object) -> Release:
    values: dict[str, object] = {
        "image": "rlinf-npu",
        "tag": tag,
        "digest": digest(tag),
        "platforms": {HERE: digest(tag + "here"), OTHER: digest(tag + "other")},
        "chip": "910b",
        "simulated": False,
        "created": "2026-01-01T00:00:00Z",
    }
    return Release.model_validate(values | more)


def pick(*releases: Release, tag: str = "", platform: str = HERE, wanted: str = "910b") -> Wanted:
    return pick_release(Lock(releases=list(releases)), "rlinf-npu", platform, tag, lambda _: wanted)


def test_the_newest_real_release_for_chip_and_architecture() -> None:
    picked = pick(
        release("1"),
        release("2", created="2026-02-01T00:00:00Z"),
        release("3-sim", simulated=True, created="2026-03-01T00:00:00Z"),
        release("4-a3", chip="a3", created="2026-04-01T00:00:00Z"),
        release("5", platforms={OTHER: digest("x")}, created="2026-05-01T00:00:00Z"),
    )
    assert picked == Wanted("rlinf-npu", "2", digest("2"), digest("2here"))


def test_a_simulated_release_is_pulled_when_it_is_asked_for_only() -> None:
    simulated = release("3-sim", simulated=True)
    with pytest.raises(Problem, match=r"only simulated releases are recorded in images\.lock; TAG=3-sim"):
        pick(simulated)
    assert pick(simulated, tag="3-sim").manifest == digest("3-simhere")


@pytest.mark.parametrize(
    ("releases", "more", "line"),
    [
        ([], {}, "no release is recorded in images.lock"),
        ([], {"tag": "1"}, "images.lock has no digest for tag 1"),
        ([release("1")], {"tag": "2"}, "images.lock has no digest for tag 2"),
        ([release("1")], {"wanted": "a3"}, "no release is for chip a3, they are for 910b"),
        ([release("1", platforms={OTHER: digest("x")})], {}, "release 1 is not there for linux/arm64"),
        ([release("1", platforms={OTHER: digest("x")})], {"tag": "1"}, "release 1 is not there for linux/arm64"),
        ([release("1")], {"tag": f"1@{digest('z')}"}, "TAG=1: images.lock says sha256:"),
        ([], {"tag": "1@sha256:12"}, "TAG=1@sha256:12 is not a tag"),
        ([], {"tag": "../x"}, "TAG=../x is not a tag"),
    ],
)
def test_what_does_not_fit_is_said(releases: list[Release], more: dict[str, str], line: str) -> None:
    with pytest.raises(Problem) as raised:
        pick(*releases, **more)  # type: ignore[arg-type]
    assert raised.value.what.startswith(line)
    assert raised.value.fix


def test_a_digest_of_ones_own_takes_the_place_of_the_lock() -> None:
    assert pick(tag=f"1@{digest('z')}") == Wanted("rlinf-npu", "1", digest("z"))
    assert pick(release("1"), tag=f"1@{digest('1')}").manifest == digest("1here")


def test_the_lock_is_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "images.lock"
    assert read_lock(path) == Lock()
    lock = Lock().with_release(release("2")).with_release(release("1")).with_release(release("2", chip="a3"))
    write_lock(lock, path)
    assert read_lock(path) == lock
    assert [(r.tag, r.chip) for r in lock.releases] == [("1", "910b"), ("2", "a3")]
    path.write_text(path.read_text().replace("sha256:", "sha256-", 1))
    with pytest.raises(Problem, match=r"images\.lock: releases\.0\.digest"):
        read_lock(path)


def test_the_committed_lock_is_readable() -> None:
    read_lock(LOCK)


@pytest.mark.parametrize(
    ("name", "known"),
    [("910B3", "910b"), ("910B4-1", "910b"), ("910B2C", "910b"), ("Ascend910", "a3"), ("310P3", "310p")],
)
def test_npu_smi_tells_the_chip(manifest: Manifest, monkeypatch: pytest.MonkeyPatch, name: str, known: str) -> None:
    smi(monkeypatch, SMI.format(name=name, other=name))
    assert chip.find_chip(manifest, "", ["910b"]) == known


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (SMI.format(name="910B3", other="310P3"), "this host has cards of several kinds: 310P3, 910B3"),
        (SMI.format(name="999X", other="999X"), "npu-smi calls the cards 999X"),
        ("", "npu-smi shows no card here, so the chip is unknown"),
        ("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi model initialized failed", "npu-smi shows no card"),
    ],
)
def test_an_unknown_chip_is_a_usage_error(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, table: str, line: str
) -> None:
    smi(monkeypatch, table)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(Problem) as raised:
        chip.find_chip(manifest, "", ["910b", "a3"])
    assert raised.value.what.startswith(line)
    assert "CHIP=" in raised.value.fix
    assert raised.value.exit_code == 2


def test_chip_goes_before_everything_and_must_be_one(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(monkeypatch, SMI.format(name="910B3", other="910B3"))
    assert chip.find_chip(manifest, "a3", ["910b"]) == "a3"
    with pytest.raises(Problem, match="CHIP=h100 is not a chip; known: 910b"):
        chip.find_chip(manifest, "h100", ["910b"])


def test_on_a_terminal_the_user_is_asked(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(monkeypatch, "")
    asked: list[Sequence[str]] = []

    def ask(chips: Sequence[str]) -> str:
        asked.append(chips)
        return "a3"

    assert chip.find_chip(manifest, "", ["910b", "a3"], ask) == "a3"
    assert asked == [["910b", "a3"]]


def smi(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """A host where npu-smi prints `table`; an empty one has no npu-smi."""
    monkeypatch.setattr(chip.shutil, "which", lambda name: name if table and name == "npu-smi" else None)
    monkeypatch.setattr(chip, "run", lambda argv, seconds: Finished(0, table))


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_manifest()


def test_this_projects_chip_is_one_of_the_table(manifest: Manifest) -> None:
    known = {entry.tag: entry.names for entry in manifest.chip}
    assert manifest.versions.chip in known
    smi_name = manifest.versions.soc.removeprefix("Ascend")
    assert chip._chip_of(smi_name, known) == manifest.versions.chip
