"""Layers become gzip, which every engine reads; what is gzip already stays, byte for byte."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from carrykit import sha, zstd

from imagekit.carry import layer
from imagekit.errors import Problem

PLAIN = os.urandom(300_000) + b"a" * 2_500_000 + b"end"


def pieces(data: bytes, size: int = 100_000) -> Iterator[bytes]:
    yield from (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("kept", [zstd(PLAIN), PLAIN, zstd(PLAIN[:1000]) + zstd(PLAIN[1000:])])
@pytest.mark.parametrize("size", [1 << 20, 4099])
def test_zstd_and_plain_layers_become_one_gzip_member(kept: bytes, size: int) -> None:
    packed = b"".join(layer.as_gzip(pieces(kept, size), sha(PLAIN)))
    reader = zlib.decompressobj(zlib.MAX_WBITS | 16)
    assert reader.decompress(packed) == PLAIN
    assert reader.eof
    assert reader.unused_data == b""  # nothing behind the member: old readers stop at the first


def test_the_same_layer_gives_the_same_bytes() -> None:
    assert list(layer.as_gzip(pieces(PLAIN), sha(PLAIN))) == list(layer.as_gzip(pieces(PLAIN), sha(PLAIN)))


def test_gzip_is_not_compressed_again() -> None:
    packed = gzip.compress(PLAIN)
    assert b"".join(layer.as_gzip(pieces(packed), "sha256:not looked at")) == packed


@pytest.mark.parametrize(
    ("kept", "line"),
    [
        (zstd(PLAIN)[:-7], "a zstd layer of the image ends early"),
        (zstd(PLAIN)[:9] + b"\xff" * 40 + zstd(PLAIN)[49:], "a zstd layer of the image is damaged"),
        (PLAIN[:-1], "the engine's copy of layer"),
        (zstd(PLAIN[:-1]), "the engine's copy of layer"),
        (b"", "the engine's copy of layer"),
    ],
)
def test_a_damaged_layer_is_refused(kept: bytes, line: str) -> None:
    with pytest.raises(Problem) as raised:
        list(layer.as_gzip(pieces(kept), sha(PLAIN)))
    assert raised.value.what.startswith(line)


def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:

    folder = tmp_path
    blob = layer.store(pieces(PLAIN), folder)
    assert (folder / blob.digest[7:]).read_bytes() == PLAIN
    assert blob == layer.Blob("sha256:" + hashlib.sha256(PLAIN).hexdigest(), len(PLAIN))

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        layer.store(broken(), folder)
    assert [path.name for path in folder.iterdir()] == [blob.digest[7:]]
