"""On a real Ascend host with an image on the real CANN: the same questions, asked of real cards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from imagekit.simhost import Nodes
from tests.images.support.container import PROBES, Container
from tests.images.support.subjects import Subject, manifest

pytestmark = pytest.mark.real_npu
DEVICES = manifest().devices


def real_cards() -> list[str]:
    """Card nodes of this machine that are not simulated."""
    names = (DEVICES.card.format(id=number) for number in range(DEVICES.max_cards))
    return [name for name in names if Path(name).exists() and not Nodes().is_simulated(Path(name))]


@pytest.fixture(scope="session")
def real(subject: Subject) -> Iterator[Container]:
    """A container with every real card of this machine."""
    cards = real_cards()
    if not cards:
        pytest.skip("no real NPU on this machine (/dev/davinci<N>)")
    if subject.simulated:
        pytest.skip("the image stands on the simulated CANN: build with BASE=cann")
    mounts = {mount.path: {"bind": mount.path, "mode": "ro"} for mount in DEVICES.mounts if Path(mount.path).exists()}
    nodes = [f"{node}:{node}:rwm" for node in [*cards, *DEVICES.managers] if Path(node).exists()]
    with subject.run(devices=nodes, volumes=mounts, shm_size="16g", network_mode="host") as container:
        yield container


def test_all_cards_are_counted(real: Container) -> None:
    (answer,) = real.probe("count_devices", "null", seconds=180)
    assert set(answer.values()) == {len(real_cards()), True}


def test_it_trains(real: Container) -> None:
    found = real.probe("train", seconds=300)
    assert found["sum"] == 1024 * 256
    assert found["copied"]
    assert found["losses"][-1] < 0.2 * found["losses"][0]


def test_collectives(real: Container) -> None:
    if len(real_cards()) < 2:
        pytest.skip("one card only")
    real.exec(["sh", "-c", "cat >/tmp/train.py"], stdin=(PROBES / "train.py").read_text(encoding="utf-8"))
    done = real.exec(["python", "/tmp/train.py", "2", "/tmp/reduce"], seconds=300)
    assert done.ok, done.err[-3000:]


def test_the_four_steps(real: Container) -> None:
    done = real.exec(["smoke", "run", "--workdir", "/workspace/smoke", "--timeout", "1800"], seconds=1900)
    assert done.ok, done.out[-4000:]


def test_the_doctor_is_content(real: Container) -> None:
    done = real.exec(["doctor"], seconds=180)
    assert done.code == 0, done.out
