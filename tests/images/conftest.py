"""Images under test, one waiting container for each, and the rule that a child image passes its ancestors' tests."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from imagekit.errors import Problem
from tests.images.support import subjects
from tests.images.support.container import Container, remove_leftovers, workers
from tests.images.support.patience import patience
from tests.images.support.subjects import Missing, Subject
from tests.images.support.sweep import Sweep

HERE = Path(__file__).resolve().parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test` insists on images; somebody who runs pytest by hand may have none."""
    parser.addoption(
        "--require-images", action="store_true", help="an image that is not built is a failure, not a skip"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register what only this suite uses."""
    config.addinivalue_line("markers", "own: true of this very image; its children change it on purpose")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this folder needs Docker, and the time that this machine takes."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.image)
            if limit := item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(limit.args[0] * patience()))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of tests/images/<image>/ on that image and on everything that stands on it."""
    if "subject" not in metafunc.fixturenames:
        return
    owner = metafunc.definition.path.relative_to(HERE).parts[0].replace("_", "-")
    try:
        names = subjects.inheritors(owner)
    except (Missing, Problem):  # reported by the fixture, once for each test
        names = [owner]
    if metafunc.definition.get_closest_marker("own"):
        names = [name for name in names if name == owner]
    nothing = pytest.param(owner, marks=pytest.mark.skip(reason=f"{owner} is not under test (IMAGE names others)"))
    metafunc.parametrize("subject", names or [nothing], indirect=True, scope="session")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """With --numprocesses=auto: not one for each of a server's cores, as some of these tests train on several."""
    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Workers share the work by file, whatever --dist says; see also `Together`."""
    return Together(config, log)


class Together(LoadFileScheduling):  # type: ignore[misc]
    """Files directly in this folder go to one worker: they share the pass over all layers, the dearest fixture.

    xdist has groups for that (--dist=loadgroup), but xdist 3.8 does not see them with the newest pytest.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = PurePath(super()._split_scope(nodeid))
        return str(file.parent if file.parent.name == HERE.name else file)


@contextlib.contextmanager
def missing_is_reported(config: pytest.Config) -> Iterator[None]:
    """Fail or skip, with the reason, when there is nothing to test."""
    try:
        yield
    except (Missing, Problem) as error:
        if config.getoption("--require-images") or os.environ.get("IMAGE"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def subject(request: pytest.FixtureRequest) -> Subject:
    """The image under test."""
    with missing_is_reported(request.config):
        return subjects.subject(request.param)


@pytest.fixture(scope="session")
def idle(subject: Subject) -> Iterator[Container]:
    """One container of the image under test that waits to be asked. For tests that only look."""
    with subject.run() as container:
        yield container


@pytest.fixture(scope="session")
def everything(request: pytest.FixtureRequest) -> list[Subject]:
    """All images under test."""
    with missing_is_reported(request.config):
        return [subjects.subject(name) for name in subjects.names()]


@pytest.fixture(scope="session")
def sweep(everything: list[Subject]) -> Sweep:
    """Everything that is in their layers."""
    return Sweep(everything)


@pytest.fixture(scope="session", autouse=True)
def no_leftovers() -> Iterator[None]:
    """Containers of a test that was interrupted go away with the session."""
    yield
    with contextlib.suppress(Missing, Problem):
        remove_leftovers(subjects.client())
