"""Where images are published: images.toml's registry, or REGISTRY=host/namespace."""

import os
from collections.abc import Mapping

from imagekit.errors import Problem
from imagekit.manifest import Manifest
from imagekit.registry import Reference, parse


def repository(manifest: Manifest, image: str, environ: Mapping[str, str] = os.environ) -> Reference:
    """Return the repository of an image in the release registry.

    Raises:
        Problem: REGISTRY is not host/namespace.
    """
    root = (environ.get("REGISTRY") or manifest.publish.registry).rstrip("/")
    host, _, namespace = root.partition("/")
    if not namespace or not ("." in host or ":" in host or host == "localhost"):
        raise Problem(f"REGISTRY={root!r} is not a place to publish", "REGISTRY=HOST/NAMESPACE", usage=True)
    return parse(f"{root}/{image}")


def by_digest(text: str) -> Reference:
    """Take `HOST/REPOSITORY@sha256:...` apart.

    Raises:
        Problem: it names no digest: a tag may move between a test and what follows from it.
    """
    found = parse(text)
    if not found.digest:
        raise Problem(
            f"{text} names no digest", "IMAGE=HOST/REPOSITORY@sha256:DIGEST, as `make push` prints it", usage=True
        )
    return found.at(found.digest)
