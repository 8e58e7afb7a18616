"""Pull a release by its digest, from whichever registry has it; it gets its name here last."""

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from docker.errors import DockerException, ImageNotFound
from docker.models.images import Image
from requests.exceptions import RequestException
from rich.console import Console

from imagekit.carry.lockfile import labels_of, platform_of
from imagekit.carry.meter import MB, meter
from imagekit.carry.pick import Wanted
from imagekit.carry.rules import check_carriable
from imagekit.carry.transfer import Transfer
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest, Signature
from imagekit.process import Say
from imagekit.publish.signing import run_cosign
from imagekit.registry import (
    Altered,
    NotFound,
    Reference,
    RegistryClient,
    Unauthorised,
    Unreachable,
    Untrusted,
    engine_login,
    parse,
)
from imagekit.registry import Manifest as RegistryManifest
from imagekit.registry.words import find_kind, shorten

COSIGN_SECONDS = 120.0

DOCKER_ZSTD = "application/vnd.docker.image.rootfs.diff.tar.zstd"  # in no specification; BuildKit writes it

# What to do; another registry may help with each of them.
FIXES: dict[type[Problem], str] = {
    Unauthorised: "docker login {host}",
    Untrusted: "docs/pull.md: certificates",
    Altered: "tell whoever runs it; another REGISTRY= may do",
    NotFound: "see REGISTRY=",
    Unreachable: "again: what is complete is kept",
}


@dataclass(frozen=True)
class Pulled:
    """What came: the engine's image, where from, bytes and layers that had to be moved, and the time it took."""

    image: Image
    reference: Reference
    manifest: RegistryManifest
    moved: int
    moved_layers: int
    seconds: float


@dataclass(frozen=True)
class Checked:
    """A release as a registry has it, checked before its layers are asked for."""

    client: RegistryClient
    reference: Reference
    manifest: RegistryManifest


def registries(manifest: Manifest, given: str) -> list[str]:
    """Return host/namespace of each registry to ask, in order; REGISTRY alone when it is given."""
    return [given.rstrip("/")] if given else [manifest.publish.registry, *manifest.pull.mirrors]


def pull_release(
    engine: Engine, manifest: Manifest, wanted: Wanted, places: Sequence[str], platform: str, console: Console, say: Say
) -> Pulled:
    """Pull `wanted` from the first registry that has it. Nothing gets a local name here.

    Raises:
        Problem: no registry has it, with each one's reason said before; or nothing can help, such as a full disk.
    """
    failures: list[Problem] = []
    for place in places:
        reference = parse(f"{place}/{wanted.image}:{wanted.tag}")
        say(f"pulling {reference} for {platform}")
        try:
            checked = check_release(manifest, wanted, reference, platform, say)
            return _pull(engine, checked, console)
        except (Unreachable, Unauthorised, NotFound, Altered) as problem:
            failures.append(problem)
            if places[1:]:
                say(f"  not from there: {problem.what}")
    if len(failures) == 1:
        raise failures[0]
    raise Problem(f"none of {len(failures)} registries gave {wanted.image}:{wanted.tag}", "reasons are above")


def check_release(manifest: Manifest, wanted: Wanted, reference: Reference, platform: str, say: Say) -> Checked:
    """Look at a release in a registry: digest, platform, labels, signature. A few kilobytes are moved.

    Raises:
        Problem: it is not what was promised, or not there.
    """
    client = RegistryClient.of(reference)
    found = client.for_platform(reference.at(wanted.manifest or wanted.digest), platform)
    config = client.config(found)
    if platform_of(config) != platform:
        raise Problem(f"{reference} is for {platform_of(config)}, this host is {platform}", "take another TAG=")
    check_carriable(str(reference), [wanted.tag], labels_of(client, found), manifest.project.label_prefix)
    _note_moved_tag(client, reference, wanted, say)
    exact = reference.at(found.descriptor.digest)
    if manifest.pull.signature:
        verify_signature(manifest.pull.signature, reference.at(wanted.digest), say)
    return Checked(client, exact, found)


def _note_moved_tag(client: RegistryClient, reference: Reference, wanted: Wanted, say: Say) -> None:
    try:
        now = client.resolve(reference).digest
    except (NotFound, Altered):
        now = "nothing"
    if now not in (wanted.digest, wanted.manifest):
        say(f"  note: tag {reference.tag} stands for {now[:19]} there now; the recorded {wanted.digest[:19]} is pulled")


def verify_signature(signature: Signature, reference: Reference, say: Say) -> None:
    """Let cosign verify who signed; without cosign on this machine, say that nobody did.

    Raises:
        Problem: no valid signature.
    """
    if not shutil.which("cosign"):
        say("  note: cosign is not installed, the signature was not verified (the digest is, in any case)")
        return
    if signature.key:
        who = ["--key", str(ROOT / signature.key)]
    else:
        who = ["--certificate-identity", signature.identity, "--certificate-oidc-issuer", signature.issuer]
    if not signature.transparency_log:
        who.append("--insecure-ignore-tlog=true")  # the signature itself is verified all the same
    done = run_cosign(["cosign", "verify", *who, str(reference)], reference, COSIGN_SECONDS)
    if not done.ok:
        raise Problem(f"{reference}: no valid signature: {done.last_line[:200]}", "do not use it; tell the publisher")
    say("  signature verified")


def _pull(engine: Engine, checked: Checked, console: Console) -> Pulled:
    reference, begun = checked.reference, time.monotonic()
    if engine.containerd_store:
        check_media_types(reference, checked.manifest)
    transfer = Transfer({layer.digest: layer.size for layer in checked.manifest.layers})
    try:
        with meter(console, "pulling", checked.manifest.size, "the engine unpacks", closing=False) as advance:
            for event in _events(engine, checked):
                if "error" in event:
                    raise explain(str(event["error"]), reference)
                advance(transfer.feed(event))
            advance(transfer.rest())
    except DockerException as error:
        raise explain(str(getattr(error, "explanation", None) or error), reference) from None
    except RequestException as error:
        raise Problem(f"the Docker engine went away: {error}", "see its log; what is complete is kept") from None
    image, seconds = _arrived(engine, checked), time.monotonic() - begun
    return Pulled(image, reference, checked.manifest, transfer.moved_bytes, len(transfer.moved_layers), seconds)


def _events(engine: Engine, checked: Checked) -> Iterable[dict[str, Any]]:
    reference = checked.reference
    name = f"{reference.host}/{reference.repository}"
    client = engine.client(seconds=None)
    # the login that our own requests used; the engine has none of its own
    login = engine_login(checked.client.transport.credentials)
    events: Iterable[dict[str, Any]] = client.api.pull(
        name, tag=reference.digest, stream=True, decode=True, auth_config=login
    )
    return events


def check_media_types(reference: Reference, manifest: RegistryManifest) -> None:
    """containerd takes no file for a layer that has Docker's own media type and is zstd, and then misses it.

    Raises:
        Problem: there is such a layer.
    """
    if any(layer.media_type == DOCKER_ZSTD for layer in manifest.layers):
        raise Problem(
            f"{reference}: its layers have a media type ({DOCKER_ZSTD}) that containerd's image store cannot read",
            "build it again with this version and publish that",
        )


def _arrived(engine: Engine, checked: Checked) -> Image:
    """The engine's image must be the manifest or the configuration that was promised."""
    reference = checked.reference
    try:
        image = engine.client().images.get(str(reference))
    except ImageNotFound:
        raise Problem(f"the engine pulled {reference} but does not have it", "see the engine's log") from None
    if image.id not in (reference.digest, checked.manifest.config.digest):
        raise Altered(f"{reference}: the engine has {image.id} in its place", "see the engine's log")
    return image


def explain(text: str, reference: Reference) -> Problem:
    """Return what the engine's words mean."""
    where, short = f"{reference.host}/{reference.name}", shorten(text)
    if "no space left" in text:
        return Problem(
            f"{where}: the disk of the Docker engine filled up: {short}", "free some; what is complete is kept"
        )
    if found := find_kind(text):
        kind, what = found
        return kind(f"{where}: {what}: {short}", FIXES[kind].format(host=reference.host))
    return Problem(f"pulling {reference} failed: {short}", "see the engine's log")


def moved_line(pulled: Pulled) -> str:
    """Say how much of the image had to be moved."""
    layers = len({layer.digest for layer in pulled.manifest.layers})
    here = "" if pulled.moved_layers == layers else "; the others were here"
    return (
        f"moved {pulled.moved / MB:,.1f} of {pulled.manifest.size / MB:,.1f} MB"
        f" ({pulled.moved_layers} of {layers} layers{here}) in {pulled.seconds:.1f} s"
    )
