"""Signatures by the real cosign (Debian's), with a key and without the public log, which is out of reach in tests."""

import os
from pathlib import Path

import pytest

from imagekit.apt import debian_program
from imagekit.carry.pull import verify_signature
from imagekit.errors import Problem
from imagekit.manifest import Signature
from imagekit.process import run
from tests.e2e.publish_kit import Publisher, publisher
from tests.e2e.registry_kit import registry, tiny

__all__ = ["publisher", "registry", "tiny"]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture
def signing(publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """A publisher with cosign and a key; people who pull have the public half, their login and cosign."""
    cosign = debian_program("cosign", print)
    monkeypatch.setenv("PATH", f"{Path(cosign).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_CONFIG", publisher.environ["DOCKER_CONFIG"])
    keys = make_keys(tmp_path / "ours")
    publisher.environ |= {"PATH": os.environ["PATH"], "COSIGN_KEY": f"{keys}.key", "COSIGN_PASSWORD": ""}
    signature = Signature(key=f"{keys}.pub", transparency_log=False)
    pull = publisher.manifest.pull.model_copy(update={"signature": signature})
    publisher.manifest = publisher.manifest.model_copy(update={"pull": pull})
    return publisher


def make_keys(folder: Path) -> Path:
    """A pair of keys; the name that both have, without suffix."""
    folder.mkdir()
    done = run(["env", f"--chdir={folder}", "cosign", "generate-key-pair"], env={"COSIGN_PASSWORD": ""})
    assert done.ok, done.err
    return folder / "cosign"


def test_what_is_published_is_signed_and_verified_on_pull(signing: Publisher, tmp_path: Path) -> None:
    image = signing.publish()
    signature = signing.manifest.pull.signature
    assert signature is not None
    tags = signing.release_tags(image)
    assert len(tags) == 4
    for tag in tags:
        said: list[str] = []
        verify_signature(signature, image.at(signing.client.resolve(image.tagged(tag)).digest), said.append)
        assert said == ["  signature verified"], tag
    others = signature.model_copy(update={"key": f"{make_keys(tmp_path / 'others')}.pub"})
    with pytest.raises(Problem, match="no valid signature"):
        verify_signature(others, image, print)


def test_an_unsigned_image_is_refused(signing: Publisher) -> None:
    image = signing.push(signing.build())
    assert signing.manifest.pull.signature is not None
    with pytest.raises(Problem, match=r"no valid signature: .*no signatures found"):
        verify_signature(signing.manifest.pull.signature, image, print)


def test_a_key_that_does_not_open_stops_before_any_tag(signing: Publisher) -> None:
    image = signing.push(signing.build())
    assert signing.gate(image)[1] == []
    signing.environ["COSIGN_PASSWORD"] = "another one"
    with pytest.raises(Problem, match=r"cosign did not sign .*decrypt"):
        signing.promote(image)
    assert signing.release_tags(image) == []
