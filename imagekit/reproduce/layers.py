"""The files of a layer, with everything about them that makes its digest."""

import gzip
import hashlib
import io
import itertools
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from imagekit.carry import zstd
from imagekit.reproduce.stored import Stored

CHUNK = 1 << 20
GZIP = b"\x1f\x8b"
KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.DIRTYPE: "directory",
    tarfile.SYMTYPE: "symbolic link",
    tarfile.LNKTYPE: "hard link",
    tarfile.CHRTYPE: "device",
    tarfile.BLKTYPE: "device",
    tarfile.FIFOTYPE: "fifo",
}


@dataclass(frozen=True)
class Fact:
    """One entry of a layer. Times are seconds since the epoch, as the tar writes them."""

    kind: str
    mode: str
    owner: str
    time: str
    size: int
    target: str
    attributes: str
    sha256: str


class Pieces(io.RawIOBase):
    """A file to read from, made of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        """Nothing is read yet."""
        self._pieces, self._left = pieces, b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Fill the front of `buffer`; 0 at the end."""
        while not self._left:
            self._left = next(self._pieces, b"") or b""
            if not self._left:
                return 0
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def unpacked(image: Stored, digest: str) -> Iterator[bytes]:
    """Yield the plain tar of a layer."""
    pieces = image.blob(digest)
    first = next(pieces, b"")
    whole = itertools.chain([first], pieces)
    if first.startswith(zstd.MAGIC):
        yield from zstd.decompress(whole)
    elif first.startswith(GZIP):
        plain = gzip.GzipFile(fileobj=io.BufferedReader(Pieces(whole), CHUNK))
        while piece := plain.read(CHUNK):
            yield piece
    else:
        yield from whole


def members(image: Stored, digest: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield the entries of a layer in its order, files with their content, which must be read before the next one."""
    stream = io.BufferedReader(Pieces(unpacked(image, digest)), CHUNK)
    with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK) as tar:
        for member in tar:
            yield member, tar.extractfile(member) if member.isreg() else None


def facts(image: Stored, digest: str) -> dict[str, Fact]:
    """Return what a layer holds, by path, in its order."""
    return {"/" + member.name.removeprefix("./"): _fact(member, data) for member, data in members(image, digest)}


def content(image: Stored, digest: str, path: str) -> bytes:
    """Return one file's content."""
    for member, data in members(image, digest):
        if data and "/" + member.name.removeprefix("./") == path:
            return data.read()
    raise KeyError(path)


def _fact(member: tarfile.TarInfo, data: IO[bytes] | None) -> Fact:
    others = {key: value for key, value in member.pax_headers.items() if key not in ("mtime", "path", "linkpath")}
    return Fact(
        kind=KINDS.get(member.type, repr(member.type)),
        mode=f"{member.mode:04o}",
        owner=f"{member.uid}:{member.gid}",
        time=member.pax_headers.get("mtime", str(member.mtime)),
        size=member.size,
        target=member.linkname or (f"{member.devmajor}:{member.devminor}" if member.isdev() else ""),
        attributes=" ".join(f"{key}={value!r}" for key, value in sorted(others.items())),
        sha256=_hash(data) if data else "",
    )


def _hash(data: IO[bytes]) -> str:
    hashed = hashlib.sha256()
    while piece := data.read(CHUNK):
        hashed.update(piece)
    return hashed.hexdigest()
