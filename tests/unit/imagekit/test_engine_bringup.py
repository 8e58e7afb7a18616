"""Installing, starting and stopping an engine, with apt, docker and dockerd that only pretend."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostkit import AddProgram, Said

from imagekit import apt
from imagekit.engine import Daemon, ensure_engine, stop_engine
from imagekit.engine.daemon import identify
from imagekit.errors import Problem
from imagekit.manifest import Manifest
from imagekit.process import Finished

DEBIAN_12 = apt.System("debian", (12,), True)
DEBIAN_13 = apt.System("debian", (13,), True)

# Lives until SIGTERM; `up` stands for the socket that it would answer on.
DOCKERD = """
[ "$1" = --version ] && {{ echo "Docker version {version}, build abc"; exit; }}
echo "$@" > {folder}/dockerd-arguments
/usr/bin/env > {folder}/dockerd-environment
trap 'PATH=$BIN rm {folder}/up; exit 0' TERM
echo > {folder}/up
while :; do PATH=$BIN sleep 0.02; done
"""
DOCKER = """
case "$*" in
"context inspect") echo '[{{"Name": "default", "Endpoints": {{"docker": {{"Host": "unix:///x"}}}}}}]' ;;
"version "*) [ -e {folder}/up ] || exit 1; echo '{{"Server": {{"Version": "26.1.5", "Arch": "amd64"}}}}' ;;
"buildx version") echo "buildx 0.13.1" ;;
"compose version"*) echo 2.26.1 ;;
"info "*) echo io.containerd.snapshotter.v1 ;;
esac
"""


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setattr("imagekit.engine.daemon.POLL_SECONDS", 0.01)
    daemon = Daemon(
        state=tmp_path / "state",
        log=tmp_path / "log" / "dockerd.log",
        pidfile=tmp_path / "docker.pid",
        data_root=tmp_path / "data",
        system_config=tmp_path / "etc" / "daemon.json",
        systemd=tmp_path / "no-systemd",
    )
    with monkeypatch.context() as root:  # stopping is root's; these daemons belong to whoever runs the tests
        root.setattr("os.geteuid", lambda: 0)
        yield daemon
        daemon.stop(lambda _: None)


def add_engine(programs: AddProgram, folder: Path, version: str = "26.1.5") -> None:
    programs("dockerd", DOCKERD.format(folder=folder, version=version))
    programs("docker", DOCKER.format(folder=folder))


@pytest.fixture
def fake_apt(programs: AddProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-get that notes its arguments and what policy was in force, and on `install` puts the engine in place."""
    monkeypatch.setattr(apt, "ETC", tmp_path / "etc-apt")
    monkeypatch.setattr(apt, "POLICY", tmp_path / "policy-rc.d")
    add_engine(programs, tmp_path)
    for name in ("docker", "dockerd"):
        (tmp_path / "bin" / name).rename(tmp_path / name)
    log = tmp_path / "apt.log"
    programs(
        "apt-get",
        f"""
PATH=$BIN
echo "$@ policy:$([ -e {tmp_path}/policy-rc.d ] && echo yes)" >> {log}
case "$*" in *" install "*) cp -p {tmp_path}/docker {tmp_path}/dockerd {tmp_path}/bin/ ;; esac
echo Setting up docker.io""",
    )
    return log


def test_a_bare_debian_12_gets_an_engine_from_trixie_and_gets_rid_of_it(
    fake_apt: Path, daemon: Daemon, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    engine = ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_12)
    assert engine.ours
    assert engine.version == "26.1.5"
    assert said[0].startswith("No Docker engine on this machine: installing docker.io, docker-cli, docker-buildx")
    assert "trixie" in said[0]
    update, install = fake_apt.read_text().splitlines()
    assert " update " in update
    for package in manifest.engine.packages:
        assert f" {package} " in install
    assert "--no-remove" in install
    assert "policy:yes" in install  # no service is started behind our back
    assert not (tmp_path / "policy-rc.d").exists()
    source = (tmp_path / "etc-apt/sources.list.d/rlinf-npu-trixie.sources").read_text()
    assert f"Signed-By: {apt.KEYRING}" in source
    pins = (tmp_path / "etc-apt/preferences.d/rlinf-npu-docker-io").read_text()
    assert pins.startswith("Package: *\nPin: release n=trixie\nPin-Priority: 100\n")
    assert pins.endswith(f"Package: {' '.join(manifest.engine.packages)}\nPin: release n=trixie\nPin-Priority: 600\n")
    stop_engine(said, daemon=daemon)
    assert not (tmp_path / "up").exists()
    assert not daemon.record.exists()


def test_debian_13_needs_no_other_release(
    fake_apt: Path, daemon: Daemon, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13)
    assert "trixie" not in said.text
    assert not (tmp_path / "etc-apt").exists()


def test_a_mirror_is_where_the_packages_come_from(
    fake_apt: Path, daemon: Daemon, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    mirror = manifest.mirrors["cn"]
    ensure_engine(manifest, said, mirror=mirror, daemon=daemon, system=DEBIAN_12)
    source = (tmp_path / "etc-apt/sources.list.d/rlinf-npu-trixie.sources").read_text()
    assert f"URIs: {mirror.apt}/debian\n" in source


def test_a_stopped_engine_is_just_started(
    programs: AddProgram,
    daemon: Daemon,
    manifest: Manifest,
    said: Said,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_engine(programs, tmp_path)
    programs("apt-get", "exit 9")
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:secret@index")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13)
    assert said == ["A Docker engine is installed but not running: starting it.", "Docker engine 26.1.5 answers."]
    arguments = (tmp_path / "dockerd-arguments").read_text()
    config = json.loads((daemon.state / "daemon.json").read_text())
    assert config == {"features": {"containerd-snapshotter": True}}
    assert f"--config-file={daemon.state}/daemon.json" in arguments
    assert "--host" not in arguments  # the default unix socket, nothing else
    environment = (tmp_path / "dockerd-environment").read_text()
    assert "https_proxy=http://proxy:3128" in environment
    assert "secret" not in environment


def test_the_second_call_finds_it_running(
    programs: AddProgram, daemon: Daemon, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    add_engine(programs, tmp_path)
    ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13)
    said.clear()
    assert ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13).ours
    assert said == []


def test_a_configuration_of_the_users_own_stays_in_force(daemon: Daemon) -> None:
    daemon.system_config.parent.mkdir()
    daemon.system_config.write_text("{}")
    assert not any("--config-file" in part for part in daemon.command())
    daemon.write_system_config()
    assert daemon.system_config.read_text() == "{}"


def test_images_in_the_old_store_are_not_hidden_by_switching_the_store(daemon: Daemon) -> None:
    assert any("--config-file" in part for part in daemon.command())
    known = daemon.data_root / "image/overlay2/repositories.json"
    known.parent.mkdir(parents=True)
    known.write_text('{"Repositories": {"debian": {}}}')
    assert not any("--config-file" in part for part in daemon.command())


def test_a_dockerd_that_dies_tells_why_and_leaves_nothing(
    programs: AddProgram, daemon: Daemon, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    programs("docker", DOCKER.format(folder=tmp_path))
    programs(
        "dockerd",
        'if [ "$1" = --version ]; then echo "Docker version 26.1.5, build x"; else\n'
        "echo 'failed to start daemon: Devices cgroup is not mounted' >&2; exit 1; fi",
    )
    with pytest.raises(Problem, match=r"dockerd ended at once: .*Devices cgroup is not mounted; its log is"):
        ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13)
    assert not daemon.record.exists()


def test_an_old_dockerd_is_not_even_started(
    programs: AddProgram, daemon: Daemon, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    add_engine(programs, tmp_path, version="20.10.24+dfsg1")
    with pytest.raises(Problem, match=r"dockerd 20\.10\.24\+dfsg1 is too old, 23\.0"):
        ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13)
    assert not (tmp_path / "up").exists()


def test_a_pidfile_with_a_recycled_pid_does_not_stop_the_start(
    programs: AddProgram, daemon: Daemon, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    add_engine(programs, tmp_path)
    daemon.pidfile.write_text(str(os.getpid()))  # alive, but no dockerd
    ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13)
    assert not daemon.pidfile.exists()


def test_a_running_dockerd_that_does_not_answer_is_left_alone(
    programs: AddProgram, daemon: Daemon, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    add_engine(programs, tmp_path)
    with subprocess.Popen([tmp_path / "bin/dockerd"]) as hung:
        while not (tmp_path / "up").exists():
            assert hung.poll() is None
        (tmp_path / "up").unlink()
        daemon.pidfile.write_text(str(hung.pid))
        with pytest.raises(Problem, match=rf"dockerd \(pid {hung.pid}\) is running but does not answer"):
            ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13)
        assert hung.poll() is None
        hung.kill()


def test_stop_does_not_kill_a_process_that_only_has_the_same_pid(daemon: Daemon, said: Said) -> None:
    with subprocess.Popen(["sleep", "30"]) as stranger:
        record = {"how": "process", "process": dict(identify(stranger.pid) or {}) | {"started": 1}}
        daemon.state.mkdir()
        daemon.record.write_text(json.dumps(record))
        stop_engine(said, daemon=daemon)
        assert said == ["No engine of ours is running; nothing to stop."]
        assert stranger.poll() is None
        stranger.kill()


def test_only_root_stops_what_root_started(
    programs: AddProgram,
    daemon: Daemon,
    manifest: Manifest,
    said: Said,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_engine(programs, tmp_path)
    ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13)
    with monkeypatch.context() as user, pytest.raises(Problem, match=r"started by root; stop it as root"):
        user.setattr("os.geteuid", lambda: 1000)
        stop_engine(said, daemon=daemon)
    assert daemon.is_ours()


def test_under_systemd_systemd_starts_and_stops(
    fake_apt: Path, programs: AddProgram, daemon: Daemon, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    daemon.systemd.mkdir()
    programs(
        "systemctl",
        f"""
echo "$@" >> {tmp_path}/systemctl.log
case "$*" in
"start "*) {tmp_path}/bin/dockerd >/dev/null 2>&1 & echo $! > {tmp_path}/pid ;;
"show "*) PATH=$BIN cat {tmp_path}/pid ;;
"stop "*) kill $(PATH=$BIN cat {tmp_path}/pid) ;;
esac""",
    )
    assert ensure_engine(manifest, said, daemon=daemon, system=DEBIAN_13).ours
    assert json.loads(daemon.system_config.read_text())["features"]["containerd-snapshotter"] is True
    assert "policy:yes" not in fake_apt.read_text()
    stop_engine(said, daemon=daemon)
    calls = (tmp_path / "systemctl.log").read_text()
    assert calls.startswith("start docker.service\n")
    assert calls.endswith("stop docker.socket docker.service\n")


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("E: dpkg was interrupted, you must manually run 'dpkg --configure -a'", r"run `dpkg --configure -a`"),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7", "another package manager"),
        ("E: Failed to fetch http://deb.debian.org/x  Could not resolve", r"archive cannot be reached.*MIRROR=cn"),
        ("W: GPG error: trixie InRelease: NO_PUBKEY 6ED0\nE: The repository is not signed.", "debian-archive-keyring"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "no disk space"),
        ("E: something nobody knows", r"^apt-get failed: E: something nobody knows$"),
    ],
)
def test_apt_complaints_become_one_line(output: str, complaint: str) -> None:
    problem = apt.explain(Finished(100, output))
    with pytest.raises(Problem, match=complaint):
        raise problem
    assert "\n" not in str(problem)


def test_a_policy_of_the_machines_own_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "POLICY", tmp_path / "policy-rc.d")
    apt.POLICY.write_text("mine")
    with apt.services_stay_down():
        assert apt.POLICY.read_text() == "mine"
    assert apt.POLICY.read_text() == "mine"


def test_reading_the_system(tmp_path: Path) -> None:
    os_release = tmp_path / "os-release"
    os_release.write_text('ID=ubuntu\nVERSION_ID="22.04"\n')
    system = apt.read_system(os_release)
    assert (system.id, system.version, str(system)) == ("ubuntu", (22, 4), "ubuntu 22.4")
    assert not apt.read_system(tmp_path / "absent").has_apt
