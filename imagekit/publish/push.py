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

from imagekit import installers, lookup
from imagekit.base import check_base
from imagekit.compose.record import REAL, find_built, find_newest, written
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest
from imagekit.publish import attachments, place, provenance, transfer
from imagekit.publish.identity import DIRTY, OCI, Identity, from_inspect, identify, refuse_unfixed
from imagekit.registry import Altered, File, Reference, RegistryClient
from imagekit.tags import SIM, UPSTREAM

BUILD = ROOT / "build"
SUFFIXES = {"auto": (REAL, SIM), "cann": (REAL, SIM), "sim": (SIM,)}  # of records; a stand-in's say -sim for BASE=cann


@dataclass(frozen=True)
class Pushed:
    """One candidate. `reference` is what gate and promote take."""

    image: str
    reference: str
    tag: str
    digest: str
    size: int
    simulated: bool


def local_image(
    manifest: Manifest, name: str, arch: str, base: str = "", installer: str = "", folder: Path = BUILD
) -> str:
    """Return the tag of what `make image` built last with these settings; BASE=auto takes the newer of both bases.

    Args:
        manifest: images.toml; says what an empty setting means, as it does for a build.
        name: of the image.
        arch: its architecture.
        base: auto | cann | sim.
        installer: lock | upstream.
        folder: where the build records are.

    Raises:
        Problem: no such setting, or nothing was built with them.
    """
    manifest.get_image(name)
    base, by = base or manifest.defaults.base, installer or manifest.defaults.installer
    check_base(base)
    kind = UPSTREAM if installers.check_wanted(by, "git", "auto") == "upstream" else ""
    suffixes = [kind + suffix for suffix in SUFFIXES[base]]
    if found := find_newest(folder, name, arch, suffixes, lambda built: built.stands_on(base, manifest)):
        return found.reference
    settings = f"BASE={base} INSTALLER={by}"
    raise Problem(f"{name} has not been built for {arch} with {settings}", f"make image {settings}")


def just_built(name: str, arch: str, before: Mapping[str, int], folder: Path = BUILD) -> str:
    """Return the tag of what a build has made, by the one record that it has written.

    Args:
        name: of the image.
        arch: its architecture.
        before: `written` before that build.
        folder: where the build records are.

    Raises:
        Problem: it wrote none, another build wrote one as well, or the image is not in it.
    """
    fresh = [suffix for suffix, when in written(folder, arch).items() if before.get(suffix) != when]
    if len(fresh) != 1:
        which = ", ".join(f"built-{arch}{suffix}.json" for suffix in fresh) or "none"
        raise Problem(f"which build record for {arch} is this build's? New: {which}", "let no other build run beside")
    if found := find_built(folder, name, arch, fresh[0]):
        return found.reference
    raise Problem(f"the build for {arch} made no {name}", "name an image of this base")


def refuse_stale(engine: Engine, local: str) -> None:
    """What is pushed has to be of this checkout: a record may be of last week.

    A clean image stays its commit's when files are edited afterwards (each promotion edits images.lock). One of edited
    files is taken for this checkout's if that has edited files too: its tag says -dirty, and no real one is promoted.

    Raises:
        Problem: it was built from another revision.
    """
    labels = _inspect(engine.client(seconds=None), local)["config"].get("Labels") or {}
    made, here = labels.get(f"{OCI}.revision", "unknown"), lookup.our_revision()
    if made not in (here, here.removesuffix(DIRTY)):
        raise Problem(
            f"{local} was built from revision {made}, this checkout is at {here}", "make image, with the same settings"
        )


def identify_local(manifest: Manifest, engine: Engine, local: str) -> Identity:
    """Return what an image in the engine says it is.

    Raises:
        Problem: not there, or not an image of ours.
    """
    return identify(manifest, _inspect(engine.client(seconds=None), local))


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
