"""One environment, set by ENV only: a Kubernetes command, `docker exec`, a login shell, the entrypoint see the same."""

import pytest

from imagekit.manifest import Devices
from tests.images.support.container import Container, parse_environment
from tests.images.support.environment import LISTS, contract, differences, elements, stable
from tests.images.support.patience import processor
from tests.images.support.subjects import Subject, manifest

DEVICES: Devices = manifest().devices
USERS = ["root", str(DEVICES.uid)]
WAYS = {
    "login shell": ["bash", "-lc", "env -0"],
    "interactive shell": ["bash", "-ic", "env -0"],
    "login and interactive shell": ["bash", "-lic", "env -0"],
    "login sh": ["sh", "-lc", "env -0"],
    "sh -c": ["sh", "-c", "env -0"],
    "bash -c": ["bash", "-c", "env -0"],
}
ADDED = {"LANG", "MUJOCO_GL", "PYOPENGL_PLATFORM"}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("way", WAYS)
def test_shells_see_what_a_bare_exec_sees(idle: Container, way: str, user: str) -> None:
    bare = stable(idle.environment(["env", "-0"], user=user))
    assert differences(bare, stable(idle.environment(WAYS[way], user=user))) == {}


@pytest.mark.parametrize("user", USERS)
def test_the_entrypoint_adds_nothing(subject: Subject, idle: Container, user: str) -> None:
    with subject.run(["env", "-0"], user=user) as started:
        assert started.wait(20) == 0
        seen = parse_environment(started.logs()[0])
    assert differences(stable(idle.environment(["env", "-0"], user=user)), stable(seen)) == {}


def test_a_process_sees_exactly_env(subject: Subject, idle: Container) -> None:
    bare = stable(idle.environment(["env", "-0"]))
    assert bare.pop("HOME") == "/root"
    assert differences(bare, subject.env | processor()) == {}


@pytest.mark.parametrize("name", LISTS)
def test_no_empty_element(subject: Subject, name: str) -> None:
    """An empty element is the current folder: whatever lies there would be loaded."""
    assert all(subject.env[name].split(":"))


@pytest.mark.parametrize("name", LISTS)
def test_no_relative_and_no_repeated_element(subject: Subject, name: str) -> None:
    listed = elements(subject.env[name])
    assert [element for element in listed if not element.startswith("/")] == []
    assert len(listed) == len(set(listed))


def test_no_devlib(subject: Subject) -> None:
    """The toolkit's stub of the driver would shadow the real one."""
    assert [name for name, value in subject.env.items() if "devlib" in value] == []


def test_the_base_lists_without_their_empty_elements(subject: Subject) -> None:
    """The golden snapshot. Only the list that programs are found by may grow, at its front."""
    expected, env = contract(), subject.env
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        assert elements(env[name]) == elements(expected[name]), name
    path = elements(expected["PATH"])
    assert elements(env["PATH"])[-len(path) :] == path
    assert {name: env.get(name) for name in expected if name not in LISTS} == {
        name: value for name, value in expected.items() if name not in LISTS
    }


@pytest.mark.own
def test_nothing_else_is_added(subject: Subject) -> None:
    assert subject.env.keys() - contract().keys() == ADDED
    assert elements(subject.env["PATH"]) == elements(contract()["PATH"])


def test_rendering_without_a_screen_is_set_in_both_places(subject: Subject) -> None:
    """robosuite#459: only one of the two set is as good as none."""
    assert subject.env["MUJOCO_GL"] == subject.env["PYOPENGL_PLATFORM"] == "osmesa"


def test_autoload_of_torch_npu_is_on(subject: Subject) -> None:
    """Switched off in ENV, `import torch` would work everywhere and find no card anywhere."""
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD" not in subject.env


@pytest.mark.parametrize("file", ["/etc/profile", "/etc/bash.bashrc", "/root/.bashrc", "/root/.profile"])
def test_no_start_up_file_sets_cann_up(idle: Container, file: str) -> None:
    found = idle.host.file(file)
    assert not found.exists or "Ascend" not in found.content_string
