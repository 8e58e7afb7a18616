from pathlib import Path

import pytest
from machine import Machine
from rlinf_npu.doctor.model import HOST


@pytest.fixture
def container(tmp_path: Path) -> Machine:
    """A healthy container with eight cards."""
    return Machine(tmp_path)


@pytest.fixture
def host(tmp_path: Path) -> Machine:
    """A healthy host with eight cards and Docker."""
    return Machine(tmp_path, where=HOST)
