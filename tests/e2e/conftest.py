"""What the Compose tests share: a project of their own, and one undisturbed simulated training to compare with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.compose_kit import Project, why_not
from tests.e2e.compose_runs import TRAIN_SECONDS, look, new_project


@pytest.fixture(scope="session")
def compose_possible() -> None:
    """Skip, with the reason, where Compose cannot run simulated cards."""
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A fresh one, ready to train."""
    found = new_project(tmp_path)
    try:
        yield found
    finally:
        found.remove()


@pytest.fixture(scope="session")
def trained(compose_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project that has been trained without disturbance."""
    project = new_project(tmp_path_factory.mktemp("trained"))
    try:
        done = project.compose("up", "train", seconds=TRAIN_SECONDS)
        assert done.returncode == 0, done.stdout[-3000:]
        assert project.exit_code("train") == 0, project.logs("train")[-3000:]
        yield project
    finally:
        project.remove()


@pytest.fixture(scope="session")
def results(trained: Project) -> dict[str, Any]:
    """What the undisturbed run has made."""
    return look(trained)
