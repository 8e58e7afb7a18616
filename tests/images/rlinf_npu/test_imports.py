"""Everything that is installed can be imported, and nothing raises OSError: that is how a missing library looks."""

from collections.abc import Callable

import pytest

from tests.images.support.container import PROBES, Container, workers
from tests.images.support.subjects import Subject

# Modules that cannot be imported by themselves, each with the reason.
NOT_ALONE = {
    "__dummy__": "a name in the metadata of antlr4's runtime, no module",
    "_tree": "dm-tree's extension: it sits inside the package `tree`",
    "_xxhash": "xxhash's extension: it sits inside the package `xxhash`",
    "nvitop": "NVIDIA's pynvml is kept out; RLinf asks for nvitop only where it monitors NVIDIA cards",
    "pynput": "keyboard and mouse of a teleoperator: needs a screen",
}
# Likewise, of one installer's set alone.
LOCKED = {"gcs_oauth2_boto_plugin": "plug-in of the tool gsutil, which brings its own google_auth_httplib2"}
UPSTREAM = {"testing": "a name in the metadata of google-auth 2.39, no module"}
# Fails or not by what the probe's process has imported before it.
BY_COMPANY = {"fast_kinematics": "of ManiSkill, which does not use it: linked to torch, which has to be there already"}


@pytest.fixture(scope="session")
def outcome(npus: Callable[[int], Container]) -> dict[str, dict[str, str]]:
    """Import error by module; a driver is mounted because `import torch` loads torch_npu."""
    container = npus(1)
    container.exec(
        ["sh", "-c", "cat >/tmp/import_all.py"], stdin=(PROBES / "import_all.py").read_text(encoding="utf-8")
    )
    found: dict[str, dict[str, str]] = container.probe("import_all", str(workers()), seconds=280)
    return found


def test_no_oserror(outcome: dict[str, dict[str, str]]) -> None:
    """RLinf 7191311c1: OSError libnvrtc.so.13."""
    assert {name: error for name, error in outcome["failures"].items() if "OSError" in error} == {}


@pytest.fixture(scope="session")
def not_alone(subject: Subject) -> dict[str, str]:
    """What cannot be imported by itself in this image, with the reasons."""
    return NOT_ALONE | (UPSTREAM if subject.upstream else LOCKED)


def test_everything_imports(outcome: dict[str, dict[str, str]], not_alone: dict[str, str]) -> None:
    assert int(outcome["tried"]) > 250  # type: ignore[call-overload]
    known = not_alone.keys() | BY_COMPANY.keys()
    assert {name: error for name, error in outcome["failures"].items() if name not in known} == {}


def test_torch_npu_does_not_complain_that_root_owns_what_is_installed(npus: Callable[[int], Container]) -> None:
    done = npus(1).python("import torch_npu, warnings; warnings.warn('others are seen')", user="1000")
    assert done.ok, done.err
    assert "owner" not in done.err
    assert "others are seen" in done.err
    told = npus(1).python("import torch_npu", user="1000", env={"PYTHONWARNINGS": ""})
    assert "owner" in told.err, "the filter is not needed any more"


def test_the_reasons_are_still_needed(outcome: dict[str, dict[str, str]], not_alone: dict[str, str]) -> None:
    assert not_alone.keys() - outcome["failures"].keys() == set()
