"""A real registry for tests (Debian's docker-registry, TLS, basic auth, loopback), and tiny images to put into it.

`from tests.e2e.registry_kit import registry, tiny` makes the fixtures known to a test module.
"""

import json
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from imagekit.engine import Engine, find_engine
from imagekit.errors import Problem
from imagekit.manifest import load_manifest
from imagekit.registry.server import LoopbackRegistry, loopback_registry


def engine() -> Engine:
    """The engine; a test without one is skipped."""
    found = find_engine()
    if found is None:
        pytest.skip("no Docker engine answers: make engine")
    return found


@pytest.fixture
def registry() -> Iterator[LoopbackRegistry]:
    """A registry of its own, trusted by the engine, gone afterwards."""
    try:
        with loopback_registry() as started:
            yield started
    except Problem as problem:
        pytest.skip(str(problem))


class TinyImages:
    """Images of a few bytes on top of the Debian base that a build has left in the engine."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        """Keep Dockerfiles in `folder`."""
        self.engine, self.folder, self.made = engine, folder, list[str]()
        self.base = base_image(engine)

    def build(self, *, run: str = "true", labels: Mapping[str, str] | None = None, name: str = "") -> str:
        """Build one and return its tag.

        Args:
            run: a line of shell that makes its layer.
            labels: more labels, or other ones, than a real image of ours has.
            name: tag; a new one if empty.
        """
        tag = name or f"rlinf-npu-e2e:{uuid.uuid4().hex[:12]}"
        lines = [f"FROM {self.base}", f"RUN {run}", f"RUN echo {uuid.uuid4().hex} >/marker"]
        lines += [f"LABEL {key}={json.dumps(value)}" for key, value in (standard_labels() | dict(labels or {})).items()]
        (self.folder / "Dockerfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [*self.engine.docker, "buildx", "build", "--quiet", "--provenance=false", f"--tag={tag}"]
        done = subprocess.run(
            [*command, "--network=none", str(self.folder)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        self.made.append(tag)
        return tag

    def remove(self) -> None:
        """Remove all that were made."""
        client = self.engine.client()
        for tag in self.made:
            for image in client.images.list(tag):
                client.images.remove(image.id, force=True)


def remove_tags(engine: Engine, tags: list[str]) -> None:
    """Remove what is there of them."""
    subprocess.run([*engine.docker, "image", "rm", "--force", *tags], capture_output=True, check=False)


def base_image(engine: Engine) -> str:
    """The Debian base of the engine's own architecture; a test without one is skipped."""
    arch = load_manifest().get_platform(engine.arch).arch
    images = engine.client().images.list("rlinf-npu/debian")
    tags = [tag for image in images if image.attrs["Architecture"] == arch for tag in image.tags]
    if not tags:
        pytest.skip("no Debian base in the engine: make image BASE=sim")
    return tags[0]


def standard_labels(simulated: bool = True) -> dict[str, str]:
    """The labels of an image of ours, as far as publishing reads them."""
    manifest = load_manifest()
    oci, ours = "org.opencontainers.image", manifest.project.label_prefix
    return {
        f"{oci}.title": manifest.image[-1].title,
        f"{oci}.version": manifest.versions.rlinf,
        f"{oci}.revision": "0123456789ab",
        f"{oci}.created": "2026-01-01T00:00:00Z",
        f"{oci}.base.name": "debian:bookworm",
        f"{oci}.base.digest": "sha256:" + "0" * 64,
        f"{ours}.base": "sim" if simulated else "cann",
        f"{ours}.simulated": str(simulated).lower(),
        f"{ours}.cann": manifest.versions.cann,
        f"{ours}.chip": manifest.versions.chip,
        f"{ours}.fixes": "npufix",
    }


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyImages]:
    """Tiny images, removed afterwards."""
    images = TinyImages(engine(), tmp_path)
    yield images
    images.remove()
