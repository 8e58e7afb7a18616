"""What the engine says while it pulls, in words a user can act on; who is asked, and who signs."""

import io
import re
import threading
from pathlib import Path

import pytest
from rich.console import Console

from imagekit.carry import meter as meters
from imagekit.carry import pull
from imagekit.carry.transfer import Transfer
from imagekit.errors import Problem
from imagekit.manifest import Signature, load_manifest
from imagekit.planner import EXPORT
from imagekit.registry import Altered, Descriptor, NotFound, Unauthorised, Unreachable, Untrusted, parse
from imagekit.registry import Manifest as RegistryManifest
from imagekit.registry.client import MANIFEST

REFERENCE = parse("registry.example/ns/rlinf-npu@sha256:" + "a" * 64)
HERE, MOVED, SMALL = ("sha256:" + letter * 64 for letter in "123")


@pytest.mark.parametrize(
    ("words", "kind", "line"),
    [
        ("write /var/lib/docker/x: no space left on device", Problem, "the disk of the Docker engine filled up"),
        ("Head https://r/v2/: unauthorized: authentication required", Unauthorised, "not authorised"),
        ("pull access denied for r/x, repository does not exist", Unauthorised, "not authorised"),
        ("tls: failed to verify certificate: x509: unknown authority", Untrusted, "TLS certificate is not trusted"),
        ("manifest for r/x not found: manifest unknown", NotFound, "it has no such image"),
        ("dial tcp 127.0.0.1:1: connect: connection refused", Unreachable, "it does not answer"),
        ("dial tcp: lookup nowhere: no such host", Unreachable, "it does not answer"),
        ("unexpected EOF", Unreachable, "it does not answer, or broke off"),
        ("filesystem layer verification failed for digest sha256:12", Altered, "not what the digest promises"),
        ("unexpected commit digest sha256:1, expected sha256:2: failed precondition", Altered, "not what the digest"),
        ("PUT https://r/v2/x/blobs/uploads/1?digest=sha256%3A12: 503 Service Unavailable", Unreachable, "broke off"),
        ("write: broken pipe", Unreachable, "broke off"),
        ("toomanyrequests: too many requests", Unreachable, "broke off"),
        ("failed to resolve reference r/x@sha256:5025033: odd", Problem, "pulling registry.example/ns/rlinf-npu"),
        ("something else", Problem, "pulling registry.example/ns/rlinf-npu"),
    ],
)
def test_the_engines_words(words: str, kind: type[Problem], line: str) -> None:
    problem = pull.explain(words, REFERENCE)
    assert type(problem) is kind
    assert line in problem.what
    assert "\n" not in problem.what
    assert problem.fix


def test_bytes_that_moved_and_bytes_that_were_here() -> None:
    transfer = Transfer({HERE: 1000, MOVED: 300, SMALL: 5})
    events = [
        {"status": "Pulling from ns/rlinf-npu", "id": "sha256:aaa"},
        {"status": "Already exists", "id": HERE[7:19]},
        {"status": "Downloading", "id": MOVED[7:19], "progressDetail": {"current": 100, "total": 300}},
        {"status": "Downloading", "id": MOVED[7:19], "progressDetail": {"current": 90, "total": 300}},
        {"status": "Download complete", "id": MOVED[7:19], "progressDetail": {}},
        {"status": "Pull complete", "id": MOVED[7:19]},
        {"status": "Download complete", "id": SMALL[7:19]},
        {"status": "Digest: sha256:..."},
    ]
    assert [transfer.feed(event) for event in events] == [0, 1000, 100, 0, 200, 0, 5, 0]
    assert transfer.rest() == 0
    assert transfer.moved_bytes == 305
    assert len(transfer.moved_layers) == 2


def test_layers_that_the_engine_says_nothing_of_were_here() -> None:
    transfer = Transfer({HERE: 1000, MOVED: 300})
    transfer.feed({"status": "Download complete", "id": MOVED[7:19]})
    assert transfer.rest() == 1000
    assert transfer.moved_bytes == 300


def test_registry_goes_before_the_manifests() -> None:
    manifest = load_manifest()
    assert pull.registries(manifest, "host/ns/") == ["host/ns"]
    mirrored = manifest.model_copy(update={"pull": manifest.pull.model_copy(update={"mirrors": ["m/x"]})})
    assert pull.registries(mirrored, "") == [manifest.publish.registry, "m/x"]


@pytest.mark.parametrize(
    ("signature", "arguments"),
    [
        (Signature(key="cosign.pub"), "--key "),
        (Signature(key="/cosign.pub", transparency_log=False), "--key /cosign.pub --insecure-ignore-tlog=true "),
        (Signature(identity="me", issuer="https://i"), "--certificate-identity me --certificate-oidc-issuer https://i"),
    ],
)
def test_cosign_is_asked_who_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signature: Signature, arguments: str
) -> None:
    script = tmp_path / "cosign"
    script.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n[ -e {tmp_path}/signed ] || {{ echo no match >&2; exit 1; }}\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Problem, match="no valid signature: no match"):
        pull.verify_signature(signature, REFERENCE, lambda _: None)
    (tmp_path / "signed").touch()
    said: list[str] = []
    pull.verify_signature(signature, REFERENCE, said.append)
    assert said == ["  signature verified"]
    asked = (tmp_path / "asked").read_text().splitlines()[-1]
    assert asked.startswith(f"verify {arguments}")
    assert asked.endswith(str(REFERENCE))


def test_without_cosign_it_is_said_that_nobody_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    said: list[str] = []
    pull.verify_signature(Signature(key="k"), REFERENCE, said.append)
    assert "the signature was not verified" in said[0]


@pytest.mark.parametrize("wrong", [{}, {"key": "k", "identity": "i", "issuer": "j"}, {"identity": "i"}])
def test_a_signature_is_by_a_key_or_by_an_identity(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="give a key, or identity and issuer"):
        Signature(**wrong)


def test_a_keyless_signature_needs_the_public_log() -> None:
    with pytest.raises(ValueError, match="worth nothing without the transparency log"):
        Signature(identity="i", issuer="j", transparency_log=False)


def test_layers_have_media_types_that_every_engine_pulls() -> None:
    assert "oci-mediatypes=true" in EXPORT.split(",")  # containerd finds no layers under docker's type with zstd
    layers = [Descriptor("application/vnd.oci.image.layer.v1.tar+zstd", HERE, 1)]
    pull.check_media_types(REFERENCE, manifest_of(layers))
    with pytest.raises(Problem, match=r"diff\.tar\.zstd\) that containerd's image store cannot read"):
        pull.check_media_types(REFERENCE, manifest_of([*layers, Descriptor(pull.DOCKER_ZSTD, MOVED, 1)]))


def manifest_of(layers: list[Descriptor]) -> RegistryManifest:
    document = {"layers": [layer.document() for layer in layers]}
    return RegistryManifest(REFERENCE, Descriptor(MANIFEST, HERE, 2), b"{}", document)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("total", [100, None])
def test_progress_goes_on_while_the_engine_is_silent(monkeypatch: pytest.MonkeyPatch, total: int | None) -> None:
    monkeypatch.setattr(meters, "EVERY", 0.001)
    console = Console(file=io.StringIO())
    with meters.meter(console, "loading", total, then="the engine unpacks") as advance:
        until(console, r"loading: 0(/0)? MB")
        advance(100)
        if total:
            until(console, "the engine unpacks")
    assert re.search(r"  loading: 0\.0 MB in \d", text_of(console).splitlines()[-1])


def until(console: Console, pattern: str) -> None:
    while not re.search(pattern, text_of(console)):
        threading.Event().wait(0.001)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
