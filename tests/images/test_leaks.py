"""Nothing of the machine that built the images is in any of their layers, their history, labels or environment."""

import os
import secrets
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imagekit.manifest import ROOT
from tests.images.support import needles, subjects
from tests.images.support.layers import entries
from tests.images.support.needles import Needle
from tests.images.support.subjects import Subject
from tests.images.support.sweep import Sweep

# Builds a target of canary/Dockerfile; returns what is found in it, and what its build step has seen.
Build = Callable[[str], tuple[set[str], str]]
CANARY = Path(__file__).resolve().parent / "canary"
# Text of others that names a mirror: RLinf's own installer offers --use-mirror.
MIRROR_TEXT = ("/opt/rlinf/",)


def test_the_sweep_saw_the_images(sweep: Sweep) -> None:
    assert sweep.documents >= 2
    assert sweep.files > 10_000


def test_no_credentials_file(sweep: Sweep) -> None:
    assert sweep.keys == []


def test_no_ca_proxy_or_index(sweep: Sweep) -> None:
    found = [hit for hit in sweep.hits if not hit.what.startswith("mirror ")]
    assert found == []


def test_no_mirror_in_configuration_history_or_labels(sweep: Sweep) -> None:
    found = [hit for hit in sweep.hits if hit.what.startswith("mirror ")]
    assert [hit for hit in found if not hit.layer or not hit.path.startswith(MIRROR_TEXT)] == []


def test_no_cache_in_any_layer(sweep: Sweep) -> None:
    assert sweep.cached == []


def test_no_build_argument_or_secret_in_history(everything: list[Subject]) -> None:
    words = ("proxy=", "index_url=", "index-url=", "password", "token=", "/run/secrets/ca ")
    for image in everything:
        text = "\n".join(step["CreatedBy"] for step in subjects.client().images.get(image.id).history()).lower()
        assert [word for word in words if word in text] == [], image.name


# --- would it be noticed? ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def canary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Secrets of an imaginary machine, as values and as the files that a build would get."""
    folder = tmp_path_factory.mktemp("canary")
    marker = secrets.token_hex(12)
    # Nothing here reads it as a certificate: any bytes will do, and no others in the world are the same.
    (folder / "ca").write_text(ssl.DER_cert_to_PEM_cert(secrets.token_bytes(900)), encoding="utf-8")
    proxy = f"http://someone:{marker}@proxy.{marker}.invalid:3128"
    index = f"https://pypi.{marker}.invalid/simple"
    (folder / "net").write_text(
        f"HTTPS_PROXY={proxy}\nPIP_INDEX_URL={index}\nUV_DEFAULT_INDEX={index}\nAPT_MIRROR=https://apt.{marker}.invalid\n"
        "INSTALL_MIRROR=--use-mirror\n",
        encoding="utf-8",
    )
    (folder / "gitconfig").write_text(
        f'[url "https://git.{marker}.invalid/"]\n\tinsteadOf = https://github.com/\n', encoding="utf-8"
    )
    return {"folder": str(folder), "marker": marker, "ca": (folder / "ca").read_text(encoding="utf-8")}


@pytest.fixture
def build(everything: list[Subject], canary: dict[str, str]) -> Iterator[Build]:
    """Build a target of canary/Dockerfile on the smallest image under test; return what is found in its own layers."""
    engine, client = subjects.engine(), subjects.client()
    tags: list[str] = []

    def run(target: str) -> tuple[set[str], str]:
        tag = f"rlinf-npu-canary:{target}"
        tags.append(tag)
        command = [*engine.docker, "buildx", "build", "--quiet", f"--target={target}", f"--tag={tag}", "--network=none"]
        command += [f"--secret=id={name},src={canary['folder']}/{name}" for name in ("ca", "net", "gitconfig")]
        command += [f"--build-context=common={ROOT / 'images' / 'common'}"]
        command += [f"--build-context=upstream-src={ROOT / 'images' / 'rlinf-npu' / 'upstream'}", "--no-cache"]
        command += [str(CANARY)]
        base = client.images.get(everything[0].id)
        base.tag("rlinf-npu-canary", "base")
        tags.append("rlinf-npu-canary:base")
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **engine.env})
        looked_for = [needle for der in needles.certificates(canary["ca"]) for needle in needles.of_certificate(der)]
        looked_for.append(Needle("marker", canary["marker"].encode()))
        found = {hit.what for entry in entries(engine, [tag]) for hit in needles.find(entry, looked_for)}
        return found, client.containers.run(tag, ["cat", "/seen"], remove=True, entrypoint="").decode()

    yield run
    for tag in set(tags):
        client.images.remove(tag, force=True)


def test_with_net_uses_the_secrets_and_leaves_none(build: Build) -> None:
    """RLinf's own installer too: it writes mirrors into configuration and origins, and its sudo drops variables."""
    found, seen = build("clean")
    # the steps themselves did see all of them: first RLinf's installer, then with-net alone
    assert seen.split() == ["mirror", "proxy", "wget", "git", "apt", "proxy", "ca", "index", "apt"]
    assert found == set()


def test_a_leak_would_be_found(build: Build) -> None:
    found, _ = build("leaking")
    assert found == {"a private CA (PEM)", "a private CA (DER)", "marker"}
