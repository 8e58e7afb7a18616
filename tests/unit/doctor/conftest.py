import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor_machine import Machine
from rlinf_npu.doctor.model import HOST

_SHM = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a machine is built: in memory when programs may run there, since a machine has a hundred files."""
    if not os.access(_SHM, os.W_OK) or os.statvfs(_SHM).f_flag & os.ST_NOEXEC:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=_SHM, prefix="doctor-test-") as name:
        yield Path(name)


@pytest.fixture
def container(folder: Path) -> Machine:
    """A healthy container with eight cards."""
    return Machine(folder)


@pytest.fixture
def host(folder: Path) -> Machine:
    """A healthy host with eight cards and Docker."""
    return Machine(folder, where=HOST)
