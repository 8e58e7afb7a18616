"""What `docker save` writes, in its old form and as an OCI layout: manifest.json is in both."""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from imagekit.errors import Problem

CHUNK = 1 << 20


@dataclass(frozen=True)
class SavedLayer:
    """Member of the archive, and the digest of the plain tar."""

    member: str
    diff_id: str


class SavedImage:
    """One image in an archive on disk. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Read what is in it.

        Raises:
            Problem: not such an archive, or not of exactly one image.
        """
        try:
            self._tar = tarfile.open(path)  # noqa: SIM115
            entries = json.loads(self.read("manifest.json"))
        except (tarfile.TarError, KeyError, ValueError) as error:
            raise Problem(f"{path.name} is not what docker save writes: {error}") from None
        if len(entries) != 1:
            raise Problem(f"the engine saved {len(entries)} images under one name", "bundle one platform's image")
        self.config = self.read(entries[0]["Config"])
        parsed: dict[str, Any] = json.loads(self.config)
        self.layers = [
            SavedLayer(member, diff_id)
            for member, diff_id in zip(entries[0]["Layers"], parsed["rootfs"]["diff_ids"], strict=True)
        ]

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._tar.close()

    def read(self, member: str) -> bytes:
        """Return a small member's content.

        Raises:
            KeyError: there is none.
        """
        file = self._tar.extractfile(member)
        return file.read() if file else b""

    def stream(self, layer: SavedLayer) -> Iterator[bytes]:
        """Yield the layer as the engine keeps it, 1 MiB at a time."""
        file = self._tar.extractfile(layer.member)
        while file and (piece := file.read(CHUNK)):
            yield piece

    def size(self, layer: SavedLayer) -> int:
        """Bytes of the layer as the engine keeps it."""
        return self._tar.getmember(layer.member).size

    def manifests(self) -> Iterator[bytes]:
        """Yield the manifests that index.json leads to; nothing for the old form."""
        yield from self._below("index.json")

    def _below(self, member: str) -> Iterator[bytes]:
        try:
            content = self.read(member)
        except KeyError:
            return
        document = json.loads(content)
        if "config" in document:
            yield content
        for child in document.get("manifests", []):
            yield from self._below(f"blobs/sha256/{child['digest'].removeprefix('sha256:')}")
