"""The simulated base keeps the vendor image's contract. True of cann-sim alone: cann-base cures the oddities."""

import pytest

from tests.images.support.container import Container
from tests.images.support.environment import LISTS, contract, differences
from tests.images.support.subjects import Subject

pytestmark = pytest.mark.own
SET_ENV = ("/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/nnal/atb/set_env.sh")


def test_env_is_the_vendors(subject: Subject) -> None:
    assert differences(subject.env, contract()) == {}


def test_env_ends_in_the_vendors_empty_elements(subject: Subject) -> None:
    ending = {name for name in LISTS if subject.env[name].endswith(":")}
    assert ending == {"LD_LIBRARY_PATH", "PYTHONPATH"}


def test_entrypoint_sources_both_environments(subject: Subject) -> None:
    shell, flag, script, dashes = subject.config["Entrypoint"]
    assert (shell, flag, dashes) == ("/bin/bash", "-c", "--")
    assert script == f'source {SET_ENV[0]} && source {SET_ENV[1]} && exec "$@"'


@pytest.mark.parametrize("file", ["/etc/profile", "/root/.bashrc"])
def test_start_up_files_source_them_too(idle: Container, file: str) -> None:
    lines = idle.host.file(file).content_string.splitlines()
    assert [line for line in lines if "set_env.sh" in line] == [f"source {path}" for path in SET_ENV]


def test_the_three_mechanisms_drift_apart(subject: Subject, idle: Container) -> None:
    """The fault that cann-base cures: with another result here, its cure would prove nothing."""
    bare = idle.environment(["env", "-0"])
    login = idle.environment(["bash", "-lc", "env -0"])
    assert bare["LD_LIBRARY_PATH"] == subject.env["LD_LIBRARY_PATH"]
    assert login["LD_LIBRARY_PATH"] != bare["LD_LIBRARY_PATH"]
