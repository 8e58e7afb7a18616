"""Send candidates: what `make image` built, under a tag that no user takes for a release."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import ImageNotFound
from rich.console import Console

from imagekit.compose.record import REAL, find_either
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest
from imagekit.publish import attachments, place, provenance, transfer
from imagekit.publish.identity import Identity, from_inspect, identify, refuse_unfixed
from imagekit.registry import Altered, File, Reference, RegistryClient
from imagekit.tags import SIM

BUILD = ROOT / "build"


@dataclass(frozen=True)
class Pushed:
    """One candidate. `reference` is what gate and promote take."""

    image: str
    reference: str
    tag: str
    digest: str
    size: int
    simulated: bool


def local_image(manifest: Manifest, name: str, arch: str, base: str, folder: Path = BUILD) -> str:
    """Return the tag of what `make image` built last; BASE chooses where both bases were built.

    Raises:
        Problem: nothing was built.
    """
    manifest.get_image(name)
    suffixes = {"sim": (SIM,), "cann": (REAL,)}.get(base, (REAL, SIM))
    if found := find_either(folder, name, arch, suffixes):
        return found.reference
    raise Problem(f"{name} has not been built for {arch}", "make image")


def push(
    manifest: Manifest,
    engine: Engine,
    local: str,
    console: Console,
    environ: Mapping[str, str] = os.environ,
    **client_options: Any,
) -> Pushed:
    """Push one local image as a candidate, check what has arrived, attach how it was made.

    Args:
        manifest: images.toml.
        engine: that has the image.
        local: tag in the engine.
        console: for progress.
        environ: REGISTRY, logins, CI's address.
        client_options: of RegistryClient.

    Raises:
        Problem: not an image of ours, unfixed, or one of the registry's errors.
    """
    docker = engine.client(seconds=None)
    here = _inspect(docker, local)
    identity = identify(manifest, here)
    refuse_unfixed(identity)
    target = place.repository(manifest, identity.name, environ).tagged(identity.candidate)
    client = RegistryClient.of(target, environ=environ, **client_options)
    digest = transfer.push(docker, local, target, client.transport.credentials, console)
    arrived = client.for_platform(target, identity.flavour.platform.name)
    if digest and client.resolve(target).digest != digest:
        raise Altered(f"{target} is no longer what was pushed", "somebody else pushes the same candidate: again")
    there = client.config(arrived)
    if there["rootfs"]["diff_ids"] != here["rootfs"]["diff_ids"]:
        raise Altered(f"{target} is not the image that was pushed", "somebody else pushes the same candidate: again")
    image = target.at(arrived.descriptor.digest)
    _attach_provenance(client, manifest, identify(manifest, there), image, environ)
    return Pushed(identity.name, str(image), str(target), image.digest, arrived.size, identity.simulated)


def remember(pushed: list[Pushed], arch: str, folder: Path = BUILD) -> Path:
    """Write build/pushed-ARCH.json, which the next step of a pipeline reads."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"pushed-{arch}.json"
    path.write_text(json.dumps([asdict(entry) for entry in pushed], indent=1) + "\n", encoding="utf-8")
    return path


def _attach_provenance(
    client: RegistryClient, manifest: Manifest, identity: Identity, image: Reference, environ: Mapping[str, str]
) -> None:
    if client.referrers(image, attachments.IN_TOTO):  # by the same digest it came to be in the same way
        return
    raw = provenance.statement(manifest, identity, image, builder(environ))
    notes = {attachments.CREATED: datetime.now(UTC).isoformat(timespec="seconds")}
    file = File("provenance.json", attachments.IN_TOTO, raw)
    attachments.attach(client, client.manifest(image), attachments.IN_TOTO, [file], notes)


def builder(environ: Mapping[str, str]) -> str:
    """Return who builds: the CI job's address, or `local`."""
    if run := environ.get("GITHUB_RUN_ID"):
        return f"{environ.get('GITHUB_SERVER_URL')}/{environ.get('GITHUB_REPOSITORY')}/actions/runs/{run}"
    return environ.get("CI_JOB_URL") or "local"


def _inspect(docker: DockerClient, local: str) -> dict[str, Any]:
    try:
        return from_inspect(docker.images.get(local).attrs)
    except ImageNotFound:
        raise Problem(f"{local} is not on this machine", "make image") from None
