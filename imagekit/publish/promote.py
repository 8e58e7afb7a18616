"""Give a tested digest its release tags. What is copied is the very manifest that was tested, byte for byte."""

import datetime
import os
from collections.abc import Callable, Mapping
from datetime import UTC
from functools import partial
from typing import Any

from imagekit.errors import Problem
from imagekit.manifest import Manifest
from imagekit.publish import attachments, evidence, index, place, signing, suites
from imagekit.publish.evidence import Evidence
from imagekit.publish.identity import DIRTY, Identity, identify, refuse_unfixed, releases
from imagekit.publish.index import Tagged
from imagekit.registry import Descriptor, NotFound, Reference, RegistryClient
from imagekit.registry import Manifest as ImageManifest


def promote(
    manifest: Manifest,
    text: str,
    environ: Mapping[str, str] = os.environ,
    before_tagging: Callable[[], None] = lambda: None,
    **client_options: Any,
) -> tuple[Evidence, list[Tagged]]:
    """Check the evidence of an image (by digest), then tag it and the indexes it belongs to.

    Args:
        manifest: images.toml.
        text: the image, by digest.
        environ: logins and keys.
        before_tagging: called when everything has been checked and nothing is tagged yet.
        client_options: of RegistryClient.

    Raises:
        Problem: it may not be published; no tag was touched.
    """
    image = place.by_digest(text)
    client = RegistryClient.of(image, environ=environ, **client_options)
    signer, key = _signer(manifest, environ), signing.evidence_key(environ)
    found = client.manifest(image)
    if found.is_index:
        raise Problem(f"{image} is an index", "promote each image of it by its own digest", usage=True)
    identity = identify(manifest, client.config(found))
    refuse_unfixed(identity)
    seen = proof(client, manifest, image, identity, key)
    tags = releases(manifest, identity)
    _refuse_moving(client, image.tagged(tags.arch_immutable), image)
    _refuse_bare(client, image, seen)
    indexes = [
        (tags.immutable, _entries(client, manifest, found, identity, tags.arch_immutable, key)),
        (tags.readable, _entries(client, manifest, found, identity, tags.arch_readable, key)),
    ]
    before_tagging()
    sign = partial(signing.sign_image, signer, environ=environ)
    signature = sign(image)
    done = []
    for tag in (tags.arch_immutable, tags.arch_readable):
        client.put_manifest(image.tagged(tag), found.raw, found.descriptor.media_type)
        done.append(Tagged(tag, image.digest, identity.flavour.platform.name, signature))
    return seen, done + [index.write(client, image, tag, entries, sign) for tag, entries in indexes]


def _signer(manifest: Manifest, environ: Mapping[str, str]) -> list[str] | None:
    expected = manifest.pull.signature
    return signing.cosign(environ, log=expected.transparency_log if expected else True)


def proof(
    client: RegistryClient, manifest: Manifest, image: Reference, identity: Identity, key: bytes | None
) -> Evidence:
    """Return the newest evidence of the required suite, if it says that the image may be published.

    Raises:
        Problem: there is none, it is red, it is not about this image or this suite, or it has been altered.
    """
    again = f"make gate IMAGE={image}"
    required = manifest.publish.required_suite
    candidates = [e for e in _all_evidence(client, image, key) if e.suite == required]
    if not candidates:
        raise Problem(f"{image} has no evidence of suite {required}", again)
    newest = max(candidates, key=lambda e: e.finished)
    if newest.suite_hash != suites.suite_hash(manifest, required):
        raise Problem(f"{image} was gated with another state of suite {required}", again)
    if (newest.content, newest.simulated, newest.image) != (identity.content, identity.simulated, identity.name):
        raise Problem(f"the evidence of {image} describes another image", again)
    if why_not := evidence.complaints(newest, manifest, datetime.datetime.now(UTC).date()):
        more = f" (and {len(why_not) - 1} more)" if len(why_not) > 1 else ""
        raise Problem(
            f"{image} may not be published: {why_not[0]}{more}", "mend it and gate again, or waive it in images.toml"
        )
    if not newest.green:
        raise Problem(f"{image} was red when it was gated; a waiver has been added since", again)
    if newest.versions.get("checkout", DIRTY).endswith(DIRTY) and not identity.simulated:
        raise Problem(f"{image} was gated with files that no commit has", f"commit them, then {again}")
    if DIRTY in identity.revision and not identity.simulated:
        raise Problem(
            f"the image was built from files that no commit has ({identity.revision})", "commit, build, push, gate"
        )
    return newest


def _all_evidence(client: RegistryClient, image: Reference, key: bytes | None) -> list[Evidence]:
    found = []
    for attached in attachments.all_of(client, image, attachments.EVIDENCE):
        read = evidence.read(attached.files, image)
        signing.verify(attached.files[evidence.FILE], attached.files.get(signing.SIGNATURE), key, image)
        found.append(read)
    return found


def _refuse_bare(client: RegistryClient, image: Reference, seen: Evidence) -> None:
    """How it was made, and the very bills of materials that its gate went by, have to be attached."""
    if not attachments.holds(client, image, attachments.IN_TOTO):
        raise Problem(f"{image} has no provenance attached", "push it again: make push")
    for kind in (attachments.SPDX, attachments.CYCLONEDX):
        if kind not in seen.sboms or not attachments.holds(client, image, kind, seen.sboms[kind]):
            raise Problem(f"{image}: the bill of materials ({kind}) of its gate is gone", f"make gate IMAGE={image}")


def _refuse_moving(client: RegistryClient, tag: Reference, image: Reference) -> None:
    """The tag that names a revision stands for one image for ever."""
    try:
        have = client.resolve(tag).digest
    except NotFound:
        return
    if have != image.digest:
        raise Problem(f"{tag} is published already, as {have}", "publish a new commit instead")


def _entries(
    client: RegistryClient,
    manifest: Manifest,
    image: ImageManifest,
    identity: Identity,
    own_tag: str,
    key: bytes | None,
) -> list[Descriptor]:
    """Return an index's entries: this image, and of every other architecture what its own tag stands for.

    Raises:
        Problem: another architecture's tag stands for something that no gate has passed.
    """
    entries = []
    for platform in manifest.platform:
        found = image
        if platform.arch != identity.arch:
            try:
                tag = own_tag.replace(f"-{identity.arch}", f"-{platform.arch}")
                found = client.manifest(image.reference.tagged(tag))
            except NotFound:
                continue
            _was_gated(client, found, key)
        entries.append(index.entry_of(found.descriptor, platform.name))
    return entries


def _was_gated(client: RegistryClient, other: ImageManifest, key: bytes | None) -> None:
    """Another architecture's tag must still stand for an image that passed its own gate, of whatever suite it then was.

    Raises:
        Problem: somebody has moved that tag.
    """
    place_ = other.reference.at(other.descriptor.digest)
    if not any(seen.green for seen in _all_evidence(client, place_, key)):
        raise Problem(
            f"{other.reference} stands for an image without green evidence", "gate and promote it, or delete that tag"
        )
