"""What `make reproduce` builds on: with --no-cache BuildKit runs every step, and gives each of them empty caches."""

import platform
import uuid
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from imagekit.builder import run_bake
from imagekit.compose.record import find_newest
from imagekit.manifest import ROOT, load_manifest
from imagekit.planner import FORM
from imagekit.reproduce.stored import Stored, read_layout
from tests.e2e.registry_kit import engine

pytestmark = pytest.mark.e2e

# Its layer holds what it finds; TURN makes it another step than the one before.
STEP = r"""FROM base
ARG TURN
RUN --mount=type=cache,id=NAME,target=/root/.cache/uv \
    ls -A /root/.cache/uv >/found; touch /root/.cache/uv/made; touch -d @1000 /found
"""


@pytest.fixture
def base() -> str:
    """The last cann-base of this checkout: any image with a shell would do."""
    found = find_newest(ROOT / "build", "cann-base", load_manifest().get_platform(platform.machine()).arch)
    if found is None:
        pytest.skip("no cann-base has been built: make image")
    return found.reference


def build(folder: Path, dockerfile: Path, base: str, turn: str, no_cache: bool) -> Stored:
    """Build as `make image` and `make reproduce` do, by bake; return the image."""
    target: dict[str, Any] = {
        "context": str(dockerfile.parent),
        "contexts": {"base": f"docker-image://{base}"},
        "args": {"SOURCE_DATE_EPOCH": "1000", "TURN": turn},
        "output": [f"type=oci,tar=false,dest={folder},{FORM}"],
        "attest": ["type=provenance,disabled=true"],
        "no-cache": no_cache,
    }
    run_bake(engine(), {"target": {"step": target}}, ["step"], Console(stderr=True))
    (image,) = read_layout(folder)
    return image


def test_a_build_without_cache_finds_nothing_in_the_caches_of_its_steps(tmp_path: Path, base: str) -> None:
    """Else the second build would take the first one's bytecode and wheels, and a difference would not show."""
    dockerfile = tmp_path / "step" / "Dockerfile"
    dockerfile.parent.mkdir()
    dockerfile.write_text(STEP.replace("NAME", f"test-{uuid.uuid4().hex[:12]}"), encoding="utf-8")
    empty, filled, again, last = (
        build(tmp_path / turn, dockerfile, base, turn, no_cache).layers[-1]
        for turn, no_cache in (("one", False), ("two", False), ("three", True), ("four", True))
    )
    assert filled != empty
    assert [again, last] == [empty, empty]
