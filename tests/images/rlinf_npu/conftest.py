"""Containers with simulated cards."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.images.conftest import missing_is_reported
from tests.images.support.container import Container
from tests.images.support.simulated import Cards, simulated_host
from tests.images.support.subjects import Subject


@pytest.fixture(scope="session")
def cards(request: pytest.FixtureRequest, subject: Subject) -> Iterator[Cards]:
    """The simulated host."""
    if not subject.simulated:
        pytest.skip("stands on the real CANN: only a real driver fits it (tier real_npu)")
    if os.geteuid() != 0:
        pytest.skip("making device nodes needs root")
    with ExitStack() as stack:
        with missing_is_reported(request.config):
            host = stack.enter_context(simulated_host(subject))
        yield host


@pytest.fixture(scope="session")
def npus(subject: Subject, cards: Cards) -> Iterator[Callable[[int], Container]]:
    """A waiting container with so many simulated cards; one for each number, for tests that only look."""
    running: dict[int, Container] = {}
    with ExitStack() as stack:

        def get(number: int) -> Container:
            if number not in running:
                container = subject.run(**cards.options(number), shm_size="2g")
                running[number] = stack.enter_context(container)
            return running[number]

        yield get
