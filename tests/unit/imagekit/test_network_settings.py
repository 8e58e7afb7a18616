"""CA, proxy, index and mirrors of this machine; none of it may be seen or stay behind."""

import os
import subprocess
from pathlib import Path

import pytest
from hostkit import AddProgram

from imagekit.errors import Problem
from imagekit.manifest import Manifest
from imagekit.network import NetworkSettings

SECRETIVE = {
    "https_proxy": "http://user:pr0xy-secret@proxy:3128",
    "NO_PROXY": "localhost,.corp",
    "PIP_INDEX_URL": "https://user:index'secret@pypi.corp/simple",
}


@pytest.fixture
def bare(programs: AddProgram) -> AddProgram:
    """No pip on PATH: its configuration files on this machine play no part."""
    return programs


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"])
def test_the_ca_is_taken_from_the_variables(bare: AddProgram, tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "corp.pem"
    bundle.write_text("pem")
    assert NetworkSettings.from_host(environ={name: str(bundle)}, root=tmp_path).ca == bundle


def test_a_variable_that_names_nothing_is_an_error(bare: AddProgram, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"PIP_CERT names /nowhere\.pem, which is not there; correct or unset PIP_CERT"):
        NetworkSettings.from_host(environ={"PIP_CERT": "/nowhere.pem"}, root=tmp_path)


@pytest.mark.parametrize("place", ["etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt"])
def test_else_the_systems_bundle_is_taken(bare: AddProgram, tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text("pem")
    assert NetworkSettings.from_host(environ={}, root=tmp_path).ca == tmp_path / place


def test_nothing_set_is_nothing_found(bare: AddProgram, tmp_path: Path) -> None:
    settings = NetworkSettings.from_host(environ={}, root=tmp_path)
    assert settings == NetworkSettings()
    assert settings.env() == {}


def test_secrets_are_private_readable_by_a_shell_and_gone_afterwards(bare: AddProgram, tmp_path: Path) -> None:
    bundle = tmp_path / "corp.pem"
    bundle.write_text("pem")
    settings = NetworkSettings.from_host(environ=SECRETIVE | {"SSL_CERT_FILE": str(bundle)}, root=tmp_path)
    with settings.write_secrets(tmp_path / "secrets") as paths:
        assert {path.stat().st_mode & 0o777 for path in paths.values()} == {0o600}
        assert paths["ca"].read_text() == "pem"
        shell = (
            f'. {paths["net"]}; printf "%s|%s|%s|%s" "$HTTPS_PROXY" "$NO_PROXY" "$PIP_INDEX_URL" "$UV_DEFAULT_INDEX"'
        )
        read = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, check=True, env={}).stdout
    index = SECRETIVE["PIP_INDEX_URL"]
    assert read == f"{SECRETIVE['https_proxy']}|localhost,.corp|{index}|{index}"
    assert list((tmp_path / "secrets").iterdir()) == []


def test_secrets_go_away_when_the_build_fails(bare: AddProgram) -> None:
    with pytest.raises(KeyboardInterrupt), NetworkSettings(index="https://x/simple").secrets() as paths:
        folder = paths["net"].parent
        assert folder.stat().st_mode & 0o077 == 0
        raise KeyboardInterrupt
    assert not folder.exists()


def test_without_any_setting_all_files_are_there_and_empty(bare: AddProgram) -> None:
    with NetworkSettings().secrets() as paths:
        assert {name: path.read_text() for name, path in paths.items()} == {"ca": "", "net": "", "gitconfig": ""}


def test_no_text_of_it_shows_a_password(bare: AddProgram, tmp_path: Path) -> None:
    settings = NetworkSettings.from_host(environ=SECRETIVE, root=tmp_path)
    assert settings.index
    assert "secret" not in f"{settings} {settings!r} {settings.warnings()}"


def test_a_mirror_goes_before_the_users_own_index(bare: AddProgram, tmp_path: Path, manifest: Manifest) -> None:
    mirror = manifest.mirrors["cn"]
    settings = NetworkSettings.from_host(mirror, environ=SECRETIVE, root=tmp_path)
    assert settings.index == mirror.pypi
    assert settings.repositories == tuple(mirror.repositories)
    with settings.secrets() as paths:
        assert f"APT_MIRROR={mirror.apt}\n" in paths["net"].read_text()


def test_a_slash_at_the_end_of_a_mirrors_index_goes_too(bare: AddProgram, tmp_path: Path, manifest: Manifest) -> None:
    mirror = manifest.mirrors["cn"].model_copy(update={"pypi": "https://m/simple/"})
    assert NetworkSettings.from_host(mirror, environ={}, root=tmp_path).index == "https://m/simple"


@pytest.mark.parametrize(
    ("environ", "index"),
    [
        (
            {"UV_DEFAULT_INDEX": "corp=https://corp/simple", "PIP_INDEX_URL": "https://pip/simple"},
            "https://corp/simple",
        ),
        ({"PIP_INDEX_URL": "https://pip/simple"}, "https://pip/simple"),
        ({"PIP_INDEX_URL": "https://pip/simple/"}, "https://pip/simple"),  # else a package's page is simple//name/
        ({"PIP_INDEX_URL": "file:///opt/simple"}, ""),  # means nothing inside a build
        ({}, "https://configured/simple"),
    ],
)
def test_where_the_index_comes_from(bare: AddProgram, tmp_path: Path, environ: dict[str, str], index: str) -> None:
    bare("pip3", '[ "$*" = "config get global.index-url" ] && echo https://configured/simple')
    assert NetworkSettings.from_host(environ=environ, root=tmp_path).index == index


def test_a_proxy_on_the_loopback_is_warned_about(bare: AddProgram) -> None:
    assert "loopback" in NetworkSettings(https_proxy="http://127.0.0.1:7890").warnings()[0]


def test_proxies_reach_programs_under_both_spellings(bare: AddProgram) -> None:
    env = NetworkSettings(https_proxy="http://p:1", ca=Path("/ca.pem")).env()
    assert env["https_proxy"] == env["HTTPS_PROXY"] == "http://p:1"
    assert env["SSL_CERT_FILE"] == env["GIT_SSL_CAINFO"] == "/ca.pem"


def test_git_itself_goes_through_the_mirror_but_the_users_own_rule_wins(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "url./srv/own.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/me/own")
    prefix = manifest.mirrors["cn"].git_prefix
    env = os.environ | NetworkSettings(git_prefix=prefix).env()

    def rewritten(url: str) -> str:
        command = ["git", "ls-remote", "--get-url", url]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()

    assert rewritten(manifest.rlinf.git) == prefix + manifest.rlinf.git
    assert rewritten("https://github.com/me/own") == "/srv/own"
