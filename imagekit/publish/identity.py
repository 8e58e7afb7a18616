"""What an image says it is, and the tags that follow from it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from imagekit.errors import Problem
from imagekit.manifest import Installer, Manifest, Platform
from imagekit.registry import canonical
from imagekit.tags import Flavour, tags

OCI = "org.opencontainers.image"
DIRTY = "-dirty"


@dataclass(frozen=True)
class Identity:
    """An image by its labels and configuration.

    Attributes:
        name: of images.toml.
        flavour: base, versions, platform: what the tags are made of.
        simulated: true unless both labels say otherwise; an image that does not say counts as simulated.
        content: hash of file system and configuration: the same for the same content, however it is compressed.
        labels: all of them.
    """

    name: str
    flavour: Flavour
    simulated: bool
    content: str
    labels: dict[str, str]

    @property
    def revision(self) -> str:
        """Of this repository."""
        return self.flavour.revision

    @property
    def arch(self) -> str:
        """Docker's architecture name."""
        return self.flavour.platform.arch

    @property
    def candidate(self) -> str:
        """The tag that a candidate is pushed under; tagged, so that registries do not collect it."""
        return f"candidate-{self.revision}-{self.arch}{self.flavour.suffix}"

    @property
    def candidate_index(self) -> str:
        """The tag of the index of all architectures' candidates."""
        return f"candidate-{self.revision}{self.flavour.suffix}"


@dataclass(frozen=True)
class Kind:
    """What an image has in common with its releases before and after, whatever their versions."""

    arch: str
    chip: str
    installer: Installer
    simulated: bool


@dataclass(frozen=True)
class Releases:
    """Tags of a release: the readable one moves with every release, the immutable one names the revision.

    Attributes:
        readable, immutable: of all architectures (index).
        arch_readable, arch_immutable: of this one.
    """

    readable: str
    immutable: str
    arch_readable: str
    arch_immutable: str


def identify(manifest: Manifest, config: Mapping[str, Any]) -> Identity:
    """Read an image's configuration (the registry's document: architecture, os, config, rootfs).

    Raises:
        Problem: not an image of ours, or of another state of images.toml.
    """
    labels: dict[str, str] = (config.get("config") or {}).get("Labels") or {}
    name = _name(manifest, labels)
    ours = manifest.project.label_prefix
    needed = [f"{OCI}.revision", f"{OCI}.version", f"{ours}.base", f"{ours}.cann", f"{ours}.chip"]
    if missing := [label for label in needed if not labels.get(label)]:
        raise Problem(f"the image has no label {missing[0]}", "build it with make image")
    for label, want in ((f"{ours}.cann", manifest.versions.cann), (f"{ours}.chip", manifest.versions.chip)):
        if labels[label] != want:
            raise Problem(
                f"the image's {label} is {labels[label]}, images.toml says {want}", "publish it from its own revision"
            )
    found = kind(manifest, config)
    flavour = Flavour(
        base="sim" if found.simulated else "cann",
        os=os_of(manifest, labels, found.simulated),
        rlinf=labels[f"{OCI}.version"],
        revision=labels[f"{OCI}.revision"],
        platform=_platform(manifest, config),
        native=True,
        fixes=labels.get(f"{ours}.fixes", "") != "none",
        installer=found.installer,
    )
    return Identity(name, flavour, found.simulated, content_hash(config), labels)


def kind(manifest: Manifest, config: Mapping[str, Any]) -> Kind:
    """Return an image's kind; of any state of images.toml, and simulated unless both of its labels say otherwise."""
    labels: dict[str, str] = (config.get("config") or {}).get("Labels") or {}
    ours = manifest.project.label_prefix
    return Kind(
        arch=str(config.get("architecture")),
        chip=labels.get(f"{ours}.chip", ""),
        installer="upstream" if labels.get(f"{ours}.installer") == "upstream" else "lock",
        simulated=not (labels.get(f"{ours}.base") == "cann" and labels.get(f"{ours}.simulated") == "false"),
    )


def os_of(manifest: Manifest, labels: Mapping[str, str], simulated: bool) -> str:
    """Return the distribution as tags have it; that of a stand-in with the vendor's name is the vendor's."""
    cann = manifest.base.cann.os
    return cann if not simulated or cann in labels.get(f"{OCI}.base.name", "") else manifest.base.sim.os


def from_inspect(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Put what `docker image inspect` says into the words of the registry's configuration."""
    return {
        "architecture": attrs["Architecture"],
        "os": attrs["Os"],
        "config": attrs["Config"],
        "rootfs": {"diff_ids": attrs["RootFS"]["Layers"]},
    }


def releases(manifest: Manifest, identity: Identity) -> Releases:
    """Return the release tags of an image; they end in -sim for a simulated one."""
    flavour = identity.flavour
    local = Flavour(**{**vars(flavour), "native": False})
    both = [tag.partition(":")[2] for tag in tags(manifest, identity.name, flavour)]
    one = [tag.partition(":")[2] for tag in tags(manifest, identity.name, local)]
    return Releases(both[0], both[1], one[0], one[1])


def content_hash(config: Mapping[str, Any]) -> str:
    """Hash what a container of the image sees: layers' contents, configuration, platform; not when it was made."""
    seen = {key: config.get(key) for key in ("architecture", "os", "variant", "config")}
    return hashlib.sha256(canonical(seen | {"layers": (config.get("rootfs") or {}).get("diff_ids")})).hexdigest()


def refuse_unfixed(identity: Identity) -> None:
    """An image without the fixes exists to show the faults.

    Raises:
        Problem: it is one.
    """
    if not identity.flavour.fixes:
        raise Problem("an image without the NPU fixes is never published", "build it without NO_FIXES")


def _name(manifest: Manifest, labels: Mapping[str, str]) -> str:
    title = labels.get(f"{OCI}.title")
    for image in manifest.image:
        if image.title == title:
            return image.name
    raise Problem(f"its title is {title!r}: no image of images.toml", "build it with make image")


def _platform(manifest: Manifest, config: Mapping[str, Any]) -> Platform:
    name = f"{config.get('os')}/{config.get('architecture')}"
    for platform in manifest.platform:
        if platform.name == name:
            return platform
    raise Problem(f"the image is for {name}", f"published are {', '.join(p.name for p in manifest.platform)}")
