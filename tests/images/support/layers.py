"""Read every layer of images: what `docker save` writes, unpacked on the fly, without touching the disk.

Layers, not the merged file system: a file that a later step removed is still in the image for everybody who pulls it.
"""

import contextlib
import ctypes
import ctypes.util
import gzip
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Protocol

from imagekit.engine import Engine

ZSTD, GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
BLOCK = 1 << 20


class Readable(Protocol):
    """What a decompressor needs of its source."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""


@dataclass(frozen=True)
class Entry:
    """A file of a layer, or a document about an image (`layer` is empty then). `time`: seconds, 0 of a document."""

    layer: str
    path: str
    regular: bool
    size: int
    data: IO[bytes]
    time: float = 0

    def pieces(self, overlap: int) -> Iterator[bytes]:
        """The content in pieces that overlap, so that no needle of up to `overlap` bytes is cut in two."""
        tail = b""
        while piece := self.data.read(8 * BLOCK):
            yield tail + piece if tail else piece
            tail = piece[-overlap:]


def entries(engine: Engine, images: list[str]) -> Iterator[Entry]:
    """Everything in `images`: configurations and manifests, and each file of each layer (shared layers once)."""
    command = [*engine.docker, "save", *images]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | engine.env) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|", bufsize=BLOCK) as archive:
            for member in archive:
                if member.isfile():
                    yield from _blob(member.name, member.size, archive.extractfile(member))
        process.stdout.read()
    assert process.returncode == 0, f"docker save ended with {process.returncode}"


def _blob(name: str, size: int, blob: IO[bytes] | None) -> Iterator[Entry]:
    assert blob is not None
    source = io.BufferedReader(blob, BLOCK)  # type: ignore[type-var]  # an ExFileObject is a raw stream as well
    head = source.peek(512)
    if head[:1] in (b"{", b"["):
        yield Entry("", name, True, size, source)
        return
    stream: Readable = source
    if head.startswith(ZSTD):
        stream = Zstd(source)
    elif head.startswith(GZIP):
        stream = gzip.GzipFile(fileobj=source)
    elif head[257:262] != b"ustar":
        yield Entry("", name, True, size, source)
        return
    with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK) as layer:  # type: ignore[call-overload]
        for member in layer:
            content = layer.extractfile(member) if member.isfile() else io.BytesIO(member.linkname.encode())
            assert content is not None
            path = "/" + member.name.removeprefix("./")
            yield Entry(name, path, member.isfile(), member.size, content, member.mtime)


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer: pointer, size, position."""

    _fields_ = (("pointer", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t))


class Zstd:
    """Decompress with the system's libzstd, which dpkg and rpm link to. Python has a zstd of its own from 3.14 on."""

    def __init__(self, source: Readable) -> None:
        """Read compressed bytes from `source`."""
        self._source = source
        self._lib = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
        self._lib.ZSTD_createDStream.restype = ctypes.c_void_p
        self._lib.ZSTD_decompressStream.restype = ctypes.c_size_t
        self._lib.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.POINTER(_Buffer)]
        self._lib.ZSTD_isError.argtypes = [ctypes.c_size_t]
        self._lib.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
        self._stream = self._lib.ZSTD_createDStream()
        self._input, self._in = b"", _Buffer(None, 0, 0)
        self._target = ctypes.create_string_buffer(BLOCK)

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""
        if size > len(self._target):
            self._target = ctypes.create_string_buffer(size)
        out = _Buffer(ctypes.addressof(self._target), size, 0)
        while out.position < size:
            if self._in.position == self._in.size:
                self._input = self._source.read(BLOCK)
                self._in = _Buffer(
                    ctypes.cast(ctypes.c_char_p(self._input), ctypes.c_void_p).value, len(self._input), 0
                )
                if not self._input:
                    break
            code = self._lib.ZSTD_decompressStream(self._stream, ctypes.byref(out), ctypes.byref(self._in))
            if self._lib.ZSTD_isError(code):
                raise OSError("not a zstd stream, or a damaged one")
        return ctypes.string_at(self._target, out.position)

    def __del__(self) -> None:
        """Give libzstd's memory back."""
        with contextlib.suppress(AttributeError):
            self._lib.ZSTD_freeDStream(self._stream)
