"""torch_npu, Ray, RLinf, our helper and the scripts count the same cards."""

import json
from collections.abc import Callable

import pytest

from tests.images.support.container import Container
from tests.images.support.subjects import Subject

pytestmark = pytest.mark.device
Npus = Callable[[int], Container]

# ASCEND_RT_VISIBLE_DEVICES on a host with 8 cards -> cards that a process sees. torch_npu 2.6's rules: ascending ids,
# up to the first that does not exist; what follows the first character that is neither digit nor comma is ignored.
FORMS: list[tuple[str | None, int]] = [
    (None, 8),
    ("", 0),
    ("0", 1),
    ("7", 1),
    ("0,1,2,3", 4),
    ("2,5,7", 3),
    ("0,1,2,3,4,5,6,7", 8),
    ("8", 0),
    ("0,8", 1),
    ("6,7,8,9", 2),
    ("1,0", 0),
    ("3,3", 0),
    ("all", 0),
    ("0,1,x", 2),
    ("-1", 0),
]
SCRIPT = "/opt/rlinf/examples/offline_rl/advantage_labeling/recap/process/run_compute_advantages.sh"


def check(answer: dict[str, int], expected: int) -> None:
    """Everybody says `expected`."""
    assert answer == {
        "torch": expected,
        "available": expected > 0,
        "ray": expected,
        "rlinf": expected,
        "helper": expected,
        "npu-count": expected,
    }


@pytest.mark.parametrize("number", [0, 1, 8, 16])
def test_everybody_counts(npus: Npus, number: int) -> None:
    (answer,) = npus(number).probe("count_devices", "null")
    check(answer, number)


@pytest.fixture(scope="session")
def answers(npus: Npus) -> list[dict[str, int]]:
    """Everybody's answer to each of FORMS."""
    found: list[dict[str, int]] = npus(8).probe("count_devices", *(json.dumps(form) for form, _ in FORMS), seconds=120)
    return found


@pytest.mark.parametrize("index", range(len(FORMS)), ids=[repr(form) for form, _ in FORMS])
def test_visible_devices(answers: list[dict[str, int]], index: int) -> None:
    check(answers[index], FORMS[index][1])


def test_a_fresh_process_agrees_with_the_forked_ones(npus: Npus) -> None:
    code = "import torch; print(torch.npu.device_count())"
    assert npus(8).python(code, env={"ASCEND_RT_VISIBLE_DEVICES": "2,5,7"}).out.strip() == "3"


@pytest.mark.parametrize(
    ("number", "visible", "expected"), [(8, None, 8), (16, None, 16), (8, "2,5,7", 3), (1, None, 1)]
)
def test_the_script_counts_them_too(
    subject: Subject, npus: Npus, number: int, visible: str | None, expected: int
) -> None:
    """The seed's 7.3: unfixed it says 'GPUs: 1' on a machine with 8 cards."""
    if not npus(number).host.file(SCRIPT).exists:
        pytest.skip(f"RLinf from {subject.label('rlinf.source')} has no examples, so no script")
    assert script_says(npus(number), visible) == f"GPUs: {expected}"


def test_the_script_does_not_fall_to_one_silently(subject: Subject, npus: Npus) -> None:
    if not npus(0).host.file(SCRIPT).exists:
        pytest.skip(f"RLinf from {subject.label('rlinf.source')} has no examples, so no script")
    assert script_says(npus(0), None) == ""


def script_says(container: Container, visible: str | None) -> str:
    """The script's own line about the number of cards. What it would start is replaced."""
    stop = (
        "mkdir -p /tmp/stop; "
        "for p in python torchrun; do printf '#!/bin/sh\n' >/tmp/stop/$p; chmod +x /tmp/stop/$p; done"
    )
    env = {} if visible is None else {"ASCEND_RT_VISIBLE_DEVICES": visible}
    done = container.sh(f"{stop}; PATH=/tmp/stop:$PATH bash {SCRIPT} some_config", env=env)
    return next((line.strip() for line in done.out.splitlines() if "GPUs:" in line), "")


def test_name(npus: Npus) -> None:
    code = "import torch; print(torch.npu.get_device_name(7))"
    assert npus(8).python(code).out.strip() == "Ascend910B3"


def test_npu_smi_lists_them_and_says_simulated(npus: Npus) -> None:
    shown = npus(8).exec(["npu-smi", "info"]).out
    assert shown.count("910B3") == 8
    assert "simulated" in shown
