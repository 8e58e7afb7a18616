"""What we ask of a registry: manifests, blobs, referrers. Everything that has a digest is checked against it."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode

import requests
from oras.utils import append_url_params

from imagekit.registry.errors import Altered, NotFound, Refused, Unreachable
from imagekit.registry.reference import DIGEST, Reference
from imagekit.registry.transport import Transport

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
EMPTY = "application/vnd.oci.empty.v1+json"
ACCEPTED = (MANIFEST, INDEX, DOCKER_MANIFEST, DOCKER_LIST)
CHUNK = 1 << 20


@dataclass(frozen=True)
class Descriptor:
    """Content by its digest."""

    media_type: str
    digest: str
    size: int
    artifact_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""  # linux/arm64

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Descriptor":
        """Read a descriptor of a manifest or an index."""
        where = document.get("platform") or {}
        return cls(
            str(document["mediaType"]),
            str(document["digest"]),
            int(document["size"]),
            str(document.get("artifactType") or ""),
            dict(document.get("annotations") or {}),
            f"{where.get('os')}/{where.get('architecture')}" if where else "",
        )

    def document(self) -> dict[str, Any]:
        """Return it as a manifest or an index has it."""
        found: dict[str, Any] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        if self.artifact_type:
            found["artifactType"] = self.artifact_type
        if self.annotations:
            found["annotations"] = dict(self.annotations)
        if self.platform:
            system, _, architecture = self.platform.partition("/")
            found["platform"] = {"architecture": architecture, "os": system}
        return found


@dataclass(frozen=True)
class Manifest:
    """A manifest or an index: the very bytes, and what they say."""

    reference: Reference
    descriptor: Descriptor
    raw: bytes = field(repr=False)
    document: dict[str, Any] = field(repr=False)

    @property
    def is_index(self) -> bool:
        """Whether it lists manifests of several platforms."""
        return self.descriptor.media_type in (INDEX, DOCKER_LIST)

    @property
    def layers(self) -> list[Descriptor]:
        """Layers, or the files of an artifact."""
        return [Descriptor.of(layer) for layer in self.document.get("layers") or []]

    @property
    def manifests(self) -> list[Descriptor]:
        """Entries of an index."""
        return [Descriptor.of(entry) for entry in self.document.get("manifests") or []]

    @property
    def config(self) -> Descriptor:
        """The image's configuration."""
        return Descriptor.of(self.document["config"])

    @property
    def size(self) -> int:
        """Bytes of all layers as they are transferred."""
        return sum(layer.size for layer in self.layers)


@dataclass(frozen=True)
class File:
    """One file of an artifact."""

    name: str
    media_type: str
    data: bytes = field(repr=False)


def digest_of(data: bytes) -> str:
    """`sha256:<hex>`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical(document: Any) -> bytes:
    """JSON with one form for one content, so that its digest can be compared."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class RegistryClient:
    """One registry.

    Everything raises `Unreachable`, `Untrusted`, `Unauthorised`, `NotFound`, `Altered` or `Refused`
    (imagekit.registry.errors), all of them a Problem that a user can read.
    """

    def __init__(
        self, host: str, *, environ: Mapping[str, str] = os.environ, root: Path = Path("/"), **how: Any
    ) -> None:
        """Nothing is asked yet. See `Transport` for the arguments."""
        self.host, self.environ = host, environ
        self.transport = Transport(host, environ=environ, root=root, **how)

    @classmethod
    def of(cls, reference: Reference, **how: Any) -> "RegistryClient":
        """Of the registry that `reference` is in."""
        return cls(reference.host, **how)

    # --- reading ------------------------------------------------------------------------------------------------------

    def resolve(self, reference: Reference) -> Descriptor:
        """Return what a tag (or digest) stands for now: media type, digest, size of the manifest."""
        return self.manifest(reference).descriptor

    def exists(self, reference: Reference) -> bool:
        """Whether there is such a tag or digest."""
        try:
            self.manifest(reference)
        except NotFound:
            return False
        return True

    def manifest(self, reference: Reference) -> Manifest:
        """Fetch a manifest or an index; asked for by digest, it is checked against that."""
        answer = self._get(reference, f"manifests/{reference.target}", {"Accept": ", ".join(ACCEPTED)})
        raw = answer.content
        digest = digest_of(raw)
        promised = reference.digest or answer.headers.get("Docker-Content-Digest") or digest
        if promised != digest:
            raise _altered(f"{reference}", promised, digest)
        try:
            document = json.loads(raw)
            kind = document.get("mediaType") or answer.headers.get("Content-Type", "").partition(";")[0] or MANIFEST
        except (ValueError, AttributeError):
            raise Altered(f"{reference}: its manifest is not JSON", "is this a registry?") from None
        if kind not in ACCEPTED:
            raise Refused(f"{reference}: manifests of type {kind} are not known here", "push the image again")
        return Manifest(reference, Descriptor(kind, digest, len(raw)), raw, document)

    def for_platform(self, reference: Reference, platform: str) -> Manifest:
        """Fetch the manifest of one platform (`linux/arm64`), through the index where there is one.

        Raises:
            NotFound: not built for it; those that are, are named.
        """
        found = self.manifest(reference)
        if not found.is_index:
            return found
        for entry in found.manifests:
            if entry.platform == platform:
                return self.manifest(reference.at(entry.digest))
        have = ", ".join(sorted({e.platform for e in found.manifests if "unknown" not in e.platform})) or "nothing"
        raise NotFound(f"{reference} is not there for {platform}", f"it is there for {have}")

    def config(self, manifest: Manifest) -> dict[str, Any]:
        """Fetch the configuration of an image: architecture, os, config.Labels, rootfs.diff_ids, history."""
        found: dict[str, Any] = json.loads(self.blob(manifest.reference, manifest.config))
        return found

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Fetch a blob into memory."""
        return b"".join(self.stream(reference, descriptor))

    def stream(self, reference: Reference, descriptor: Descriptor, start: int = 0) -> Iterator[bytes]:
        """Yield a blob in pieces; the last one comes only if size and digest (of a whole blob) are what was promised.

        Args:
            reference: any of its repository.
            descriptor: what is promised.
            start: byte to go on from; the caller then has to check the digest of the whole.
        """
        head = {"Range": f"bytes={start}-"} if start else {}
        answer = self._get(reference, f"blobs/{descriptor.digest}", head, stream=True)
        if start and answer.status_code != 206:
            raise Refused(f"registry {self.host} does not resume transfers", "start again")
        seen, hashed, last = start, hashlib.sha256(), b""
        try:
            for piece in answer.iter_content(CHUNK):
                seen += len(piece)
                hashed.update(piece)
                if last:
                    yield last
                last = piece
        except (requests.exceptions.RequestException, OSError) as error:
            raise Unreachable(
                f"registry {self.host} broke off at byte {seen} of {descriptor.size} of {descriptor.digest[:19]}",
                f"again: what is complete is kept ({type(error).__name__})",
            ) from None
        if seen != descriptor.size or (not start and f"sha256:{hashed.hexdigest()}" != descriptor.digest):
            got = f"{seen} bytes of {descriptor.size}" if seen != descriptor.size else f"sha256:{hashed.hexdigest()}"
            raise _altered(f"a blob of {reference.host}/{reference.repository}", descriptor.digest, got)
        yield last

    def tags(self, reference: Reference) -> list[str]:
        """All tags of a repository; none when it does not exist."""
        found: list[str] = []
        path = "tags/list?" + urlencode({"n": 1000})
        while path:
            try:
                answer = self._get(reference, path)
            except NotFound:
                return found
            found += answer.json().get("tags") or []
            following = answer.links.get("next", {}).get("url", "")
            path = following.partition(f"{reference.repository}/")[2] if following else ""
        return found

    def referrers(self, reference: Reference, artifact_type: str = "") -> list[Descriptor]:
        """What is attached to a digest: by the referrers API, else by the fall-back tag `sha256-<hex>`."""
        _by_digest(reference)
        found = self._attached(reference)
        return [entry for entry in found if artifact_type in ("", entry.artifact_type)]

    def files(self, reference: Reference, artifact: Descriptor) -> dict[str, bytes]:
        """Fetch all files of an artifact by their titles, and check that it is attached to `reference`'s digest."""
        manifest = self.manifest(reference.at(artifact.digest))
        subject = (manifest.document.get("subject") or {}).get("digest")
        if subject != reference.digest:
            raise _altered(f"what is attached to {reference}", reference.digest, f"an attachment of {subject}")
        titled = {
            layer.annotations.get("org.opencontainers.image.title", layer.digest): layer for layer in manifest.layers
        }
        return {name: self.blob(reference, layer) for name, layer in titled.items()}

    # --- writing ------------------------------------------------------------------------------------------------------

    def put_manifest(self, reference: Reference, raw: bytes, media_type: str) -> str:
        """Write a manifest under a tag or its digest; return its digest, which the registry has confirmed."""
        self._put(reference, raw, media_type)
        return digest_of(raw)

    def put_blob(self, reference: Reference, data: bytes, media_type: str, title: str = "") -> Descriptor:
        """Write a blob, unless it is there already."""
        digest = digest_of(data)
        if not self.transport.do_request(self._url(reference, f"blobs/{digest}"), "HEAD").ok:
            begun = self.transport.do_request(self._url(reference, "blobs/uploads/"), "POST", b"")
            place = begun.headers.get("Location", "")
            if not begun.ok or not place:
                raise _refused(begun, f"{reference.host}/{reference.repository}")
            place = place if place.startswith("http") else f"{self.transport.base.removesuffix('/v2/')}{place}"
            url = append_url_params(place, {"digest": digest})
            done = self.transport.do_request(url, "PUT", data, {"Content-Type": "application/octet-stream"})
            if not done.ok:
                raise _refused(done, f"{reference.host}/{reference.repository}")
        notes = {"org.opencontainers.image.title": title} if title else {}
        return Descriptor(media_type, digest, len(data), annotations=notes)

    def attach(
        self, subject: Manifest, artifact_type: str, files: list[File], annotations: Mapping[str, str] | None = None
    ) -> Descriptor:
        """Attach files to an image by its digest (OCI referrer); return the artifact's descriptor."""
        place = subject.reference.at(subject.descriptor.digest)
        config = self.put_blob(place, b"{}", EMPTY)
        layers = [self.put_blob(place, f.data, f.media_type, f.name) for f in files]
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": artifact_type,
            "config": config.document(),
            "layers": [layer.document() for layer in layers],
            "subject": subject.descriptor.document(),
            "annotations": dict(annotations or {}),
        }
        raw = canonical(document)
        made = Descriptor(MANIFEST, digest_of(raw), len(raw), artifact_type, dict(annotations or {}))
        answer = self._put(place.at(made.digest), raw, MANIFEST)
        if "OCI-Subject" not in answer.headers:  # the registry does not keep the list itself
            self._note_referrer(place, made)
        return made

    # --- inside -------------------------------------------------------------------------------------------------------

    def _url(self, reference: Reference, path: str) -> str:
        return f"{self.transport.base}{reference.repository}/{path}"

    def _put(self, reference: Reference, raw: bytes, media_type: str) -> requests.Response:
        url = self._url(reference, f"manifests/{reference.target}")
        answer = self.transport.do_request(url, "PUT", raw, {"Content-Type": media_type})
        if not answer.ok:
            raise _refused(answer, f"{reference}")
        if (confirmed := answer.headers.get("Docker-Content-Digest", digest_of(raw))) != digest_of(raw):
            raise _altered(f"{reference}", digest_of(raw), confirmed)
        return answer

    def _get(
        self, reference: Reference, path: str, headers: Mapping[str, str] | None = None, stream: bool = False
    ) -> requests.Response:
        answer = self.transport.do_request(self._url(reference, path), "GET", headers=headers, stream=stream)
        if answer.status_code == 404:
            raise NotFound(f"registry {self.host} has no {reference}", "check name, tag and digest")
        if not answer.ok:
            raise _refused(answer, str(reference))
        return answer

    def _attached(self, reference: Reference) -> list[Descriptor]:
        try:
            answer = self._get(reference, f"referrers/{reference.digest}", {"Accept": INDEX})
            return [Descriptor.of(entry) for entry in answer.json().get("manifests") or []]
        except (NotFound, Refused, ValueError):  # not every registry has the API
            pass
        try:
            return self.manifest(fallback(reference)).manifests
        except NotFound:
            return []

    def _note_referrer(self, subject: Reference, made: Descriptor) -> None:
        """Add an artifact to the fall-back tag. Read again afterwards: the tag has no lock, others may write too."""
        for _ in range(5):
            try:
                have = self.manifest(fallback(subject)).manifests
            except NotFound:
                have = []
            if made.digest in [entry.digest for entry in have]:
                return
            entries = [entry.document() for entry in (*have, made)]
            raw = canonical({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
            self.put_manifest(fallback(subject), raw, INDEX)
        raise Refused(f"{subject}: others keep changing what is attached", "again in a moment")


def fallback(reference: Reference) -> Reference:
    """The tag that lists a digest's referrers where the registry has no API for them (OCI distribution 1.1)."""
    return reference.tagged(reference.digest.replace(":", "-"))


def save(pieces: Iterator[bytes], file: IO[bytes], progress: Callable[[int], None] = lambda _: None) -> None:
    """Write a stream to a file, telling how many bytes each piece had."""
    for piece in pieces:
        file.write(piece)
        progress(len(piece))


def _by_digest(reference: Reference) -> None:
    if not DIGEST.fullmatch(reference.digest):
        raise Refused(f"{reference} is not a digest", "HOST/REPOSITORY@sha256:DIGEST")


def _altered(what: str, promised: str, got: str) -> Altered:
    return Altered(
        f"{what}: promised {promised}, got {got}", "do not use it; tell who runs the registry, and try another mirror"
    )


def _refused(answer: requests.Response, what: str) -> Refused:
    try:
        said = "; ".join(str(error.get("message") or error.get("code")) for error in answer.json()["errors"])
    except (ValueError, KeyError, TypeError, AttributeError):
        said = answer.reason or ""
    return Refused(f"{what}: the registry answers {answer.status_code}: {said[:200]}", "see its log")
