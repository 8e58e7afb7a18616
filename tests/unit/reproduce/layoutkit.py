"""Made-up images: an OCI layout of layers that a test writes entry by entry."""

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imagekit.reproduce.stored import Stored, read_layout


@dataclass
class File:
    """An entry of a layer."""

    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    mode: int = 0o644
    uid: int = 0
    mtime: int = 1000
    target: str = ""
    pax: dict[str, str] = field(default_factory=dict)


def layer(files: list[File]) -> bytes:
    """A plain tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in files:
            member = tarfile.TarInfo(file.name)
            member.type, member.mode, member.uid, member.mtime = file.kind, file.mode, file.uid, file.mtime
            member.linkname, member.size, member.pax_headers = file.target, len(file.data), file.pax
            tar.addfile(member, io.BytesIO(file.data))
    return buffer.getvalue()


def write(folder: Path, layers: list[bytes], **config: Any) -> Path:
    """An OCI layout of one image; returns its folder."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    parts = [put(data) for data in layers]
    steps = [{"created_by": f"RUN step {number}"} for number in range(1, len(layers) + 1)]
    document = {"config": {"Labels": {"org.opencontainers.image.title": "An image"}}, "history": steps} | config
    manifest = put(json.dumps({"config": put(json.dumps(document).encode()), "layers": parts}).encode())
    (folder / "index.json").write_text(json.dumps({"manifests": [manifest]}))
    return folder


def image(folder: Path, *layers: list[File], **config: Any) -> Stored:
    """An image of these layers."""
    return read_layout(write(folder, [layer(files) for files in layers], **config))[0]
