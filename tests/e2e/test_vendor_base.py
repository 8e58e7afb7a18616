"""BASE=cann on the vendor's distribution: Ubuntu 22.04, with a stand-in in place of the vendor's image.

A quarter of an hour on two cores. Everything else is built and tested on Debian 12: its C library, package names and
versions are not those that servers have.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagekit.bench.common import copy_checkout
from imagekit.manifest import ROOT
from tests.e2e.registry_kit import engine, remove_tags
from tests.e2e.vendor_kit import run, stand_in, why_not
from tests.images.support.subjects import Missing, subject

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2 * 3600)]


@pytest.fixture(scope="module")
def vendor() -> Iterator[str]:
    """The image with the vendor's name."""
    try:
        simulated = subject("cann-sim")
    except Missing as error:
        pytest.fail(str(error), pytrace=False)
    if reason := why_not():
        pytest.skip(reason)
    with stand_in(simulated.tags[0]) as name:
        yield name


@pytest.fixture(scope="module")
def checkout(vendor: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout that has built on it, with and without the fixes; the images are removed afterwards."""
    folder = tmp_path_factory.mktemp("vendor")
    copy_checkout(folder)
    shutil.copytree(ROOT / "build/sim-driver", folder / "build/sim-driver", symlinks=True)
    try:
        for change in ({}, {"NO_FIXES": "1"}):
            done = run(folder, "build.py", "image", BASE="cann", **change)
            assert done.returncode == 0, done.stdout[-5000:]
            assert f"CANN image: {vendor}, already here" in done.stdout
            assert "SIMULATED" in done.stdout
        yield folder
    finally:
        remove_tags(engine(), sorted(tag for tags in built(folder).values() for tag in tags))


def built(checkout: Path) -> dict[str, set[str]]:
    """Tags by image of all that was built there."""
    found: dict[str, set[str]] = {}
    for path in (checkout / "build").glob("built-*.json"):
        for name, image in json.loads(path.read_text(encoding="utf-8"))["images"].items():
            found.setdefault(name, set()).update(image["tags"])
    return found


def test_no_base_of_ours_is_built_and_every_tag_says_sim(checkout: Path) -> None:
    assert set(built(checkout)) == {"cann-base", "rlinf-npu"}
    assert all("-ubuntu22.04-" in tag and tag.endswith("-sim") for tags in built(checkout).values() for tag in tags)


def test_the_images_pass_their_tests(checkout: Path) -> None:
    done = run(checkout, "-m", "pytest", "tests/images", "-q", "-nauto", "-m", "not smoke", "--require-images")
    assert done.returncode == 0, done.stdout[-10000:]


def test_the_four_steps(checkout: Path) -> None:
    done = run(checkout, "-m", "pytest", "tests/images", "-q", "-m", "smoke", "--require-images")
    assert done.returncode == 0, done.stdout[-10000:]
