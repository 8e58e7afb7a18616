"""What the images stand on: the vendor's CANN image, or the Debian that the simulated one starts from.

An image with the vendor's name that says that it is simulated is a stand-in for it, such as tests make on the vendor's
distribution; it may be here, or come from a registry. It takes that place in the chain, and what is built on it says so
in every tag.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from imagekit.bootstrap import bootstrap_debian
from imagekit.emulation import ensure_emulation
from imagekit.engine.model import Engine
from imagekit.errors import Problem
from imagekit.manifest import BaseChoice, Manifest, Platform
from imagekit.network import NetworkSettings
from imagekit.probe import Probe, Prober, ProbeResult, labels_of, manifest_of, probe_registry
from imagekit.process import Pulse, Say, follow, run


@dataclass(frozen=True)
class ResolvedBase:
    """The base that a build stands on.

    Attributes:
        kind: the vendor's image, or a simulated one.
        os: its name in tags, `ubuntu22.04` or `debian12`.
        name: image reference, for the label org.opencontainers.image.base.name.
        digest: `sha256:...` of what was found, for base.digest.
        contexts: named build contexts for bake: `cann` for an image with the vendor's name, `debian` for the start of
            the simulated base.
    """

    kind: Literal["cann", "sim"]
    os: str
    name: str
    digest: str
    contexts: dict[str, str]


@dataclass(frozen=True)
class LocalImage:
    """An image that the engine has: `sha256:...`, and its labels."""

    digest: str
    labels: Mapping[str, str]


class LocalImages:
    """What the engine has for a platform; each image is inspected once, however often it is asked for."""

    def __init__(self, engine: Engine, platform: Platform) -> None:
        """Begin with nothing known."""
        self.engine, self.platform = engine, platform
        self._known: dict[str, LocalImage | None] = {}

    def find(self, reference: str) -> LocalImage | None:
        """Return what `local_image` says."""
        if reference not in self._known:
            self._known[reference] = local_image(self.engine, reference, self.platform)
        return self._known[reference]

    def digest(self, reference: str) -> str | None:
        """Return the digest of an image that is here, else None."""
        found = self.find(reference)
        return found.digest if found else None


def base_probes(
    manifest: Manifest, local: LocalImages, kind: str, network: NetworkSettings, *, dated: bool = False
) -> list[Probe]:
    """Return what `resolve_base` would have to ask registries: nothing for an image that is here."""
    wanted: list[str] = []
    if kind != "sim":
        references = cann_references(manifest, network)
        if any(local.digest(reference) for reference in references):
            return []
        wanted += references
    if kind != "cann" and not dated and not _local_debian(manifest, local):
        wanted.append(manifest.base.sim.image)
    return [probe_registry(local.engine, reference) for reference in wanted]


def check_base(wanted: str) -> None:
    """Look at BASE before anything is looked for.

    Raises:
        Problem: no such base.
    """
    if wanted not in get_args(BaseChoice):
        raise Problem(f"BASE={wanted!r} is not a base", f"use {', '.join(get_args(BaseChoice))}", usage=True)


def resolve_base(
    manifest: Manifest,
    local: LocalImages,
    kind: str,
    network: NetworkSettings,
    say: Say,
    prober: Prober,
    *,
    dated: bool = False,
) -> ResolvedBase:
    """Find the base: `cann` insists on the vendor's image, `sim` never asks for it, `auto` prefers it.

    `dated`: the simulated base starts from the Debian of images.toml's apt.date, whatever a registry offers.

    Raises:
        Problem: not to be had; for a foreign platform also: no emulation.
    """
    check_base(kind)
    ensure_emulation(local.platform, say, engine=local.engine, mirror=network.apt)
    if kind != "sim":
        found, reasons = _find_cann(manifest, local, network, say, prober)
        if found:
            return found
        if kind == "cann":
            raise Problem(
                f"the CANN image is neither here nor in reach ({reasons})",
                "check network and registry login, try MIRROR=cn or BASE=sim, or `docker load` it",
            )
        say(f"The CANN image is neither here nor in reach ({reasons}).")
        say("Building on the SIMULATED base instead: tags end in -sim. BASE=cann insists on the vendor's image.")
    if dated:
        return _dated_debian(manifest, local, network, say)
    return _find_debian(manifest, local, network, say, prober)


def cann_references(manifest: Manifest, network: NetworkSettings) -> list[str]:
    """Return the vendor image's names, the mirror's repositories first."""
    cann = manifest.base.cann
    tag = manifest.fill(cann.tag).replace("{os}", cann.os)
    return [f"{repository}:{tag}" for repository in dict.fromkeys((*network.repositories, *cann.repositories))]


def local_image(engine: Engine, reference: str, platform: Platform) -> LocalImage | None:
    """Return an image that is here *for this platform*, else None.

    Asked explicitly because a build takes a local image of the wrong platform without a word.
    """
    shown = run((*engine.docker, "image", "inspect", "--format", "{{json .}}", reference), seconds=30, env=engine.env)
    if not shown.ok:
        return None
    image: dict[str, Any] = json.loads(shown.out)
    if image.get("Architecture") != platform.arch and not _can_create(engine, reference, platform):
        return None
    repo_digests = image.get("RepoDigests") or []
    digest = str(repo_digests[0]).partition("@")[2] if repo_digests else str(image["Id"])
    return LocalImage(digest, (image.get("Config") or {}).get("Labels") or {})


def _can_create(engine: Engine, reference: str, platform: Platform) -> bool:
    """`inspect` shows one platform of several; that a container can be created shows that this one is here too."""
    create = ("create", "--pull", "never", "--platform", platform.name, reference, "true")
    created = run((*engine.docker, *create), seconds=120, env=engine.env)
    if created.ok:
        run((*engine.docker, "rm", created.out.split()[-1]), seconds=60, env=engine.env)
    return created.ok


def _find_cann(
    manifest: Manifest, local: LocalImages, network: NetworkSettings, say: Say, prober: Prober
) -> tuple[ResolvedBase | None, str]:
    references = cann_references(manifest, network)
    for reference in references:
        if here := local.find(reference):
            say(f"CANN image: {reference}, already here")
            return _honest(manifest, _cann(manifest, reference, here.digest, local=True), here.labels, say), ""
    results = _ask(prober, local.engine, references, say)
    for reference, result in zip(references, results, strict=True):
        if result.ok and (digest := _offered_digest(result, local.platform)):
            found = _cann(manifest, reference, digest, local=False)
            return _honest(manifest, found, labels_of(result, local.platform.name), say), ""
    return None, _reasons(results, local.platform)


def _cann(manifest: Manifest, reference: str, digest: str, *, local: bool) -> ResolvedBase:
    context = {"cann": _context(reference, digest, local=local)}
    return ResolvedBase("cann", manifest.base.cann.os, reference, digest, context)


def _honest(manifest: Manifest, found: ResolvedBase, labels: Mapping[str, str], say: Say) -> ResolvedBase:
    """The name alone makes no vendor's image: what says of itself that it is simulated is taken at its word."""
    if labels.get(f"{manifest.project.label_prefix}.simulated") != "true":
        return found
    say(f"{found.name} says of itself that it is SIMULATED, a stand-in for the vendor's: tags end in -sim.")
    return replace(found, kind="sim")


def _debian_names(manifest: Manifest, platform: Platform) -> tuple[str, str]:
    """Docker's official image, and the bootstrapped one.

    That has a name of its own for each platform, and for each apt.date: its files carry that day.
    """
    official = manifest.base.sim.image
    return official, f"rlinf-npu/{official}-{platform.arch}-{manifest.apt.date.lower()}"


def _local_debian(manifest: Manifest, local: LocalImages) -> ResolvedBase | None:
    for reference in _debian_names(manifest, local.platform):
        if digest := local.digest(reference):
            return _debian(manifest, reference, digest)
    return None


def _find_debian(
    manifest: Manifest, local: LocalImages, network: NetworkSettings, say: Say, prober: Prober
) -> ResolvedBase:
    engine, platform = local.engine, local.platform
    official, bootstrapped = _debian_names(manifest, platform)
    if found := _local_debian(manifest, local):
        return found
    (result,) = _ask(prober, engine, [official], say)
    if result.ok and (digest := _offered_digest(result, platform)):
        pulled = _pull(engine, official, platform, say)
        return _debian(manifest, official, digest, local=pulled)
    say(f"{official} is neither here nor in reach: bootstrapping it from Debian's archive.")
    return _bootstrapped(manifest, local, network, bootstrapped, say)


def _dated_debian(manifest: Manifest, local: LocalImages, network: NetworkSettings, say: Say) -> ResolvedBase:
    """Debian as it was at apt.date, under a name of its own."""
    name = f"{_debian_names(manifest, local.platform)[1]}-snapshot"
    if digest := local.digest(name):
        return _debian(manifest, name, digest)
    say(f"Bootstrapping Debian as it was at {manifest.apt.date}.")
    return _bootstrapped(manifest, local, network, name, say, manifest.apt.server(manifest.base.sim.archive))


def _bootstrapped(
    manifest: Manifest, local: LocalImages, network: NetworkSettings, name: str, say: Say, archive: str = ""
) -> ResolvedBase:
    bootstrap_debian(manifest, local.engine, local.platform, network, name, say, archive)
    loaded = local_image(local.engine, name, local.platform)
    if not loaded:
        raise Problem(f"{name} was loaded but cannot be found", "see `docker images`")
    return _debian(manifest, name, loaded.digest)


def _debian(manifest: Manifest, reference: str, digest: str, *, local: bool = True) -> ResolvedBase:
    context = {"debian": _context(reference, digest, local=local)}
    return ResolvedBase("sim", manifest.base.sim.os, reference, digest, context)


def _context(reference: str, digest: str, *, local: bool) -> str:
    """A build finds a local image by its tag only (a digest sends it to the registry), a remote one best by digest."""
    return f"docker-image://{reference}" if local else f"docker-image://{reference}@{digest}"


def _pull(engine: Engine, reference: str, platform: Platform, say: Say) -> bool:
    """Keep it for times without a network. The old store holds one platform per tag: there the build fetches it."""
    if not engine.containerd_store and platform.machine != engine.arch:
        return False
    say(f"Pulling {reference} for {platform.name}")
    pull = (*engine.docker, "pull", "--platform", platform.name, reference)
    done = follow(pull, Pulse(say, "pull"), env=engine.env)
    if not done.ok:
        raise Problem(f"docker pull {reference}: {done.last_line}", "try again")
    return True


def _ask(prober: Prober, engine: Engine, references: list[str], say: Say) -> list[ProbeResult]:
    results = prober.ask([probe_registry(engine, reference) for reference in references])
    for result in results:
        say(result.line)
    return results


def _offered_digest(result: ProbeResult, platform: Platform) -> str | None:
    """The digest, unless it is an index without this platform."""
    found = manifest_of(result)
    offered = {entry.get("platform", {}).get("architecture") for entry in found.get("manifests") or []}
    if offered and platform.arch not in offered:
        return None
    return found.get("digest")


def _reasons(results: Iterable[ProbeResult], platform: Platform) -> str:
    """The different reasons, each once."""
    reasons = (f"not for {platform.name}" if result.ok else result.reason for result in results)
    return ", ".join(dict.fromkeys(reasons))
