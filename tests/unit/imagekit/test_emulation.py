"""A qemu that is too old crashes far into a build: it is found out before, and replaced where that can be done."""

from pathlib import Path

import pytest
from hostkit import AddProgram, Said

from imagekit import apt, emulation
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import Manifest, Platform

ENGINE = Engine(("docker",), {}, "unix:///x", "26.1", "0.13", "2.26", "x86_64", True)
DEBIAN_12 = apt.System("debian", (12,), True)
UBUNTU_22 = apt.System("ubuntu", (22, 4), True)
QEMU = 'echo "qemu-aarch64 version {0} (Debian 1:{0}+dfsg-1)"'
OLD, NEW = "7.2.0", "10.0.13"
BY_HAND = r"tonistiigi/binfmt --uninstall qemu-aarch64`, then `docker run .*tonistiigi/binfmt --install arm64` .*mirror"


@pytest.fixture
def arm64(manifest: Manifest) -> Platform:
    return manifest.get_platform("arm64")


@pytest.fixture
def machine(programs: AddProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddProgram:
    """An x86-64 machine where nothing is emulated, with an apt-get that brings qemu 10."""
    folder = tmp_path / "binfmt_misc"
    folder.mkdir()
    (folder / "register").touch()
    monkeypatch.setattr(emulation, "BINFMT", folder)
    monkeypatch.setattr(emulation.host, "machine", lambda: "x86_64")
    monkeypatch.setattr(emulation, "registered_version", lambda _: "")
    monkeypatch.setattr(apt, "ETC", tmp_path / "etc-apt")
    monkeypatch.setattr(apt, "read_system", lambda: DEBIAN_12)
    programs("docker", 'echo "Platforms: linux/amd64, linux/386"')
    new = programs("qemu", QEMU.format(NEW)).rename(tmp_path / "new-qemu")
    log = tmp_path / "apt.log"
    brings = f'case "$*" in *" install "*) cp {new} {tmp_path}/bin/qemu-aarch64 ;; esac'
    programs("apt-get", f'PATH=$BIN; echo "$@" >> {log}\n{brings}')
    return programs


def registered(tmp_path: Path) -> str:
    """The interpreter that the kernel was told of."""
    return (tmp_path / "binfmt_misc/register").read_text().split(":")[-2]


def is_registered(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("enabled", "interpreter /usr/bin/qemu-aarch64", "flags: F", f"magic {emulation._program('aarch64').hex()}")
    (tmp_path / "binfmt_misc/theirs").write_text("\n".join(lines))
    monkeypatch.setattr(emulation, "registered_version", lambda _: version)


def test_the_smallest_version_lets_debian_13_in_and_debian_12_not(manifest: Manifest) -> None:
    oldest = manifest.engine.min_qemu
    assert [emulation.is_older(version, oldest) for version in ("6.2.0", OLD, NEW, "")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("program", "version"),
    [
        (f'#!/bin/sh\n[ "$QEMU_VERSION" ] && {QEMU.format("6.2.0")}\n', "6.2.0"),
        ("#!/bin/sh\necho not qemu\n", ""),
        ("no program at all", ""),
    ],
)
def test_what_the_kernel_starts_is_asked(monkeypatch: pytest.MonkeyPatch, program: str, version: str) -> None:
    monkeypatch.setattr(emulation, "_program", lambda _: program.encode())
    assert emulation.registered_version("aarch64") == version


@pytest.mark.programs
@pytest.mark.parametrize("machine_name", ["aarch64", "x86_64"])
def test_a_real_registration_says_its_version(machine_name: str) -> None:
    if not emulation.is_registered(machine_name) or emulation.host.machine() == machine_name:
        pytest.skip(f"no emulation of {machine_name} on this machine")
    assert emulation.version_tuple(emulation.registered_version(machine_name)) > (1,)


@pytest.mark.parametrize("version", [NEW, ""], ids=["new", "unknown"])
def test_a_registration_that_is_not_known_to_be_old_stays(
    machine: AddProgram, arm64: Platform, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    is_registered(version, tmp_path, monkeypatch)
    emulation.ensure_emulation(arm64, said, engine=ENGINE)
    assert said == []
    assert (tmp_path / "binfmt_misc/register").read_text() == ""


@pytest.mark.parametrize("how", ["registered", "listed by the engine"])
def test_an_old_registration_is_replaced_on_debian_12(
    machine: AddProgram, arm64: Platform, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    is_registered(OLD, tmp_path, monkeypatch)
    if how != "registered":
        (tmp_path / "binfmt_misc/theirs").unlink()
        machine("docker", 'echo "Platforms: linux/amd64, linux/arm64"')
    machine("qemu-aarch64-static", QEMU.format(OLD))
    emulation.ensure_emulation(arm64, said, engine=ENGINE)
    assert "The qemu that is registered is 7.2.0" in said.text
    assert registered(tmp_path) == f"{tmp_path}/bin/qemu-aarch64"


def test_without_root_an_old_registration_is_refused_with_the_way_out(
    machine: AddProgram, arm64: Platform, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "read_system", lambda: apt.System("debian", (12,), False))
    is_registered(OLD, tmp_path, monkeypatch)
    with pytest.raises(Problem, match=rf"qemu 7\.2\.0 is too old to run linux/arm64 programs: .*{BY_HAND}"):
        emulation.ensure_emulation(arm64, said, engine=ENGINE)


def test_an_old_qemu_on_the_machine_is_not_registered(
    machine: AddProgram, arm64: Platform, said: Said, tmp_path: Path
) -> None:
    machine("qemu-aarch64-static", QEMU.format(OLD))
    emulation.ensure_emulation(arm64, said, engine=ENGINE)
    assert registered(tmp_path) == f"{tmp_path}/bin/qemu-aarch64"


def test_ubuntu_22_installs_nothing_that_is_too_old(
    machine: AddProgram, arm64: Platform, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "read_system", lambda: UBUNTU_22)
    machine("apt-cache", 'echo "qemu-user-static:\n  Installed: (none)\n  Candidate: 1:6.2+dfsg-2ubuntu6.26"')
    with pytest.raises(Problem, match=rf"qemu 6\.2 is too old .*{BY_HAND}"):
        emulation.ensure_emulation(arm64, said, engine=ENGINE)
    assert not (tmp_path / "apt.log").exists()


def test_what_was_installed_is_looked_at_before_it_is_registered(
    machine: AddProgram, arm64: Platform, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "read_system", lambda: UBUNTU_22)  # without package lists apt-cache knows nothing
    (tmp_path / "new-qemu").write_text(f"#!/bin/sh\n{QEMU.format('6.2.0')}\n")
    with pytest.raises(Problem, match=rf"qemu 6\.2\.0 is too old .*{BY_HAND}"):
        emulation.ensure_emulation(arm64, said, engine=ENGINE)
    assert " qemu-user-static\n" in (tmp_path / "apt.log").read_text()
    assert (tmp_path / "binfmt_misc/register").read_text() == ""


def test_debian_12s_own_packages_of_qemu_come_along(
    machine: AddProgram, arm64: Platform, said: Said, tmp_path: Path
) -> None:
    machine("dpkg-query", '[ "$3" = qemu-user-static ] && echo -n installed')
    emulation.ensure_emulation(arm64, said, engine=ENGINE)
    assert " qemu-user qemu-user-static\n" in (tmp_path / "apt.log").read_text()
    pins = (tmp_path / "etc-apt/preferences.d/rlinf-npu-qemu-user").read_text()
    assert "Package: qemu-user qemu-user-static\nPin: release n=trixie\nPin-Priority: 600\n" in pins


def test_qemu_comes_from_the_mirror_and_the_mirror_stays(
    machine: AddProgram, arm64: Platform, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    mirror, source = manifest.mirrors["cn"].apt, tmp_path / "etc-apt/sources.list.d/rlinf-npu-trixie.sources"
    for asked, uri in (("", manifest.base.sim.archive), (mirror, f"{mirror}/debian"), ("", f"{mirror}/debian")):
        (tmp_path / "bin/qemu-aarch64").unlink(missing_ok=True)
        emulation.ensure_emulation(arm64, said, engine=ENGINE, mirror=asked)
        assert f"URIs: {uri}\n" in source.read_text()
