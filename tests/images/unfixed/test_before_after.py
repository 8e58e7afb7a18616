"""Each documented symptom: there in an image built with NO_FIXES=1, gone in ours. Writes reports/before-after.json."""

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import pytest

from imagekit.manifest import ROOT
from imagekit.tags import UNFIXED
from tests.images.conftest import missing_is_reported
from tests.images.support import subjects
from tests.images.support.container import Container
from tests.images.support.simulated import simulated_host
from tests.images.support.subjects import Missing, Subject
from tests.images.unfixed.symptoms import SYMPTOMS, Symptom

pytestmark = pytest.mark.device
IMAGE = "rlinf-npu"
CARDS = 8
TOP_LAYERS = 4
REPORT = ROOT / "reports" / "before-after.json"


def unfixed_image() -> Subject:
    """The image without fixes: UNFIXED_IMAGE, else the newest `make image NO_FIXES=1`."""
    if reference := os.environ.get("UNFIXED_IMAGE"):
        return subjects.from_reference(IMAGE, reference)
    return subjects.subject(IMAGE, fixes=False)


def packages(image: Subject) -> list[str]:
    """The layers below RLinf's tree, the reports, the facts and our runtime."""
    layers: list[str] = image.attrs["RootFS"]["Layers"]
    return layers[:-TOP_LAYERS]


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> dict[str, Subject]:
    """The two images. They must differ in the fixes and in nothing else."""
    with missing_is_reported(request.config):
        ours = subjects.subject(IMAGE)
    try:
        other = unfixed_image()
    except Missing as missing:
        pytest.skip(str(missing))
    if ours.label("rlinf.revision") != other.label("rlinf.revision"):
        pytest.skip("the two images hold different revisions of RLinf: build both from the same SOURCE")
    if packages(ours) != packages(other):
        pytest.skip("the two images hold different packages: build both from the same checkout")
    return {"before": other, "after": ours}


@pytest.fixture(scope="module")
def containers(request: pytest.FixtureRequest, both: dict[str, Subject]) -> Iterator[dict[str, Container]]:
    """One container of each, on the same simulated cards."""
    if not both["after"].simulated:
        pytest.skip("stands on the real CANN")
    with ExitStack() as stack:
        with missing_is_reported(request.config):
            cards = stack.enter_context(simulated_host(both["after"]))
        yield {
            name: stack.enter_context(image.run(**cards.options(CARDS), shm_size="2g")) for name, image in both.items()
        }


@pytest.fixture(scope="module")
def table(both: dict[str, Subject]) -> Iterator[list[dict[str, Any]]]:
    """What was seen; written at the end."""
    rows: list[dict[str, Any]] = []
    yield rows
    source = {name: both["after"].label(f"rlinf.{name}") for name in ("source", "revision")}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps({"rlinf": source, "simulated": True, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def test_the_unfixed_image_says_so(both: dict[str, Subject]) -> None:
    assert both["before"].label("fixes") == "none"
    assert all(UNFIXED in tag for tag in both["before"].tags)  # empty for UNFIXED_IMAGE
    assert both["after"].label("fixes") == "npufix"


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=[symptom.name for symptom in SYMPTOMS])
def test_symptom(containers: dict[str, Container], table: list[dict[str, Any]], symptom: Symptom) -> None:
    if not containers["before"].host.file(symptom.needs).exists:
        pytest.skip(f"this source of RLinf has no {symptom.needs}")
    with ThreadPoolExecutor() as pool:
        told = pool.map(lambda container: container.probe("symptoms", symptom.name, seconds=240), containers.values())
        seen = {name: answer["seen"] for name, answer in zip(containers, told, strict=True)}
    table.append(asdict(symptom) | {f"seen_{name}": shorten(text) for name, text in seen.items()})
    assert re.search(symptom.before, seen["before"]), f"unfixed: {seen['before']}"
    assert re.search(symptom.after, seen["after"]), f"ours: {seen['after']}"
    assert not re.search(symptom.before, seen["after"]), f"ours still shows it: {seen['after']}"


def shorten(text: str) -> str:
    """The first line, for a table."""
    first = text.strip().splitlines()[0] if text.strip() else ""
    return first if len(first) <= 160 else first[:157] + "..."
