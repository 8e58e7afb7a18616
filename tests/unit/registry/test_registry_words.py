"""References, logins, trust: what is decided before anything is sent."""

import base64
import json
from pathlib import Path

import pytest

from imagekit.errors import Problem
from imagekit.registry import Reference, is_loopback, parse
from imagekit.registry.credentials import HUB_KEY, Credentials, find_credentials
from imagekit.registry.trust import for_host

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ghcr.io/a/b:1", Reference("ghcr.io", "a/b", "1")),
        ("localhost:5000/b", Reference("localhost:5000", "b")),
        ("[::1]:5000/b:x", Reference("[::1]:5000", "b", "x")),
        (f"127.0.0.1:5000/a/b/c@{DIGEST}", Reference("127.0.0.1:5000", "a/b/c", "", DIGEST)),
        (f"h.io/a:t@{DIGEST}", Reference("h.io", "a", "t", DIGEST)),
        ("debian:bookworm", Reference("docker.io", "library/debian", "bookworm")),
        ("ascendai/cann", Reference("docker.io", "ascendai/cann")),
    ],
)
def test_references(text: str, expected: Reference) -> None:
    assert parse(text) == expected
    assert parse(str(expected)) == expected


@pytest.mark.parametrize(
    "text",
    ["", "h.io/", "h.io/A", "h.io/a:", "h.io/a@sha256:1", "h.io/a:b/../c", "h.io/a b", "https://h.io/a", "h.io/a:-x"],
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(Problem, match="not an image reference") as caught:
        parse(text)
    assert caught.value.usage


def test_a_digest_goes_before_a_tag() -> None:
    reference = parse(f"h.io/a:t@{DIGEST}")
    assert (reference.target, reference.tagged("x").target, parse("h.io/a").target) == (DIGEST, "x", "latest")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1:5", True), ("127.8.0.1", True), ("localhost", True), ("[::1]:5", True), ("10.0.0.1", False)]
    + [("localhost.example.com", False), ("127.0.0.1.example.com:5", False)],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# --- logins -----------------------------------------------------------------------------------------------------------


def docker_config(folder: Path, **content: object) -> dict[str, str]:
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return {"DOCKER_CONFIG": str(folder), "PATH": str(folder)}


def test_no_store_is_anonymous(tmp_path: Path) -> None:
    assert find_credentials("h.io", {"DOCKER_CONFIG": str(tmp_path)}) is None


def test_inline_login_of_dockers_store(tmp_path: Path) -> None:
    environ = docker_config(tmp_path, auths={"h.io": {"auth": base64.b64encode(b"me:se:cret").decode()}})
    assert find_credentials("h.io", environ) == Credentials("me", "se:cret")
    assert find_credentials("other.io", environ) is None


def test_docker_hub_has_another_name_in_the_store(tmp_path: Path) -> None:
    environ = docker_config(tmp_path, auths={HUB_KEY: {"auth": base64.b64encode(b"me:x").decode()}})
    assert find_credentials("docker.io", environ) == Credentials("me", "x")


def test_credential_helper(tmp_path: Path) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(
        '#!/bin/sh\nread host\n[ "$host" = h.io ] || exit 1\necho "{\\"Username\\":\\"me\\",\\"Secret\\":\\"x\\"}"\n'
    )
    helper.chmod(0o755)
    environ = docker_config(tmp_path, credsStore="test") | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert find_credentials("h.io", environ) == Credentials("me", "x")
    assert find_credentials("other.io", environ) is None


def test_a_helper_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="docker-credential-gone, which is not installed"):
        find_credentials("h.io", docker_config(tmp_path, credHelpers={"h.io": "gone"}))


def test_a_store_that_is_damaged_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(Problem, match="not JSON"):
        find_credentials("h.io", {"DOCKER_CONFIG": str(tmp_path)})


def test_a_login_from_the_environment_is_for_one_host(tmp_path: Path) -> None:
    environ = {"REGISTRY": "h.io/us", "REGISTRY_USER": "me", "REGISTRY_PASSWORD": "x", "DOCKER_CONFIG": str(tmp_path)}
    assert find_credentials("h.io", environ) == Credentials("me", "x")
    assert find_credentials("mirror.io", environ) is None


def test_a_password_is_in_no_repr() -> None:
    assert "secret-word" not in repr(Credentials("me", "secret-word"))


# --- trust ------------------------------------------------------------------------------------------------------------


def test_dockers_folder_for_one_registry_is_added(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("SYSTEM\n", encoding="utf-8")
    folder = tmp_path / "etc/docker/certs.d/h.io:5000"
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_text("OURS\n", encoding="utf-8")
    for name in ("client.cert", "client.key"):
        (folder / name).write_text("x", encoding="utf-8")
    environ = {"SSL_CERT_FILE": str(bundle)}
    trust = for_host("h.io:5000", environ=environ, root=tmp_path)
    assert Path(trust.bundle).read_text(encoding="utf-8").split() == ["SYSTEM", "OURS"]
    assert trust.client == (str(folder / "client.cert"), str(folder / "client.key"))
    assert for_host("other.io", environ=environ, root=tmp_path).bundle == str(bundle)
