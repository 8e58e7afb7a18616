"""What costs seconds is made once for a test run, whatever number of processes it has."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

Once = Callable[[str, Callable[[Path], None]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """once(name, make): the folder that `make` has filled. The first process makes it, others wait; read it only."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base  # a worker's own folder is below the run's

    def get(name: str, make: Callable[[Path], None]) -> Path:
        folder, made = shared / name, shared / f"{name}.made"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                make(folder)
                made.touch()
        return folder

    return get


def pytest_itemcollected(item: pytest.Item) -> None:
    """All that is here starts programs; under tests/unit some files do, and say so."""
    if item.path.is_relative_to(Path(__file__).parent):
        item.add_marker(pytest.mark.programs)
