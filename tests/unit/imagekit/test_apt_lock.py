"""Versions of system packages: read from dpkg, written down, compared with what the Dockerfiles ask for."""

import shutil
from pathlib import Path

import pytest
from hostkit import Said

from imagekit import apt_lock, cli, lookup
from imagekit.errors import Problem
from imagekit.manifest import MANIFEST, ROOT, Manifest, Platform, load_manifest
from imagekit.planner import bake

STATUS = """\
Package: git
Status: install ok installed
Architecture: amd64
Version: 1:2.39.5-0+deb12u2
Description: fast
 Version: not a field

Package: gone
Status: deinstall ok config-files
Version: 1
"""
DOCKERFILE = """\
RUN --mount=type=bind,from=common,target=/mnt \\
    /mnt/apt-locked install \\
        git \\
        libgl1 \\
    && /mnt/clamp-times "$FILE_DATE"
RUN <<'SCRIPT'
/mnt/apt-locked dist-upgrade -o Dpkg::Options::=--force-unsafe-io \\
    curl libpython3.11
rm -rf /tmp/*
SCRIPT
"""


def test_what_dpkg_calls_installed_is_recorded_and_read_back(tmp_path: Path) -> None:
    (tmp_path / "cann-base").mkdir()
    (tmp_path / "cann-base/status").write_text(STATUS)
    apt_lock.write_lock(tmp_path / "lock.txt", apt_lock.read_record(tmp_path))
    assert apt_lock.read_lock(tmp_path / "lock.txt") == {"git": "1:2.39.5-0+deb12u2"}


def test_images_that_disagree_are_not_recorded(tmp_path: Path) -> None:
    for name, version in (("cann-sim", "1"), ("cann-base", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "status").write_text(f"Package: a\nStatus: install ok installed\nVersion: {version}\n")
    with pytest.raises(Problem, match="a is 2 in one image and 1 in another"):
        apt_lock.read_record(tmp_path)


def test_a_damaged_lock_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "debian12-amd64.txt").write_text("# head\ngit=1\ngit 2\n")
    with pytest.raises(Problem, match=r"debian12-amd64.txt, line 3: not name=version: 'git 2'"):
        apt_lock.read_lock(tmp_path / "debian12-amd64.txt")


def test_the_packages_of_a_dockerfile() -> None:
    assert apt_lock.wanted(DOCKERFILE) == {"git", "libgl1", "curl", "libpython3.11"}
    real = apt_lock.wanted((ROOT / "images/cann-base/Dockerfile").read_text(encoding="utf-8"))
    assert {"tini", "libosmesa6", "ca-certificates"} <= real
    assert all(name[0].isalnum() for name in real)


def test_a_package_that_no_lock_knows_is_drift(manifest: Manifest, tmp_path: Path) -> None:
    assert apt_lock.drift(manifest) == []
    (tmp_path / "debian12-amd64.txt").write_text("git=1\n")
    missing, complaint = apt_lock.drift(manifest, tmp_path)
    assert missing == "debian12-arm64.txt is missing; run `build.py lock-apt`"
    assert "debian12-amd64.txt has no version of" in complaint
    assert "tini" in complaint
    assert " git," not in complaint


def test_recording_exports_lists_and_no_image(manifest: Manifest, tmp_path: Path) -> None:
    wanted = lookup.Wanted(*lookup.pick_platform(manifest, "linux/arm64"), "sim", "pypi", None, apt="newest")
    made = apt_lock.record_plan(bake(manifest, ["cann-base"], lookup.offline_request(manifest, wanted)), tmp_path)
    assert all(target["tags"] == [] for target in made["target"].values())
    outputs = {name: target["output"] for name, target in made["target"].items()}
    for name in ("cann-sim", "cann-base"):
        assert outputs[name] == ["type=cacheonly"]
        assert outputs[f"{name}-apt-record"] == [f"type=local,dest={tmp_path / name}"]
    assert made["group"]["default"]["targets"] == ["cann-sim-apt-record", "cann-base-apt-record"]


def test_only_known_ways_to_take_packages() -> None:
    with pytest.raises(Problem, match="APT='exact'") as raised:
        apt_lock.check_choice("exact")
    assert raised.value.exit_code == 2


def test_an_archive_without_a_dated_server_stays(manifest: Manifest) -> None:
    assert manifest.apt.server("http://deb.debian.org/debian").endswith(f"/debian/{manifest.apt.date}")
    assert manifest.apt.server("http://archive.example/x") == "http://archive.example/x"


DEBIAN, UBUNTU = ["debian12-arm64.txt", "debian12-amd64.txt"], ["ubuntu22.04-arm64.txt", "ubuntu22.04-amd64.txt"]


class Builds:
    """Builds that only pretend; `reach` names the platforms for which the vendor's image is there."""

    def __init__(self, *reach: str) -> None:
        self.reach, self.asked = reach, list[tuple[str, str]]()

    def __call__(self, platform: Platform, base: str) -> tuple[str, dict[str, str]]:
        self.asked.append((platform.arch, base))
        if base == "cann" and platform.arch not in self.reach:
            raise Problem("the CANN image is neither here nor in reach")
        return "debian12" if base == "sim" or platform.arch not in self.reach else "ubuntu22.04", {"git": "1"}


def record(manifest: Manifest, base: str, builds: Builds, folder: Path) -> list[str]:
    return [path.name for path in apt_lock.record(manifest, base, builds, Said(), folder)]


@pytest.mark.parametrize(
    ("base", "reach", "there", "made"),
    [
        ("auto", ("arm64", "amd64"), DEBIAN, UBUNTU + DEBIAN),
        ("cann", ("arm64", "amd64"), DEBIAN + UBUNTU, UBUNTU + DEBIAN),
        ("auto", (), DEBIAN, DEBIAN),
        ("sim", ("arm64", "amd64"), DEBIAN, DEBIAN),
        ("auto", ("arm64",), DEBIAN, [UBUNTU[0], DEBIAN[1], DEBIAN[0]]),
        ("auto", ("arm64", "amd64"), [*DEBIAN, UBUNTU[0]], UBUNTU + DEBIAN),
    ],
)
def test_one_run_records_every_distribution(
    manifest: Manifest, tmp_path: Path, base: str, reach: tuple[str, ...], there: list[str], made: list[str]
) -> None:
    for name in there:
        (tmp_path / name).touch()
    builds = Builds(*reach)
    assert record(manifest, base, builds, tmp_path) == made
    assert len(builds.asked) == len(made)  # ten minutes each


@pytest.mark.parametrize(
    ("base", "there", "why", "asked"),
    [
        ("sim", [*DEBIAN, UBUNTU[0]], r"ubuntu22\.04-arm64\.txt would not be recorded again.*; .*BASE=cann", []),
        ("auto", [*DEBIAN, *UBUNTU], "CANN image is neither here nor in reach", [("arm64", "cann")]),
        ("cann", DEBIAN, "CANN image is neither here nor in reach", [("arm64", "cann")]),
        ("auto", [*DEBIAN, "debian11-amd64.txt"], r"debian11-amd64\.txt would not be recorded again", []),
    ],
)
def test_a_record_that_cannot_be_made_again_stops_it_before_a_build(
    manifest: Manifest, tmp_path: Path, base: str, there: list[str], why: str, asked: list[tuple[str, str]]
) -> None:
    for name in there:
        (tmp_path / name).touch()
    builds = Builds()
    with pytest.raises(Problem, match=why):
        record(manifest, base, builds, tmp_path)
    assert builds.asked == asked


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what `lock-apt` writes, with a record of the vendor's distribution for one architecture."""
    folder = Path(shutil.copytree(apt_lock.FOLDER, tmp_path / "apt"))
    (folder / UBUNTU[0]).write_text("git=0\n")
    monkeypatch.setattr(apt_lock, "FOLDER", folder)
    monkeypatch.setattr(cli, "MANIFEST", Path(shutil.copy(MANIFEST, tmp_path / "images.toml")))
    monkeypatch.setattr(apt_lock, "today", lambda: "20330102T030405Z")
    return tmp_path


def test_records_and_day_change_together(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = Builds("arm64", "amd64")

    def newest(_: Manifest, wanted: lookup.Wanted) -> tuple[str, dict[str, str]]:
        assert (wanted.apt, wanted.native) == (
            "newest",
            wanted.platform == lookup.pick_platform(load_manifest(), "")[0],
        )
        return builds(wanted.platform, wanted.base)

    monkeypatch.setattr(cli, "_newest_packages", newest)
    cli.lock_apt()
    found = {path.name: apt_lock.read_lock(path) for path in (checkout / "apt").iterdir()}
    assert found == {name: {"git": "1"} for name in DEBIAN + UBUNTU}
    assert load_manifest(checkout / "images.toml").apt.date == "20330102T030405Z"


def test_when_the_last_record_fails_nothing_is_written(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def newest(_: Manifest, wanted: lookup.Wanted) -> tuple[str, dict[str, str]]:
        if (wanted.platform.arch, wanted.base) == ("amd64", "sim"):
            raise Problem("no disk space left")
        return Builds("arm64", "amd64")(wanted.platform, wanted.base)

    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    monkeypatch.setattr(cli, "_newest_packages", newest)
    with pytest.raises(Problem, match="no disk space left"):
        cli.lock_apt()
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


def test_a_word_that_is_no_base_is_refused_by_lock_apt_too(checkout: Path) -> None:
    with pytest.raises(Problem, match="BASE='cuda' is not a base"):
        cli.lock_apt(base="cuda")
