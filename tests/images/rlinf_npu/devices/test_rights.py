"""Who may use a card: root and the owner of the nodes, nobody else."""

from collections.abc import Iterator

import pytest

from tests.images.cann_base.test_health import FAST, health
from tests.images.support.container import Container
from tests.images.support.simulated import CAPABILITY_FREE, Cards
from tests.images.support.subjects import Subject, manifest

pytestmark = pytest.mark.device
COUNT = "import torch; print(torch.npu.device_count())"
OWNER = str(manifest().devices.uid)


@pytest.fixture(scope="session")
def four(subject: Subject, cards: Cards) -> Iterator[Container]:
    """Four cards."""
    with subject.run(**cards.options(4)) as container:
        yield container


def counted(container: Container, user: str) -> int:
    """What torch_npu counts for that user."""
    done = container.python(COUNT, user=user, env={"HOME": "/tmp"})
    assert done.ok, done.err
    return int(done.out)


def test_the_owner_sees_them(four: Container) -> None:
    assert counted(four, OWNER) == 4


def test_the_owner_can_use_them(four: Container) -> None:
    done = four.python("import torch; print(torch.ones(3).npu().sum().item())", user=OWNER)
    assert done.out.strip() == "3.0", done.err


def test_another_user_sees_none(four: Container) -> None:
    assert counted(four, "4242:4242") == 0
    done = four.exec(["npu-count"], user="4242:4242")
    assert done.out.strip() == "0"
    assert "4 cards" in done.err


def test_another_user_in_the_group_sees_them(four: Container) -> None:
    """The nodes are 0660: membership in the group is enough."""
    assert counted(four, f"4242:{manifest().devices.gid}") == 4


def test_root_without_capabilities_sees_none(subject: Subject, cards: Cards) -> None:
    """ascend-device-plugin#139: root is not the owner, and without CAP_DAC_OVERRIDE it needs to be."""
    with subject.run(**cards.options(4), **CAPABILITY_FREE) as container:
        assert counted(container, "root") == 0
        assert "4 cards" in container.exec(["npu-count"]).err


def test_the_nodes_keep_owner_and_mode(four: Container) -> None:
    devices = manifest().devices
    node = four.host.file(devices.card.format(id=0))
    assert (node.uid, node.gid, node.mode) == (devices.uid, devices.gid, int(devices.mode, 8))


def test_health_is_bad_when_a_card_cannot_be_opened(subject: Subject, cards: Cards) -> None:
    with subject.run(**cards.options(2), user="4242:4242", healthcheck=FAST) as container:
        status, said = health(container)
    assert status == "unhealthy"
    assert "uid 4242 may not open /dev/davinci0" in said


def test_health_is_good_for_the_owner(subject: Subject, cards: Cards) -> None:
    with subject.run(**cards.options(2), user=OWNER, healthcheck=FAST) as container:
        assert health(container) == ("healthy", "healthy")
