"""Read zstd streams through the system's libzstd: Python 3.11 has no zstd, dpkg and rpm bring the library."""

import ctypes
import ctypes.util
from collections.abc import Iterable, Iterator
from functools import cache

from imagekit.errors import Problem

MAGIC = b"\x28\xb5\x2f\xfd"
CHUNK = 1 << 20


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer have the same form."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t))


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    except OSError:
        raise Problem("libzstd is not on this machine, the image's layers need it", "install libzstd1") from None
    library.ZSTD_createDStream.restype = ctypes.c_void_p
    library.ZSTD_freeDStream.argtypes = (ctypes.c_void_p,)
    step = library.ZSTD_decompressStream
    step.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.POINTER(_Buffer))
    step.restype = ctypes.c_size_t
    library.ZSTD_isError.argtypes = (ctypes.c_size_t,)
    return library


def decompress(data: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what the zstd frames in `data` hold, up to 1 MiB at a time.

    Raises:
        Problem: no libzstd here, or the stream is damaged or ends early.
    """
    library = _library()
    stream = library.ZSTD_createDStream()
    target = ctypes.create_string_buffer(CHUNK)
    left: int = 0
    try:
        for piece in data:
            given = _Buffer(ctypes.cast(ctypes.c_char_p(piece), ctypes.c_void_p), len(piece), 0)
            full = False
            while given.position < given.size or (full and left):  # a full output may leave more inside the decoder
                taken = _Buffer(ctypes.cast(target, ctypes.c_void_p), CHUNK, 0)
                left = library.ZSTD_decompressStream(stream, ctypes.byref(taken), ctypes.byref(given))
                if library.ZSTD_isError(left):
                    raise Problem("a zstd layer of the image is damaged", "pull or build the image again")
                full = taken.position == CHUNK
                if taken.position:
                    yield ctypes.string_at(target, taken.position)
    finally:
        library.ZSTD_freeDStream(stream)
    if left:
        raise Problem("a zstd layer of the image ends early", "pull or build the image again")
