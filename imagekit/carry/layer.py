"""Bring a layer into the form every engine reads: gzip. Compressed on all cores, in blocks, as pigz does."""

import hashlib
import itertools
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from imagekit.carry import zstd
from imagekit.errors import Problem

GZIP = b"\x1f\x8b"
LEVEL = 4  # level 6 takes twice as long for a few percent
# RFC 1952: deflate, no name, no time (the same layer gives the same bytes), unknown system.
HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
LAST_BLOCK = b"\x03\x00"


@dataclass(frozen=True)
class Blob:
    """A file of an image by its content; `size` in bytes."""

    digest: str
    size: int


def store(data: Iterable[bytes], folder: Path) -> Blob:
    """Write `data` to `folder`/<sha256>; nothing is left when that fails."""
    hashed, size, part = hashlib.sha256(), 0, folder / ".part"
    try:
        with part.open("wb") as file:
            for piece in data:
                hashed.update(piece)
                size += file.write(piece)
        part.replace(folder / hashed.hexdigest())
    finally:
        part.unlink(missing_ok=True)
    return Blob(f"sha256:{hashed.hexdigest()}", size)


def as_gzip(data: Iterator[bytes], diff_id: str) -> Iterator[bytes]:
    """Yield a layer as gzip. What is gzip already is passed on as it is: nothing is compressed twice.

    Args:
        data: gzip, zstd or a plain tar, in pieces of any size.
        diff_id: digest of the plain tar, which the image's configuration names.

    Raises:
        Problem: the layer is not what the configuration says.
    """
    first = next(data, b"")
    whole = itertools.chain([first], data)
    if first.startswith(GZIP):
        return whole
    plain = zstd.decompress(whole) if first.startswith(zstd.MAGIC) else whole
    return _compress(_checked(plain, diff_id))


def _checked(plain: Iterable[bytes], diff_id: str) -> Iterator[bytes]:
    hashed = hashlib.sha256()
    for piece in plain:
        hashed.update(piece)
        yield piece
    if f"sha256:{hashed.hexdigest()}" != diff_id:
        raise Problem(f"the engine's copy of layer {diff_id[7:19]} is damaged", "pull or build the image again")


def _compress(plain: Iterable[bytes]) -> Iterator[bytes]:
    """One gzip member of blocks that were compressed on their own; zlib lets the other threads work meanwhile."""
    workers = os.cpu_count() or 1
    waiting: deque[Future[bytes]] = deque()
    checksum = size = 0
    yield HEADER
    with ThreadPoolExecutor(workers) as pool:
        for piece in plain:
            checksum, size = zlib.crc32(piece, checksum), size + len(piece)
            waiting.append(pool.submit(_block, piece))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    yield LAST_BLOCK + checksum.to_bytes(4, "little") + (size % (1 << 32)).to_bytes(4, "little")


def _block(piece: bytes) -> bytes:
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(piece) + deflate.flush(zlib.Z_SYNC_FLUSH)
