"""Which images are under test, and which tests each of them has to pass."""

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from docker import DockerClient
from docker.errors import ImageNotFound

from imagekit import installers, lookup
from imagekit.compose.record import REAL, BuiltImage
from imagekit.engine import Engine, find_engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest, load_manifest
from imagekit.publish.identity import from_inspect, identify, os_of, releases
from imagekit.tags import SIM, UNFIXED, UPSTREAM
from tests.images.support.container import Container

TESTS = Path(__file__).resolve().parent.parent


class Missing(Exception):
    """No engine, or an image is not built: a failure in `make test`, a skip where the suite is only being looked at."""


@functools.cache
def manifest() -> Manifest:
    """images.toml."""
    return load_manifest()


@functools.cache
def engine() -> Engine:
    """The engine that answers.

    Raises:
        Missing: none does.
    """
    found = find_engine()
    if found is None:
        raise Missing("no Docker engine answers: make engine")
    return found


@functools.cache
def client() -> DockerClient:
    """The SDK, connected to that engine."""
    return engine().client()


@dataclass(frozen=True)
class Subject:
    """One image under test.

    Attributes:
        name: of images.toml.
        id: what containers are started from: an image id, so that a tag that moves meanwhile changes nothing.
        tags: as the build record says; those it would be published under for a digest given by IMAGE, else empty.
        digest: as the build record says, or as IMAGE does.
        size: unpacked bytes, as the build record says, or as the engine does for a digest given by IMAGE; else 0.
        built: on this machine, so that its tags are here.
    """

    name: str
    id: str
    tags: tuple[str, ...] = ()
    digest: str = ""
    size: int = 0
    built: bool = False

    @functools.cached_property
    def attrs(self) -> dict[str, Any]:
        """What `docker image inspect` says."""
        return client().images.get(self.id).attrs

    @property
    def config(self) -> dict[str, Any]:
        """The image's configuration: Env, Entrypoint, Labels, ..."""
        config: dict[str, Any] = self.attrs["Config"]
        return config

    @property
    def env(self) -> dict[str, str]:
        """The image's ENV."""
        return dict(entry.split("=", 1) for entry in self.config["Env"])

    @property
    def labels(self) -> dict[str, str]:
        """The image's labels."""
        return self.config.get("Labels") or {}

    def label(self, name: str) -> str:
        """One of our own labels; empty when the image does not have it."""
        return self.labels.get(f"{manifest().project.label_prefix}.{name}", "")

    @property
    def simulated(self) -> bool:
        """True on the simulated base."""
        return self.label("simulated") == "true"

    @property
    def all_ours(self) -> bool:
        """True on our simulated base. A base with the vendor's name, a stand-in's too, is not ours to judge."""
        return os_of(manifest(), self.labels, self.simulated) == manifest().base.sim.os

    @property
    def upstream(self) -> bool:
        """True when RLinf's own installer filled the environment, not our lock."""
        return self.label("installer") == "upstream"

    def is_asset(self, path: str) -> bool:
        """Whether RLinf's installer has put that where ManiSkill and openpi download more, whoever runs them."""
        return self.upstream and PurePath(path).is_relative_to(manifest().upstream.assets)

    @property
    def promised(self) -> Manifest:
        """images.toml with the versions and exclusions that this image's installer leads to."""
        return installers.as_installed(manifest(), self.label("installer"))

    def run(self, command: list[str] | None = None, **options: Any) -> Container:
        """Start a container; see `Container.start`. Without a command: one that waits to be asked."""
        return Container.start(engine(), client(), self.id, command or ["sleep", "infinity"], **options)


def record(fixes: bool = True) -> dict[str, Any] | None:
    """What `make image` wrote about its newest build for the platform under test; None when there was none.

    BASE and INSTALLER choose as they do for the build: what stands on a stand-in is what BASE=cann built.
    """
    arch = lookup.pick_platform(manifest(), os.environ.get("PLATFORM", ""))[0].arch
    kind = (UPSTREAM if os.environ.get("INSTALLER") == "upstream" else "") + ("" if fixes else UNFIXED)
    files = [ROOT / "build" / f"built-{arch}{kind}{suffix}.json" for suffix in (REAL, SIM)]
    newest_first = sorted(filter(Path.is_file, files), key=lambda file: file.stat().st_mtime, reverse=True)
    records = (json.loads(file.read_text(encoding="utf-8")) for file in newest_first)
    return next(filter(_of_base, records), None)


def _of_base(record: dict[str, Any]) -> bool:
    entry = next(iter(record["images"].values()))
    built = BuiltImage(entry["tags"][-1], entry["digest"], record["base"] == "sim")
    return built.stands_on(os.environ.get("BASE") or "auto", manifest())


def given() -> dict[str, str]:
    """Images named by IMAGE=[NAME=]REFERENCE[,...], as a gate does. Without a name, the title says which it is."""
    found: dict[str, str] = {}
    for part in filter(None, os.environ.get("IMAGE", "").split(",")):
        name, _, reference = part.rpartition("=")
        found[name or _name_of(reference)] = reference
    return found


def _name_of(reference: str) -> str:
    try:
        title = (client().images.get(reference).labels or {}).get("org.opencontainers.image.title")
    except ImageNotFound:
        raise Missing(f"{reference} is not on this machine") from None
    for image in manifest().image:
        if image.title == title:
            return image.name
    raise Problem(f"{reference}: its title is {title!r}, no image of ours", "IMAGE=NAME=REFERENCE says which it is")


@functools.cache
def base() -> str:
    """The kind of base under test, `sim` or `cann`."""
    built = record()
    if not given() and built:
        return str(built["base"])
    return os.environ.get("BASE") if os.environ.get("BASE") in ("sim", "cann") else "sim"  # type: ignore[return-value]


def names() -> list[str]:
    """Images under test, parent first."""
    chain = manifest().chain(manifest().image[-1].name, base())  # type: ignore[arg-type]
    built = (record() or {}).get("images", {})
    # A base of ours is missing where a stand-in has the vendor's name; anything else that is missing is reported.
    on_stand_in = built and not any(image.only_base and image.name in built for image in chain)
    return list(given()) or [image.name for image in chain if not (on_stand_in and image.only_base)]


def inheritors(owner: str) -> list[str]:
    """Images under test that must pass the tests of `owner`: itself and everything that stands on it."""
    known = manifest().chain
    return [name for name in names() if owner in [image.name for image in known(name, base())]]  # type: ignore[arg-type]


@functools.cache
def subject(name: str, fixes: bool = True) -> Subject:
    """The image called `name`.

    Raises:
        Missing: not built.
    """
    if fixes and (reference := given().get(name)):
        return from_reference(name, reference)
    built = record(fixes)
    how = "make image" if fixes else "make image NO_FIXES=1"
    if built is None or name not in built["images"]:
        raise Missing(f"{name} has not been built: {how}")
    entry = built["images"][name]
    # By digest: a tag may have moved since, and what the record describes is what is to be tested.
    reference = entry["digest"] if engine().containerd_store else entry["tags"][0]
    return Subject(name, _id_of(reference), tuple(entry["tags"]), entry["digest"], entry["size"], built=True)


def from_reference(name: str, reference: str) -> Subject:
    """An image that was named, not built by the last `make image`.

    By digest, as a gate names it, it is looked at as what is about to be published; otherwise nothing is known of it.

    Raises:
        Missing: not on this machine.
    """
    digest = reference.partition("@")[2]
    if not digest:
        return Subject(name, _id_of(reference))
    image = client().images.get(_id_of(reference))
    tags = releases(manifest(), identify(manifest(), from_inspect(image.attrs)))
    size = sum(layer["Size"] for layer in image.history())
    planned = (f"{name}:{tags.arch_readable}", f"{name}:{tags.arch_immutable}")
    return Subject(name, str(image.id), planned, digest, size)


def _id_of(reference: str) -> str:
    try:
        return str(client().images.get(reference).id)
    except ImageNotFound:
        raise Missing(f"{reference} is not on this machine (removed since it was built?)") from None
