"""System packages and helpers that RLinf and its build need."""

import pytest

from tests.images.support.container import Container
from tests.images.support.subjects import Subject, manifest


@pytest.mark.parametrize(
    "tool", ["git", "ss", "ps", "tini", "gcc", "g++", "make", "cmake", "curl", "jq", "bash", "timeout"]
)
def test_on_the_path(idle: Container, tool: str) -> None:
    assert idle.host.exists(tool)


@pytest.mark.parametrize(
    "library", ["libOSMesa.so.8", "libGL.so.1", "libEGL.so.1", "libglib-2.0.so.0", "libgomp.so.1", "libnuma.so.1"]
)
def test_library_loads(idle: Container, library: str) -> None:
    done = idle.exec(["python3", "-c", f"import ctypes; ctypes.CDLL('{library}')"])
    assert done.ok, done.err


def test_git_works_without_configuration(subject: Subject, idle: Container) -> None:
    assert idle.exec(["git", "--version"]).ok
    lines = idle.exec(["git", "config", "--system", "--list"]).out.split("\n")
    if subject.upstream:  # of the package git-lfs, which sys_deps.sh installs
        lines = [line for line in lines if not line.startswith("filter.lfs.")]
    assert [line for line in lines if line] == []


def test_with_devlib_is_for_one_command_only(idle: Container) -> None:
    load = "import ctypes; ctypes.CDLL('libascend_hal.so')"
    assert not idle.exec(["python3", "-c", load]).ok
    assert idle.exec(["with-devlib", "python3", "-c", load]).ok
    assert "devlib" not in idle.exec(["printenv", "LD_LIBRARY_PATH"]).out


def test_with_devlib_without_a_command(idle: Container) -> None:
    done = idle.exec(["with-devlib"])
    assert done.code == 2
    assert done.err.startswith("usage: with-devlib")


def test_with_devlib_where_there_is_none(idle: Container) -> None:
    done = idle.exec(["with-devlib", "true"], env={"ASCEND_TOOLKIT_HOME": "/nowhere"})
    assert done.code == 1
    assert "/nowhere" in done.err


def test_the_system_package_database_is_whole(idle: Container) -> None:
    """Half-configured packages break every later apt-get."""
    assert idle.exec(["dpkg", "--audit"]).out == ""


def test_the_owner_may_look_at_processes(idle: Container) -> None:
    assert idle.exec(["ps", "-e"], user=str(manifest().devices.uid)).ok
