"""Images from nothing: a few files, no shell. What pulling and carrying need takes seconds with them."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagekit.engine import Engine
from imagekit.planner import EXPORT
from tests.e2e.registry_kit import engine, remove_tags, standard_labels


class ScratchImages:
    """Built in the machine's engine, three layers each: one that all share, one of `size` bytes, one of its own."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        """Keep the files in `folder`."""
        self.engine, self.folder, self.made = engine, folder, list[str]()
        (folder / "base").write_bytes(bytes(range(256)) * 4000)

    def build(self, *, simulated: bool = False, size: int = 1000, name: str = "") -> str:
        """Build one as a real image of ours is, with its labels and kind of layers, and return its tag.

        Args:
            simulated: what the labels say.
            size: bytes of its second layer; random, the same for the same size.
            name: tag; a new one if empty.
        """
        tag = name or f"rlinf-npu-e2e:{uuid.uuid4().hex[:12]}"
        blob = self.folder / f"blob-{size}"
        if not blob.exists():
            blob.write_bytes(os.urandom(size))
        (self.folder / "marker").write_text(uuid.uuid4().hex, encoding="utf-8")
        lines = ["FROM scratch", "COPY base /base", f"COPY {blob.name} /blob", "COPY marker /marker"]
        lines += [f"LABEL {key}={json.dumps(value)}" for key, value in standard_labels(simulated).items()]
        (self.folder / "Dockerfile").write_text("\n".join(lines) + "\n", encoding="utf-8")
        kind = f"{EXPORT},name={tag},force-compression=true"
        command = [*self.engine.docker, "buildx", "build", "--quiet", "--provenance=false", f"--output={kind}"]
        done = subprocess.run([*command, str(self.folder)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.made.append(tag)
        return tag

    def remove(self) -> None:
        """Remove all that were made. By the client, which waits: a busy engine takes its time over this."""
        remove_tags(self.engine, self.made)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[ScratchImages]:
    """Images from nothing, removed afterwards."""
    (tmp_path / "scratch").mkdir()
    images = ScratchImages(engine(), tmp_path / "scratch")
    yield images
    images.remove()
