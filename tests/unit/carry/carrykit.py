"""Hand-made images and bundles: what the engine saves, in a few kilobytes, without an engine."""

import atexit
import ctypes
import ctypes.util
import functools
import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from imagekit.carry.bundle import PAGES, Written, make_bundle
from imagekit.manifest import ROOT, load_manifest

PREFIX = load_manifest().project.label_prefix
SIMULATED = {f"{PREFIX}.simulated": "true", f"{PREFIX}.fixes": "npufix"}
NAME = "rlinf-npu:0.3.0-abc-sim"
QUIET = Console(file=io.StringIO())


def sha(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def tar(**files: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


@cache  # finding it starts a process
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    library.ZSTD_compressBound.argtypes = (ctypes.c_size_t,)
    library.ZSTD_compress.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int,
    )
    return library


def zstd(content: bytes) -> bytes:
    """One frame, by the same library that reads it."""
    library = _library()
    room = library.ZSTD_compressBound(len(content))
    target = ctypes.create_string_buffer(room)
    size = library.ZSTD_compress(target, room, content, len(content), 1)
    return target.raw[:size]


class SavedImage:
    """What a bundle asks of the SDK's Image. `layers` are plain tars, `kept` is how the engine keeps them."""

    def __init__(self, layers: list[bytes], *, kept: str = "zstd", names: list[str] | None = None) -> None:
        self.tags, self.labels, self.short_id = names or [NAME], dict(SIMULATED), "sha256:0123"
        self.attrs = {"Os": "linux", "Architecture": "amd64", "Size": 1}
        pack = {"zstd": zstd, "gzip": lambda data: gzip.compress(data, mtime=0), "plain": bytes}[kept]
        diff_ids = [sha(layer) for layer in layers]
        self.blobs = [pack(layer) for layer in layers]
        self.config = json.dumps({"rootfs": {"diff_ids": diff_ids}, "os": "linux", "architecture": "amd64"}).encode()
        self.manifest = json.dumps(
            {
                "config": {"digest": sha(self.config)},
                "layers": [{"digest": sha(blob), "size": len(blob)} for blob in self.blobs],
            }
        ).encode()

    def history(self) -> list[dict[str, Any]]:
        return [{"Size": 7}, {"Size": 35}]

    def save(self, _: int, *, named: str) -> Iterator[bytes]:
        """As an engine since 25 writes it: an OCI layout with manifest.json."""
        assert named in self.tags
        paths = [f"blobs/sha256/{sha(blob)[7:]}" for blob in self.blobs]
        config = f"blobs/sha256/{sha(self.config)[7:]}"
        entries = [{"Config": config, "RepoTags": [named], "Layers": paths}]
        files = dict(zip(paths, self.blobs, strict=True)) | {config: self.config}
        files |= {f"blobs/sha256/{sha(self.manifest)[7:]}": self.manifest}
        files |= {"index.json": json.dumps({"manifests": [{"digest": sha(self.manifest)}]}).encode()}
        yield tar(**files, **{"manifest.json": json.dumps(entries).encode()})


class OldSavedImage(SavedImage):
    """As engines before 25 write it: a folder a layer, plain tars."""

    def save(self, _: int, *, named: str) -> Iterator[bytes]:
        paths = [f"{number}/layer.tar" for number, _ in enumerate(self.blobs)]
        entries = [{"Config": "abc.json", "RepoTags": [named], "Layers": paths}]
        files = dict(zip(paths, self.blobs, strict=True)) | {"abc.json": self.config}
        yield tar(**files, **{"manifest.json": json.dumps(entries).encode()})


BASE, MIDDLE, LATE = tar(base=b"b" * 5000), tar(middle=b"m" * 300), tar(late=b"1")


@functools.cache
def small_checkout() -> Path:
    """The pages of the real one, and one file of each folder: bundles are written in a moment."""
    folder = Path(tempfile.mkdtemp(prefix="carry-"))
    atexit.register(shutil.rmtree, folder)
    for name in (*PAGES, "docs/compose.md", "imagekit/errors.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def write(image: Any, output: Path, since: Path | None = None, root: Path | None = None) -> Written:
    """What `make bundle` does."""
    return make_bundle(load_manifest(), image, output, since, QUIET, root or small_checkout())
