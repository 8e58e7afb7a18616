"""Images between the engine and a registry: by the SDK, with progress, and again when the network gives way."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from docker import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from requests.exceptions import RequestException
from rich.console import Console

from imagekit.carry.meter import Advance, meter
from imagekit.errors import Problem
from imagekit.registry import (
    Altered,
    Credentials,
    Descriptor,
    Manifest,
    Reference,
    Refused,
    RegistryClient,
    Unauthorised,
    Unreachable,
    Untrusted,
    engine_login,
)
from imagekit.registry import NotFound as NoSuchImage
from imagekit.registry.words import find_kind, shorten

PAUSES = (1.0, 4.0)  # seconds between attempts; layers that have arrived are not sent again
FIXES: dict[type[Problem], str] = {
    Unauthorised: "docker login {host}",
    Untrusted: "docs/pull.md: certificates",
    Altered: "the registry's copy is damaged: push the image again",
    NoSuchImage: "check name and digest",
    Unreachable: "is it up? The next run sends only what is missing",
}


def push(docker: DockerClient, local: str, target: Reference, login: Credentials | None, console: Console) -> str:
    """Push a local image to `target`; return the digest that the engine reports.

    The tag in the engine lives only as long as the push.

    Raises:
        Unreachable, Unauthorised, Refused: after a few attempts.
    """
    place = f"{target.host}/{target.repository}"
    docker.images.get(local).tag(place, target.tag)
    try:
        return _again(lambda: _push_once(docker, place, target, login, console), target)
    finally:
        _untag(docker, f"{place}:{target.tag}")


def pull(docker: DockerClient, source: Reference, login: Credentials | None, console: Console) -> Callable[[], None]:
    """Pull a digest; return what removes the name under which it came (nothing, when it was there before).

    Raises:
        Altered, NotFound, Unreachable, Unauthorised, Refused: after a few attempts.
    """
    name = f"{source.host}/{source.repository}@{source.digest}"
    try:
        docker.images.get(name)
    except ImageNotFound:
        _again(lambda: _pull_once(docker, source, login, console), source)
        return lambda: _untag(docker, name)
    return lambda: None


def verify_blobs(client: RegistryClient, manifest: Manifest, console: Console) -> None:
    """Read every blob of an image from the registry and check it: the engine only reads those that it does not have.

    Raises:
        Altered: one is not what the manifest says. NotFound: one is missing.
    """
    blobs: list[Descriptor] = [manifest.config, *manifest.layers]
    with meter(console, f"reading {manifest.reference.name} back", sum(blob.size for blob in blobs)) as advance:
        for blob in blobs:
            for piece in client.stream(manifest.reference, blob):
                advance(len(piece))


def _push_once(docker: DockerClient, place: str, target: Reference, login: Credentials | None, console: Console) -> str:
    events = docker.api.push(place, target.tag, stream=True, decode=True, auth_config=engine_login(login))
    digest = ""
    with meter(console, f"pushing {target.name}") as advance:
        for event in _watched(events, target, "Pushing", advance):
            digest = (event.get("aux") or {}).get("Digest", digest)
    return digest


def _pull_once(docker: DockerClient, source: Reference, login: Credentials | None, console: Console) -> str:
    place = f"{source.host}/{source.repository}"
    events = docker.api.pull(place, tag=source.digest, stream=True, decode=True, auth_config=engine_login(login))
    with meter(console, f"pulling {source.name}") as advance:
        for _ in _watched(events, source, "Downloading", advance):
            pass
    return source.digest


def _watched(
    events: Iterable[dict[str, Any]], reference: Reference, status: str, advance: Advance
) -> Iterator[dict[str, Any]]:
    """Pass the engine's events on, telling how many bytes have moved; an error among them is raised."""
    seen: dict[str, int] = {}
    for event in events:
        if error := event.get("error"):
            raise classify(str(error), reference)
        current = (event.get("progressDetail") or {}).get("current")
        if event.get("status") == status and current:
            layer = str(event.get("id"))
            advance(max(0, int(current) - seen.get(layer, 0)))
            seen[layer] = max(int(current), seen.get(layer, 0))
        yield event


def classify(text: str, reference: Reference) -> Unreachable | Unauthorised | Altered | NoSuchImage | Refused:
    """Turn the engine's words into a kind of error."""
    if found := find_kind(text):
        kind, what = found
        return kind(f"{reference}: {what}: {shorten(text)}", FIXES[kind].format(host=reference.host))
    return Refused(f"{reference}: {shorten(text)}", "see the engine's and the registry's log")


def _again(attempt: Callable[[], str], reference: Reference) -> str:
    for pause in (*PAUSES, None):
        try:
            return attempt()
        except (RequestException, DockerException) as error:
            problem = classify(str(getattr(error, "explanation", "") or error), reference)
        except (Unreachable, Unauthorised, Altered, NoSuchImage, Refused) as error:
            problem = error
        if pause is None or not isinstance(problem, Unreachable):
            raise problem
        time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _untag(docker: DockerClient, name: str) -> None:
    try:
        docker.images.remove(name)
    except (ImageNotFound, NotFound, APIError):  # somebody else uses it, or was quicker: only a name is left
        return
