"""Write an image as the OCI layout that is also a `docker load` archive, for engines of every age."""

import json
from pathlib import Path
from typing import Any

from imagekit.carry.contents import BLOBS, Layer, blob_path
from imagekit.registry import digest_of

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"


def manifest_for(config: bytes, layers: list[Layer], originals: list[bytes]) -> bytes:
    """Return the image's manifest: one of the originals where its layers are these, so that the digest stays."""
    parts = [digest_of(config), *(layer.digest for layer in layers)]
    for original in originals:
        known = json.loads(original)
        if [known["config"]["digest"], *(layer["digest"] for layer in known["layers"])] == parts:
            return original
    return _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(config), "size": len(config)},
            "layers": [{"mediaType": LAYER_TYPE, "digest": layer.digest, "size": layer.size} for layer in layers],
        }
    )


def write_layout(folder: Path, config: bytes, manifest: bytes, layers: list[Layer], names: list[str]) -> None:
    """Write everything but the layers: configuration, manifest, OCI's index and Docker's."""
    for content in (config, manifest):
        (folder / blob_path(digest_of(content))).write_bytes(content)
    media_type = json.loads(manifest).get("mediaType", MANIFEST_TYPE)
    target = {"mediaType": media_type, "digest": digest_of(manifest), "size": len(manifest)}
    index = {"schemaVersion": 2, "manifests": [target | {"annotations": _named(name)} for name in names]}
    entry = {
        "Config": blob_path(digest_of(config)),
        "RepoTags": names,
        "Layers": [blob_path(layer.digest) for layer in layers],
    }
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    (folder / "index.json").write_bytes(_json(index))
    (folder / "manifest.json").write_bytes(_json([entry]))


def make_folder(folder: Path) -> Path:
    """Make the layout's folders and return the one of the blobs."""
    blobs = folder / BLOBS
    blobs.mkdir(parents=True)
    return blobs


def _named(name: str) -> dict[str, str]:
    """containerd takes the full name, older engines the tag."""
    repository, _, tag = name.rpartition(":")
    host = repository.partition("/")[0]
    registry = "" if "/" in repository and ("." in host or ":" in host or host == "localhost") else "docker.io/"
    library = "library/" if registry and "/" not in repository else ""
    return {
        "io.containerd.image.name": f"{registry}{library}{name}",
        "org.opencontainers.image.ref.name": tag,
    }


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
