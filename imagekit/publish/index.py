"""The index of an image's architectures: one name, and every host pulls what fits its processor."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from imagekit.errors import Problem
from imagekit.manifest import Manifest
from imagekit.publish import place
from imagekit.publish.identity import Identity, identify
from imagekit.publish.push import Pushed
from imagekit.registry import Descriptor, Reference, RegistryClient, canonical, digest_of, parse
from imagekit.registry.client import INDEX

Sign = Callable[[Reference], str]


@dataclass(frozen=True)
class Tagged:
    """One tag and what it stands for now. `platforms`: one, or those of an index (`linux/arm64, linux/amd64`)."""

    tag: str
    digest: str
    platforms: str
    signature: str


def entry_of(descriptor: Descriptor, platform: str) -> Descriptor:
    """Return an image's descriptor as an entry of an index."""
    return Descriptor(descriptor.media_type, descriptor.digest, descriptor.size, platform=platform)


def write(client: RegistryClient, image: Reference, tag: str, entries: list[Descriptor], sign: Sign) -> Tagged:
    """Put an index into the repository of `image`, sign it, then give it its tag."""
    raw = canonical({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry.document() for entry in entries]})
    index = image.at(digest_of(raw))
    client.put_manifest(index, raw, INDEX)
    signature = sign(index)
    client.put_manifest(image.tagged(tag), raw, INDEX)
    return Tagged(tag, index.digest, ", ".join(entry.platform for entry in entries), signature)


def join(
    manifest: Manifest, pushed: list[Pushed], environ: Mapping[str, str] = os.environ, **client_options: Any
) -> Tagged:
    """Write the index of one image's candidates, one for each architecture.

    Args:
        manifest: images.toml.
        pushed: the candidates.
        environ: logins.
        client_options: of RegistryClient.

    Raises:
        Problem: they are not the same image for different architectures; no index was written.
    """
    found: list[tuple[Identity, Descriptor]] = []
    for candidate in pushed:
        image = place.by_digest(candidate.reference)
        client = RegistryClient.of(image, environ=environ, **client_options)
        there = client.manifest(image)
        found.append((identify(manifest, client.config(there)), there.descriptor))
    refuse_mixed(manifest, [identity for identity, _ in found])
    entries = [entry_of(descriptor, identity.flavour.platform.name) for identity, descriptor in found]
    tag = found[0][0].candidate_index
    return write(client, parse(pushed[0].reference), tag, entries, lambda _: "")


def refuse_mixed(manifest: Manifest, identities: list[Identity]) -> None:
    """An index has one image in several architectures: of one revision, RLinf, kind of base and installer.

    Each architecture is built by itself: with SOURCE=auto and a server that answers at times, of different trees.

    Raises:
        Problem: it would not.
    """
    commit = "build both from one commit"
    kinds: dict[str, tuple[set[str], str]] = {
        "images": ({identity.name for identity in identities}, "name one image"),
        "revisions": ({identity.revision for identity in identities}, commit),
        "bases": ({identity.flavour.base for identity in identities}, "BASE=sim or BASE=cann for both"),
        "installers": ({identity.flavour.installer for identity in identities}, "INSTALLER=lock or upstream for both"),
        "RLinf": ({_rlinf(manifest, identity) for identity in identities}, "SOURCE=git or SOURCE=pypi for both"),
        "compatibility": ({_label(manifest, identity, "compatibility") for identity in identities}, commit),
    }
    for what, (values, fix) in kinds.items():
        if len(values) > 1:
            raise Problem(f"these are of different {what}: {', '.join(sorted(values))}", fix)
    if len({identity.arch for identity in identities}) < len(identities):
        raise Problem("two of these are for the same architecture", "build one for each")


def _rlinf(manifest: Manifest, identity: Identity) -> str:
    """Version, where it came from, and which state of that; of an image without RLinf its own version."""
    source, revision = (_label(manifest, identity, f"rlinf.{what}") for what in ("source", "revision"))
    return f"{identity.flavour.rlinf} ({source} {revision})"


def _label(manifest: Manifest, identity: Identity, name: str) -> str:
    return identity.labels.get(f"{manifest.project.label_prefix}.{name}") or "none"
