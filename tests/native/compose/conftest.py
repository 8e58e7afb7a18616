"""compose.yaml and what is generated for it, read by Docker Compose itself."""

import sys
from pathlib import Path

import pytest

from imagekit.manifest import Manifest, load_manifest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "unit/imagekit"))  # hostkit


@pytest.fixture(scope="session")
def manifest() -> Manifest:
    return load_manifest()
