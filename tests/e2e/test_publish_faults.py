"""Publishing when something goes wrong: each is refused or resumed, and no release tag is ever wrong."""

import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from imagekit.errors import Problem
from imagekit.publish import attachments, signing, transfer
from imagekit.publish.evidence import FILE
from imagekit.registry import (
    Altered,
    File,
    NotFound,
    Reference,
    Refused,
    RegistryClient,
    Unauthorised,
    Unreachable,
    canonical,
)
from imagekit.registry.server import LoopbackRegistry
from tests.e2e.publish_kit import Publisher, publisher
from tests.e2e.registry_kit import TinyImages, registry, tiny

__all__ = ["publisher", "registry", "tiny"]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that is gone stays gone in these tests: no need to wait for it."""
    monkeypatch.setattr("imagekit.publish.transfer.PAUSES", (0.1,))
    monkeypatch.setattr("imagekit.registry.transport.PAUSES", (0.1,))


def kill_when(registry: LoopbackRegistry, condition: Callable[[], bool]) -> threading.Thread:
    """Kill the registry, hard, as soon as `condition` holds."""

    def watch() -> None:
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.005)
        registry.stop(kill=True)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def uploaded(registry: LoopbackRegistry) -> int:
    """Bytes of uploads that are on their way."""
    total = 0
    for path in (registry.folder / "data").rglob("_uploads/*/data"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def test_registry_killed_in_the_middle_of_a_push(publisher: Publisher) -> None:
    local = publisher.build(run="head -c 300000000 /dev/urandom >/large")
    thread = kill_when(publisher.registry, lambda: uploaded(publisher.registry) > 60_000_000)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
        publisher.push(local)
    thread.join()
    publisher.registry.start()
    place = Reference(publisher.registry.host, "e2e/rlinf-npu")
    assert publisher.client.tags(place) == []  # neither a candidate nor a release
    image = publisher.push(local)  # what has arrived is not sent again, what has not is
    assert publisher.gate(image)[1] == []
    publisher.promote(image)


def test_registry_killed_between_check_and_tags(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    publisher.gate(image)
    publisher.registry.stop(kill=True)
    with pytest.raises(Unreachable):
        publisher.promote(image)
    publisher.registry.start()
    assert publisher.release_tags(image) == []
    publisher.promote(image)


def test_a_damaged_layer_in_the_registry(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    layer = publisher.client.manifest(image).layers[-1]
    flip(publisher, layer.digest)
    with pytest.raises(Altered, match="promised"):
        publisher.gate(image)
    assert publisher.client.referrers(image, attachments.EVIDENCE) == []


def test_a_layer_that_is_gone(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    publisher.registry.blob(publisher.client.manifest(image).layers[-1].digest).unlink()
    with pytest.raises((NotFound, Refused, Unreachable)):
        publisher.gate(image)


def flip(publisher: Publisher, digest: str) -> None:
    """Change one byte of a blob on the registry's disk."""
    path = publisher.registry.blob(digest)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


# --- evidence ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def red(publisher: Publisher) -> Reference:
    """An image that its gate has found wanting."""
    image = publisher.push(publisher.build(run="touch /broken"))
    assert publisher.gate(image)[1]
    return image


def proof(publisher: Publisher, image: Reference) -> dict[str, bytes]:
    """The files of the image's one evidence artifact."""
    (found,) = attachments.all_of(publisher.client, image, attachments.EVIDENCE)
    return found.files


def attach(publisher: Publisher, image: Reference, files: dict[str, bytes]) -> None:
    """Attach files as evidence, as anybody can who may push."""
    listed = [File(name, "application/octet-stream", data) for name, data in files.items()]
    manifest = publisher.client.manifest(image)
    attachments.attach(publisher.client, manifest, attachments.EVIDENCE, listed, {})


def edited(
    files: dict[str, bytes], junit: Callable[[bytes], bytes] = lambda data: data, **changes: Any
) -> dict[str, bytes]:
    """Evidence with other claims, its time later than the true one's."""
    document = json.loads(files[FILE]) | {"finished": "2099-01-01T00:00:00Z"} | changes
    new = {name: junit(data) if name.endswith(".xml") else data for name, data in files.items()}
    for run in document["runs"]:
        run["sha256"] = hashlib.sha256(new[run["junit"]]).hexdigest()
        if changes.get("green"):
            run["passed"], run["failures"] = run["passed"] + len(run["failures"]), []
    return new | {FILE: canonical(document)}


def no_failures(data: bytes) -> bytes:
    """A JUnit file in which nothing has failed."""
    start, end = data.find(b"<failure"), data.find(b"</failure>")
    return data if start < 0 else data[:start] + data[end + len(b"</failure>") :]


def refused(publisher: Publisher, image: Reference, match: str) -> None:
    with pytest.raises(Problem, match=match):
        publisher.promote(image)
    assert publisher.release_tags(image) == []


def test_evidence_damaged_on_the_registrys_disk(publisher: Publisher, red: Reference) -> None:
    (artifact,) = publisher.client.referrers(red, attachments.EVIDENCE)
    layer = publisher.client.manifest(red.at(artifact.digest)).layers[0]
    path = publisher.registry.blob(layer.digest)
    path.write_bytes(path.read_bytes().replace(b'"green":false', b'"green":true '))
    refused(publisher, red, "promised sha256")


def test_evidence_that_says_green(publisher: Publisher, red: Reference) -> None:
    """The verdict is worked out again from what was recorded."""
    files = proof(publisher, red)
    document = json.loads(files[FILE]) | {"green": True, "finished": "2099-01-01T00:00:00Z"}
    attach(publisher, red, files | {FILE: canonical(document)})
    refused(publisher, red, "test failed")


def test_evidence_without_its_failures(publisher: Publisher, red: Reference) -> None:
    """The counts are taken again from the JUnit files."""
    attach(publisher, red, edited(proof(publisher, red), green=True))
    refused(publisher, red, "is not what tiny.xml says")


def test_evidence_of_another_image(publisher: Publisher, red: Reference) -> None:
    good = publisher.push(publisher.build())
    publisher.gate(good)
    attach(publisher, red, proof(publisher, good))
    refused(publisher, red, "it is about sha256")


def test_evidence_that_is_none(publisher: Publisher, red: Reference) -> None:
    attach(publisher, red, {FILE: b"{}"})
    refused(publisher, red, "not evidence")


def test_a_consistent_forgery_needs_the_key(publisher: Publisher) -> None:
    """Evidence and JUnit files forged together: whoever may push can do that. Only a signature tells."""
    publisher.environ[signing.KEY] = KEY
    image = publisher.push(publisher.build(run="touch /broken"))
    publisher.gate(image)
    forged = edited(proof(publisher, image), no_failures, green=True)
    attach(publisher, image, {name: data for name, data in forged.items() if name != signing.SIGNATURE})
    refused(publisher, image, "is not signed")


def test_a_forgery_with_another_key(publisher: Publisher) -> None:
    publisher.environ[signing.KEY] = KEY
    image = publisher.push(publisher.build(run="touch /broken"))
    publisher.gate(image)
    forged = edited(proof(publisher, image), no_failures, green=True)
    attach(publisher, image, forged | {signing.SIGNATURE: signing.sign(forged[FILE], KEY[::-1].encode())})
    refused(publisher, image, "signature of the evidence")


def test_signed_evidence_is_good(publisher: Publisher) -> None:
    publisher.environ[signing.KEY] = KEY
    image = publisher.push(publisher.build())
    publisher.gate(image)
    assert signing.SIGNATURE in proof(publisher, image)
    publisher.promote(image)


def test_configured_but_missing_cosign_is_said_before_anything_is_tagged(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    publisher.gate(image)
    publisher.environ |= {"COSIGN_KEY": "cosign.key", "PATH": "/nonexistent"}
    refused(publisher, image, "cosign is not installed")


# --- rights -----------------------------------------------------------------------------------------------------------


def test_without_a_login(publisher: Publisher) -> None:
    publisher.environ["DOCKER_CONFIG"] = str(publisher.folder)
    with pytest.raises(Unauthorised, match=r"(?i)unauthori|no basic auth|denied"):
        publisher.push(publisher.build())


def test_login_from_the_environment(publisher: Publisher, capfd: pytest.CaptureFixture[str]) -> None:
    environ = publisher.environ
    environ["DOCKER_CONFIG"] = str(publisher.folder)
    environ |= {"REGISTRY_USER": publisher.registry.user, "REGISTRY_PASSWORD": publisher.registry.password}
    image = publisher.push(publisher.build())
    assert publisher.gate(image)[1] == []
    publisher.promote(image)
    said = publisher.output.getvalue() + "".join(capfd.readouterr())
    assert publisher.registry.password not in said
    kept = [p for p in publisher.folder.rglob("*") if p.is_file() and p.stat().st_size < 50_000_000]
    assert [p for p in kept if publisher.registry.password.encode() in p.read_bytes()] == [
        p for p in kept if p.parent.name == "docker"
    ]


def test_the_name_in_the_engine_is_gone_after_a_push(publisher: Publisher, tiny: TinyImages) -> None:
    publisher.gate(publisher.push(publisher.build()))
    left = [tag for image in tiny.engine.client().images.list() for tag in [*image.tags, *image.attrs["RepoDigests"]]]
    assert [name for name in left if publisher.registry.host in name] == []


def test_a_push_that_is_refused_for_good_is_not_tried_again(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    once = transfer._push_once
    monkeypatch.setattr(transfer, "_push_once", lambda *a: (calls.append(1), once(*a))[1])
    publisher.environ["DOCKER_CONFIG"] = str(publisher.folder)
    with pytest.raises(Unauthorised):
        publisher.push(publisher.build())
    assert calls == [1]


def test_the_client_itself(publisher: Publisher) -> None:
    """Wrong password, unknown CA, and no plain http to a server that speaks TLS."""
    place = Reference(publisher.registry.host, "e2e/rlinf-npu", "x")
    wrong = {"REGISTRY": f"{publisher.registry.host}/e2e", "REGISTRY_USER": "robot", "REGISTRY_PASSWORD": "wrong"}
    with pytest.raises(Unauthorised, match="do not suffice"):
        RegistryClient(place.host, environ=wrong).resolve(place)
    with pytest.raises(Problem, match="certificate is not trusted"):
        RegistryClient(place.host, environ=publisher.environ, root=publisher.folder).resolve(place)
