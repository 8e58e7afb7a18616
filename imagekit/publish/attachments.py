"""What is attached to a published image, by its type."""

from collections.abc import Mapping
from dataclasses import dataclass

from imagekit.registry import Descriptor, File, Manifest, Reference, RegistryClient

EVIDENCE = "application/vnd.rlinf-npu.evidence.v1+json"
SPDX = "application/spdx+json"
CYCLONEDX = "application/vnd.cyclonedx+json"
IN_TOTO = "application/vnd.in-toto+json"
JUNIT = "application/vnd.junit+xml"
CREATED = "org.opencontainers.image.created"


@dataclass(frozen=True)
class Attached:
    """One artifact with its files."""

    artifact: Descriptor
    files: dict[str, bytes]


def attach(
    client: RegistryClient, subject: Manifest, kind: str, files: list[File], notes: Mapping[str, str]
) -> Descriptor:
    """Attach an artifact."""
    return client.attach(subject, kind, files, notes)


def all_of(client: RegistryClient, subject: Reference, kind: str) -> list[Attached]:
    """Fetch every artifact of a kind.

    Raises:
        Altered: one of them is damaged or belongs to another image.
    """
    return [Attached(entry, client.files(subject, entry)) for entry in client.referrers(subject, kind)]


def holds(client: RegistryClient, subject: Reference, kind: str, digest: str = "") -> bool:
    """Whether an artifact of that kind is attached that has a file of that digest (any file, if empty)."""
    for entry in client.referrers(subject, kind):
        artifact = client.manifest(subject.at(entry.digest))
        about = (artifact.document.get("subject") or {}).get("digest")
        if about == subject.digest and any(digest in ("", layer.digest) for layer in artifact.layers):
            return True
    return False


def newest_file(client: RegistryClient, subject: Reference, kind: str) -> bytes | None:
    """Fetch the file of the artifact that was attached last, None when there is none."""
    entries = client.referrers(subject, kind)
    if not entries:
        return None
    newest = max(entries, key=lambda entry: entry.annotations.get(CREATED, ""))
    return next(iter(client.files(subject, newest).values()), None)
