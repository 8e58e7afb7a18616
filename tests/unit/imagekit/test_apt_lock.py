"""Versions of system packages: read from dpkg, written down, compared with what the Dockerfiles ask for."""

from pathlib import Path

import pytest

from imagekit import apt_lock, lookup
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest
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
