"""An image on disk: an OCI layout as a folder or a tar, as `build.py image --layouts` and `docker save` write them."""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from imagekit.carry.contents import blob_path
from imagekit.errors import Problem
from imagekit.registry import digest_of

CHUNK = 1 << 20
INDEX = "index.json"
ATTESTATION = "vnd.docker.reference.type"


class Files(Protocol):
    """Files of a layout by their path in it."""

    def open(self, path: str) -> IO[bytes]:
        """Open a file to read; KeyError when there is none."""


class Folder:
    """A layout in a folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet."""
        self._folder = folder

    def open(self, path: str) -> IO[bytes]:
        """Open a file to read."""
        try:
            return (self._folder / path).open("rb")
        except FileNotFoundError:
            raise KeyError(path) from None


class Archive:
    """A layout in a tar on disk."""

    def __init__(self, path: Path) -> None:
        """Open it; TarError when it is none."""
        self._tar = tarfile.open(path, "r:")  # noqa: SIM115

    def open(self, path: str) -> IO[bytes]:
        """Open a member to read."""
        found = self._tar.extractfile(self._tar.getmember(path))
        if found is None:
            raise KeyError(path)
        return found


@dataclass(frozen=True)
class Stored:
    """One image of a layout.

    Attributes:
        digest: of its manifest.
        config: the image's configuration.
        layers: digests of the blobs, lowest first.
    """

    digest: str
    config: dict[str, Any]
    layers: list[str]
    files: Files

    @property
    def title(self) -> str:
        """What the image calls itself; each image of images.toml has another one."""
        labels = self.config.get("config", {}).get("Labels") or {}
        return str(labels.get("org.opencontainers.image.title", ""))

    def blob(self, digest: str) -> Iterator[bytes]:
        """Yield a blob in pieces."""
        with self.files.open(blob_path(digest)) as file:
            while piece := file.read(CHUNK):
                yield piece


def read_layout(path: Path) -> list[Stored]:
    """Return the images in a layout, each once.

    Raises:
        Problem: there is none.
    """
    try:
        files: Files = Folder(path) if path.is_dir() else Archive(path)
        found = {image.digest: image for image in _below(files, _read(files, INDEX))}
    except (KeyError, ValueError, OSError, tarfile.TarError) as error:
        raise Problem(
            f"{path} is not a complete OCI layout ({error})", "name what docker save or build.py image --layouts wrote"
        ) from None
    return list(found.values())


def _below(files: Files, content: bytes) -> Iterator[Stored]:
    document = json.loads(content)
    if "config" in document:
        config = json.loads(_read(files, blob_path(document["config"]["digest"])))
        yield Stored(digest_of(content), config, [layer["digest"] for layer in document["layers"]], files)
    for child in document.get("manifests", []):
        if ATTESTATION not in child.get("annotations", {}):
            yield from _below(files, _read(files, blob_path(child["digest"])))


def _read(files: Files, path: str) -> bytes:
    with files.open(path) as file:
        return file.read()
