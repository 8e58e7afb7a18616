"""What one build leaves in the builder's caches must not change what the next one makes."""

import re

import pytest

from imagekit.manifest import ROOT

STEP = re.compile(r"^RUN (?:.*\\\n)*(?:.*<<'SCRIPT'\n(?:.*\n)*?SCRIPT$|.*)", re.MULTILINE)
DOCKERFILES = sorted((ROOT / "images").glob("*/Dockerfile"))
CACHE = "type=cache,id=uv,"


def steps_with_the_cache() -> list[str]:
    return [step for path in DOCKERFILES for step in STEP.findall(path.read_text(encoding="utf-8")) if CACHE in step]


def test_the_steps_are_found() -> None:
    mounts = sum(path.read_text(encoding="utf-8").count(CACHE) for path in DOCKERFILES)
    assert len(steps_with_the_cache()) == mounts > 1


@pytest.mark.parametrize("step", steps_with_the_cache(), ids=lambda step: step.rpartition("/mnt/")[2][:40])
def test_wheels_in_the_shared_cache_are_built_in_one_way_or_not_at_all(step: str) -> None:
    """gym's setup.py writes its extras in the order of a set, and a wheel that is there is taken."""
    installs = re.findall(r'uv"? pip install[^\n]*', step)
    assert installs
    alike = "PYTHONHASHSEED=0" in step and "CFLAGS=-g0" in step
    assert alike or all("--no-build" in command for command in installs)
