"""Which engine answers, seen through a docker client that only pretends."""

import json
from pathlib import Path

import pytest
from hostkit import AddProgram, Said

from imagekit.apt import System
from imagekit.engine import Daemon, ensure_engine, find_engine
from imagekit.errors import Problem
from imagekit.manifest import Manifest

NORMAL = {"engine": "26.1.5+dfsg1", "buildx": "v0.13.1", "compose": "2.26.1-4", "store": "io.containerd.snapshotter.v1"}


def add_docker(
    programs: AddProgram, context: str = "default", host: str = "unix:///var/run/docker.sock", **facts: str
) -> None:
    facts = NORMAL | facts
    server = json.dumps({"Client": {"Version": "28"}, "Server": {"Version": facts["engine"], "Arch": "amd64"}})
    shown = json.dumps([{"Name": context, "Endpoints": {"docker": {"Host": host}}, "TLSMaterial": {}}])
    programs(
        "docker",
        f"""
case "$*" in
"context inspect") echo '{shown}' ;;
"version "*) echo '{server}' ;;
"info "*) echo '[["driver-type","{facts["store"]}"]]' ;;
"buildx version") [ -n "{facts["buildx"]}" ] && echo "github.com/docker/buildx {facts["buildx"]} abc" ;;
"compose version --short") [ -n "{facts["compose"]}" ] && echo "{facts["compose"]}" ;;
*) echo "unknown command: $*" >&2; exit 1 ;;
esac""",
    )


def add_silent_docker(programs: AddProgram, context: str, host: str, error: str) -> None:
    shown = json.dumps([{"Name": context, "Endpoints": {"docker": {"Host": host}}}])
    programs(
        "docker",
        f"""
case "$*" in
"context inspect") echo '{shown}' ;;
*) echo '{{"Client": {{"Version": "28"}}, "Server": null}}'; echo "{error}" >&2; exit 1 ;;
esac""",
    )


def idle(tmp_path: Path) -> Daemon:
    """A daemon whose record says nothing was started."""
    return Daemon(state=tmp_path / "state")


def test_the_engine_that_answers_is_used_as_it_is(
    programs: AddProgram, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    add_docker(programs)
    engine = ensure_engine(manifest, said, daemon=idle(tmp_path))
    assert (engine.version, engine.buildx, engine.compose) == ("26.1.5+dfsg1", "0.13.1", "2.26.1-4")
    assert (engine.arch, engine.containerd_store, engine.ours, engine.local) == ("x86_64", True, False, True)
    assert engine.env == {"BUILDX_BUILDER": "default"}
    assert said == []


def test_a_context_gives_endpoint_and_builder(programs: AddProgram) -> None:
    add_docker(programs, context="lab", host="ssh://build@lab")
    engine = find_engine()
    assert engine
    assert (engine.endpoint, engine.env["BUILDX_BUILDER"], engine.local) == ("ssh://build@lab", "lab", False)


def test_docker_host_is_what_the_client_is_asked_with(programs: AddProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.9:2375")
    server = json.dumps({"Server": {"Version": "27.0", "Arch": "arm64"}})
    programs(
        "docker",
        f"""
[ "$DOCKER_HOST" = tcp://10.0.0.9:2375 ] || exit 1
case "$*" in
"context inspect") echo '[{{"Name": "default", "Endpoints": {{"docker": {{"Host": "'$DOCKER_HOST'"}}}}}}]' ;;
"version "*) echo '{server}' ;;
esac""",
    )
    engine = find_engine()
    assert engine
    assert (engine.endpoint, engine.arch) == ("tcp://10.0.0.9:2375", "aarch64")


def test_no_client_at_all_is_no_engine(programs: AddProgram) -> None:
    assert find_engine() is None


def test_nobody_answers_at_the_default_place(programs: AddProgram) -> None:
    add_silent_docker(programs, "default", "unix:///var/run/docker.sock", "Cannot connect to the Docker daemon")
    assert find_engine() is None


def test_a_chosen_endpoint_that_is_silent_is_an_error_not_a_reason_to_install(
    programs: AddProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_silent_docker(programs, "default", "tcp://nas:2375", "Cannot connect")
    monkeypatch.setenv("DOCKER_HOST", "tcp://nas:2375")
    with pytest.raises(Problem, match=r"no Docker engine answers at tcp://nas:2375 \(DOCKER_HOST\)"):
        find_engine()


def test_a_chosen_context_that_is_silent_names_the_context(programs: AddProgram) -> None:
    add_silent_docker(programs, "lab", "ssh://lab", "Cannot connect")
    with pytest.raises(Problem, match=r"docker context lab"):
        find_engine()


def test_a_user_without_rights_is_told_so(programs: AddProgram) -> None:
    add_silent_docker(programs, "default", "unix:///var/run/docker.sock", "permission denied while trying to connect")
    with pytest.raises(Problem, match=r"this user may not use .*; run as root \(sudo\), or join the docker group"):
        find_engine()


def test_podman_is_not_taken_for_docker(programs: AddProgram) -> None:
    answer = json.dumps({"Server": {"Version": "4.9", "Components": [{"Name": "Podman Engine"}]}})
    programs("docker", f"echo '{answer}'")
    with pytest.raises(Problem, match="Podman"):
        find_engine()


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"engine": "20.10.24+dfsg1"}, r"Docker engine 20\.10\.24\+dfsg1 is too old, 23\.0 or newer is needed"),
        ({"buildx": "v0.12.1"}, r"docker buildx 0\.12\.1 is too old, 0\.13 or newer is needed"),
        ({"compose": "2.19.0"}, r"docker compose 2\.19\.0 is too old, 2\.20 or newer is needed"),
        ({"buildx": ""}, r"docker buildx is missing, 0\.13 or newer is needed; .*docker-buildx"),
        ({"compose": ""}, r"docker compose is missing"),
    ],
)
def test_too_old_or_missing_names_what_was_found_and_what_is_needed(
    programs: AddProgram, manifest: Manifest, said: Said, tmp_path: Path, facts: dict[str, str], complaint: str
) -> None:
    add_docker(programs, **facts)
    with pytest.raises(Problem, match=complaint) as caught:
        ensure_engine(manifest, said, daemon=idle(tmp_path))
    assert caught.value.exit_code == 1


def test_an_old_image_store_is_used_and_noted(
    programs: AddProgram, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    add_docker(programs, store="overlay2")
    assert not ensure_engine(manifest, said, daemon=idle(tmp_path)).containerd_store
    assert "containerd-snapshotter" in said.text


@pytest.mark.parametrize(
    ("system", "complaint"),
    [
        (System("debian", (12,), False), r"not root; run as root, or install docker\.io, docker-cli, docker-buildx"),
        (System("ubuntu", (24, 4), False), r"not root; .*docker\.io, docker-buildx, docker-compose-v2"),
        (System("openeuler", (22, 3), True), r"openeuler 22\.3 is not Debian or Ubuntu"),
        (System("debian", (11,), True), r"debian 11 is too old"),
    ],
)
def test_where_we_may_not_install_the_packages_are_named(
    programs: AddProgram, manifest: Manifest, said: Said, tmp_path: Path, system: System, complaint: str
) -> None:
    with pytest.raises(Problem, match=complaint):
        ensure_engine(manifest, said, daemon=idle(tmp_path), system=system)
    assert said == []


def test_a_stopped_engine_is_not_started_by_somebody_else_than_root(
    programs: AddProgram, manifest: Manifest, said: Said, tmp_path: Path
) -> None:
    programs("dockerd", "exit 9")
    with pytest.raises(Problem, match="installed but not running, and this user is not root"):
        ensure_engine(manifest, said, daemon=idle(tmp_path), system=System("debian", (13,), False))
