"""The doctor tells a healthy container from a broken one, and names what is broken."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.images.support.container import Container
from tests.images.support.simulated import CAPABILITY_FREE, Cards
from tests.images.support.subjects import Subject

pytestmark = pytest.mark.device
Npus = Callable[[int], Container]


def findings(container: Container, **how: Any) -> tuple[int, set[str]]:
    """Exit code, and the rules that found an error."""
    done = container.exec(["doctor", "--json"], seconds=120, **how)
    assert done.code in (0, 1), done.err
    errors = {found["rule"] for found in json.loads(done.out)["findings"] if found["severity"] == "error"}
    return done.code, errors


def test_content_with_eight_cards(subject: Subject, cards: Cards) -> None:
    with subject.run(**cards.options(8), shm_size="64g") as container:
        assert findings(container) == (0, set())


def test_no_cards(npus: Npus) -> None:
    code, errors = findings(npus(0))
    assert code == 1
    assert "no-cards" in errors


def test_driver_not_mounted(subject: Subject, cards: Cards) -> None:
    with subject.run(**cards.options(1, driver=False), shm_size="64g") as container:
        code, errors = findings(container)
    assert code == 1
    assert any("driver" in rule for rule in errors), errors


def test_another_user(npus: Npus) -> None:
    code, errors = findings(npus(8), user="4242:4242", env={"HOME": "/tmp"})
    assert code == 1
    assert {"node-access", "passwd-entry"} <= errors


def test_root_without_capabilities(subject: Subject, cards: Cards) -> None:
    with subject.run(**cards.options(2), **CAPABILITY_FREE, shm_size="64g") as container:
        code, errors = findings(container)
    assert code == 1
    assert "node-access" in errors


def test_visible_devices_out_of_range(npus: Npus) -> None:
    code, errors = findings(npus(2), env={"ASCEND_RT_VISIBLE_DEVICES": "6,7"})
    assert code == 1
    assert any(rule.startswith("visible") for rule in errors), errors
