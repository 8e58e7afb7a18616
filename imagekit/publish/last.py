"""The last release of an image, whatever versions it has: an image grows when versions change."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from imagekit.manifest import Manifest
from imagekit.publish.identity import OCI, Identity, Kind, kind, releases
from imagekit.registry import Manifest as ImageManifest
from imagekit.registry import NotFound, RegistryClient


@dataclass(frozen=True)
class Release:
    """A release of one architecture, and the tag under which it was found."""

    tag: str
    image: ImageManifest


def find(client: RegistryClient, manifest: Manifest, image: ImageManifest, identity: Identity) -> Release | None:
    """Return the newest release but for `image` itself, of the same architecture, chip, installer and kind of base.

    The registry's tags say what releases there are: images.lock may be behind, and is of one registry only. Newest is
    the one of the newest commit, as for `make pull`; of one commit's, the one of the same versions.

    Args:
        client: of the registry that the image is in.
        manifest: images.toml.
        image: that is to be published.
        identity: of it.
    """
    own, wanted = releases(manifest, identity).arch_readable, kind(manifest, client.config(image))
    found: list[tuple[str, bool, str, ImageManifest]] = []
    for tag in filter(_pattern(wanted, identity.flavour.suffix).fullmatch, client.tags(image.reference)):
        try:
            release = client.for_platform(image.reference.tagged(tag), identity.flavour.platform.name)
            config = client.config(release)
        except NotFound:  # deleted, and the tag or a part of it is still listed
            continue
        if release.descriptor.digest != image.descriptor.digest and kind(manifest, config) == wanted:
            found.append((_created(config), tag == own, tag, release))
    newest = max(found, key=lambda entry: entry[:3], default=None)
    return Release(newest[2], newest[3]) if newest else None


def _pattern(wanted: Kind, suffix: str) -> re.Pattern[str]:
    """Tags of releases of that kind that move with every release of their versions; candidates are none."""
    chip, arch = re.escape(wanted.chip), re.escape(wanted.arch)
    return re.compile(rf"(?!candidate-).+-{chip}-[^-]+-py[\d.]+-{arch}{re.escape(suffix)}")


def _created(config: Mapping[str, Any]) -> str:
    """The commit's time, which images.lock records too."""
    labels = (config.get("config") or {}).get("Labels") or {}
    return str(labels.get(f"{OCI}.created") or config.get("created") or "")
