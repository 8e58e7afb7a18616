"""What the host-side unit tests share: the real manifest, and programs that only pretend."""

import os
from pathlib import Path

import pytest
from hostkit import AddProgram, Said

from imagekit.manifest import Manifest, load_manifest


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture(scope="session")
def manifest() -> Manifest:
    return load_manifest()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddProgram:
    """PATH with nothing but the programs that a test adds (shell scripts); coreutils stay in reach by `$BIN`.

    The real docker, apt and dockerd of this machine are out of reach.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith(("DOCKER_", "BUILDX_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("imagekit.engine.daemon.SBIN", str(folder))

    def add(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\nBIN=/usr/bin:/bin\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return add
