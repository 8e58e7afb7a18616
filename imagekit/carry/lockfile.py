"""images.lock: which bytes a release tag stands for. Written from a registry's index, read by whoever pulls."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from imagekit.carry.contents import Digest
from imagekit.carry.rules import check_carriable
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Model
from imagekit.registry import Manifest as RegistryManifest
from imagekit.registry import Reference, RegistryClient

LOCK = ROOT / "images.lock"
AGAIN = "take it from the project's repository again (git checkout images.lock)"


class Release(Model):
    """One release tag. `digest` is the index's (or the manifest's where there is none), `platforms` the manifests'."""

    image: str
    tag: str
    digest: Digest
    platforms: Annotated[dict[str, Digest], Field(min_length=1)]
    chip: str
    simulated: bool
    created: str


class Lock(Model):
    """images.lock."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    releases: list[Release] = Field(default_factory=list)

    def find(self, image: str, tag: str) -> Release | None:
        """Return the release of that name."""
        return next((r for r in self.releases if (r.image, r.tag) == (image, tag)), None)

    def with_release(self, release: Release) -> "Lock":
        """Return a lock with `release` in place of an earlier one of the same name."""
        others = [r for r in self.releases if (r.image, r.tag) != (release.image, release.tag)]
        return Lock(releases=sorted([*others, release], key=lambda r: (r.image, r.tag)))


def read_lock(path: Path = LOCK) -> Lock:
    """Read images.lock; one that is not there holds no release.

    Raises:
        Problem: it is damaged.
    """
    try:
        return Lock.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Lock()
    except ValidationError as error:
        first = error.errors()[0]
        raise Problem(f"{path.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}", AGAIN) from None


def write_lock(lock: Lock, path: Path = LOCK) -> None:
    """Write images.lock, whole or not at all."""
    fresh = path.with_name(f".{path.name}.new")
    document = lock.model_dump(by_alias=True)
    fresh.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)


def describe_release(client: RegistryClient, reference: Reference, prefix: str) -> Release:
    """Return what `reference` (a tag) stands for in its registry now.

    Args:
        client: of that registry.
        reference: the release tag.
        prefix: of our own labels.

    Raises:
        Problem: not there, not ours, or its platforms contradict each other.
    """
    found = client.manifest(reference)
    each = [client.manifest(reference.at(e.digest)) for e in found.manifests if "unknown" not in e.platform]
    configs = [(manifest, client.config(manifest)) for manifest in (each if found.is_index else [found])]
    labels = [_labels(config) for _, config in configs]
    simulated = {check_carriable(str(reference), [reference.tag], own, prefix) for own in labels}
    chips = {own.get(f"{prefix}.chip", "") for own in labels}
    if len(simulated) != 1 or len(chips) != 1:
        raise Problem(f"{reference}: its platforms are not the same release", "promote it again")
    return Release(
        image=reference.name,
        tag=reference.tag,
        digest=found.descriptor.digest,
        platforms={platform_of(config): manifest.descriptor.digest for manifest, config in configs},
        chip=chips.pop(),
        simulated=simulated.pop(),
        created=max(own.get("org.opencontainers.image.created", "") for own in labels),
    )


def record_release(client: RegistryClient, reference: Reference, prefix: str, path: Path = LOCK) -> Release:
    """Write into images.lock what `reference` stands for in its registry now; return it.

    Raises:
        Problem: as `describe_release`; the lock is then as it was.
    """
    release = describe_release(client, reference, prefix)
    write_lock(read_lock(path).with_release(release), path)
    return release


def platform_of(config: dict[str, Any]) -> str:
    """Return `linux/arm64` of an image's configuration."""
    return f"{config['os']}/{config['architecture']}"


def labels_of(client: RegistryClient, manifest: RegistryManifest) -> dict[str, str]:
    """Return an image's labels."""
    return _labels(client.config(manifest))


def _labels(config: dict[str, Any]) -> dict[str, str]:
    return dict((config.get("config") or {}).get("Labels") or {})
