"""Hosts and containers that are broken in one place: the doctor names exactly that, and a healthy one it leaves alone.

Expected is the whole report, warnings included, but for the machine's own disk. Where one fault has two faces (a card
that may not be opened is also not counted by torch), both are listed.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from imagekit.process import Finished
from tests.images.support.container import Container
from tests.images.support.simulated import CAPABILITY_FREE, Cards
from tests.images.support.subjects import Subject, manifest

pytestmark = pytest.mark.device
Npus = Callable[[int], Container]
Options = dict[str, Any]

ROOM = {"shm_size": "64g"}
SECONDS = 120.0
DRIVER = manifest().devices.driver
# True of the machine that runs the tests, whatever was broken for one: how full its disk is.
OF_THIS_MACHINE = {"disk"}
NOT_COUNTED = {"torch-count": "error"}

# Holds a port, then examines. HCCL takes 60000 and those after it.
PORT_TAKEN = """
import socket, subprocess, sys
held = socket.socket(); held.bind(("", 60000)); held.listen()
sys.exit(subprocess.call(["doctor", "--json"]))
"""


def examined(done: Finished) -> dict[str, str]:
    """Rule -> severity of all that the doctor found; its exit code must fit."""
    assert done.code in (0, 1), done.err
    report = json.loads(done.out)
    assert report["broken"] == {}
    found = {finding["rule"]: finding["severity"] for finding in reversed(report["findings"])}
    assert done.code == int("error" in found.values())
    return {rule: severity for rule, severity in found.items() if rule not in OF_THIS_MACHINE}


def findings(container: Container, **how: Any) -> dict[str, str]:
    """What the doctor finds in there."""
    return examined(container.exec(["doctor", "--json"], seconds=SECONDS, **how))


# --- one healthy container, asked by whoever is not ---


@pytest.fixture(scope="module")
def eight(subject: Subject, cards: Cards) -> Container:  # type: ignore[misc]
    """Eight cards, the whole driver, enough memory."""
    with subject.run(**cards.options(8), **ROOM) as container:
        yield container


def test_content_with_eight_cards(eight: Container) -> None:
    assert findings(eight) == {}


def test_says_first_that_all_is_simulated(eight: Container) -> None:
    done = eight.exec(["doctor", "--only", "no-cards,manager-missing"])
    assert done.code == 0, done.err
    assert done.out.startswith("simulated: driver, cards or image are not real")
    assert "healthy: 2 rules checked on this container" in done.out


def search_path(eight: Container, change: Callable[[str], str]) -> dict[str, str]:
    """LD_LIBRARY_PATH of the image, changed."""
    return {"LD_LIBRARY_PATH": change(eight.environment(["env", "-0"])["LD_LIBRARY_PATH"])}


VARIABLES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "garbage": ({"ASCEND_RT_VISIBLE_DEVICES": "0,a"}, {"visible-garbage": "error"}),
    "a blank": ({"ASCEND_RT_VISIBLE_DEVICES": "0, 1"}, {"visible-garbage": "error"}),
    "twice the same": ({"ASCEND_RT_VISIBLE_DEVICES": "0,1,1"}, {"visible-duplicates": "error"} | NOT_COUNTED),
    "descending": ({"ASCEND_RT_VISIBLE_DEVICES": "1,0"}, {"visible-order": "error"} | NOT_COUNTED),
    "out of range": ({"ASCEND_RT_VISIBLE_DEVICES": "0,8"}, {"visible-range": "error"} | NOT_COUNTED),
    "no such interface": ({"HCCL_SOCKET_IFNAME": "=enp1"}, {"hccl-interface": "error"}),
    "a base port out of range": ({"HCCL_IF_BASE_PORT": "70000"}, {"hccl-port-value": "error"}),
    "a short time to connect": ({"HCCL_CONNECT_TIMEOUT": "60"}, {"hccl-timeout": "warning"}),
    "a rank table that is not there": ({"RANK_TABLE_FILE": "/nowhere.json"}, {"rank-table": "error"}),
    "a proxy for loopback too": ({"https_proxy": "http://proxy:3128"}, {"proxy-loopback": "warning"}),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_a_wrong_variable(eight: Container, name: str) -> None:
    environment, expected = VARIABLES[name]
    assert findings(eight, env=environment) == expected


def test_the_environment_got_lost(eight: Container) -> None:
    """vllm-ascend#262, #9141: a shell that starts afresh."""
    found = findings(eight, env={"LD_LIBRARY_PATH": ""})
    assert found == {"libpath-toolkit": "error", "libpath-driver": "error", "import": "error"}


def test_the_stub_for_builds_comes_first(eight: Container) -> None:
    """vllm-ascend#661: CANN's devlib on the run-time path."""
    devlib = eight.sh(
        "dirname $(find /usr/local/Ascend/ -path '*devlib*' -name libascend_hal.so | head -n 1)"
    ).out.strip()
    assert devlib.startswith("/")
    found = findings(eight, env=search_path(eight, lambda path: f"{devlib}:{path}"))
    assert found.pop("libpath-shadowed") == "error"
    assert found in ({}, NOT_COUNTED), "what the stub answers is the base's matter"


def test_an_empty_element(eight: Container) -> None:
    assert findings(eight, env=search_path(eight, lambda path: path + ":")) == {"libpath-untidy": "warning"}


def test_a_port_of_hccl_is_taken(eight: Container) -> None:
    """vllm-ascend#405: a listener that really listens."""
    done = eight.python(PORT_TAKEN, python="/opt/venv/bin/python", seconds=SECONDS)
    assert examined(done) == {"hccl-port-taken": "error"}


def test_another_user(eight: Container) -> None:
    """ascend-device-plugin#139, vllm-ascend#9490: the nodes are not theirs, and nobody knows their name."""
    found = findings(eight, user="4242:4242", env={"HOME": "/tmp"})
    assert found == {"node-access": "error", "passwd-entry": "error"} | NOT_COUNTED


# --- containers that were started wrong ---


def without_driver(cards: Cards) -> Options:
    return cards.options(8, driver=False)


def with_only_lib64(cards: Cards) -> Options:
    """gpustack/runtime#27: a part of the driver folder."""
    lib64 = {str(cards.at(f"{DRIVER}/lib64")): {"bind": f"{DRIVER}/lib64", "mode": "ro"}}
    volumes = {place: mount for place, mount in cards.options(8)["volumes"].items() if mount["bind"] != DRIVER}
    return cards.options(8) | {"volumes": volumes | lib64}


def three_of_eight(cards: Cards) -> Options:
    """Asked for eight, got three."""
    return cards.options(3) | {"environment": {"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}}


def host_numbers(cards: Cards) -> Options:
    """gpustack#3352: the host calls them 6 and 7, CANN in here 0 and 1."""
    visible = {"ASCEND_VISIBLE_DEVICES": "6,7", "ASCEND_RT_VISIBLE_DEVICES": "6,7"}
    return cards.options([6, 7]) | {"environment": visible}


def one_variable(cards: Cards) -> Options:
    """HAMi#1894."""
    return cards.options([6, 7]) | {"environment": {"ASCEND_VISIBLE_DEVICES": "6,7"}}


def without_hisi_hdc(cards: Cards) -> Options:
    """vllm-ascend#1440: one of the nodes that every process needs."""
    options = cards.options(8)
    return options | {"devices": [node for node in options["devices"] if "hisi_hdc" not in node]}


def folder_for_npu_smi(cards: Cards) -> Options:
    """What Docker makes of a source path that does not exist."""
    options = cards.options(8)
    tool = str(cards.at("/usr/local/bin/npu-smi"))
    volumes = {place: mount for place, mount in options["volumes"].items() if place != tool}
    return options | {"volumes": volumes, "tmpfs": {"/usr/local/bin/npu-smi": ""}}


STARTED: dict[str, tuple[Callable[[Cards], Options], dict[str, str]]] = {
    "no driver": (without_driver, {"driver-missing": "error", "import": "error"}),
    # npu-smi is mounted, but what it reads is not.
    "half a driver": (with_only_lib64, {"driver-half": "error", "npu-smi-fails": "error"}),
    "no card": (lambda cards: cards.options(0), {"no-cards": "error"}),
    "3 of 8 cards": (three_of_eight, {"visible-range": "error"} | NOT_COUNTED),
    "the host's numbers": (host_numbers, {"visible-host-ids": "error"} | NOT_COUNTED),
    "one of two variables": (one_variable, {"visible-one": "warning"}),
    "a manager missing": (without_hisi_hdc, {"manager-missing": "error"}),
    "a folder for npu-smi": (folder_for_npu_smi, {"mount-is-folder": "error"}),
    "root without capabilities": (
        lambda cards: cards.options(8) | CAPABILITY_FREE,
        {"node-access": "error"} | NOT_COUNTED,
    ),
    "Docker's own 64 MB": (lambda cards: cards.options(8) | {"shm_size": "64m"}, {"shm-small": "error"}),
    "no init": (lambda cards: cards.options(8) | {"entrypoint": []}, {"pid1": "warning"}),
    "few open files": (
        lambda cards: cards.options(8) | {"ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 4096}]},
        {"ulimits": "warning"},
    ),
    "few open files, which Ray raises": (
        lambda cards: cards.options(8) | {"ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 16384}]},
        {},
    ),
}


@pytest.mark.parametrize("name", STARTED)
def test_started_wrong(subject: Subject, cards: Cards, name: str) -> None:
    options, expected = STARTED[name]
    with subject.run(**(ROOM | options(cards))) as container:
        assert findings(container) == expected


# --- the support bundle ---


def test_a_bundle_of_a_container(eight: Container) -> None:
    """Logs and report are in it, the token of the environment is not."""
    token = "hf_" + "planted" * 3
    log = "/tmp/ascend-log/debug/plog/plog-1.log"
    eight.sh(f"mkdir -p $(dirname {log}) && echo 'EI0006 with {token}' > {log}")
    environment = {"HF_TOKEN": token, "ASCEND_PROCESS_LOG_PATH": "/tmp/ascend-log"}
    done = eight.exec(["doctor", "--collect", "/tmp/bundle.tar.gz"], seconds=SECONDS, env=environment)
    assert done.code in (0, 1), done.err
    unpacked = eight.sh("mkdir /tmp/unpacked && tar -C /tmp/unpacked -xf /tmp/bundle.tar.gz && rm /tmp/bundle.tar.gz")
    assert unpacked.ok, unpacked.err
    assert eight.sh(f"cat /tmp/unpacked/doctor-bundle/logs{log}").out == "EI0006 with [redacted]\n"
    assert eight.sh(f"grep -rl {token} /tmp/unpacked").out == ""
    report = json.loads(eight.sh("cat /tmp/unpacked/doctor-bundle/report.json").out)
    assert [finding for finding in report["findings"] if finding["rule"] not in OF_THIS_MACHINE] == []
    assert done.code == int("error" in [finding["severity"] for finding in report["findings"]])
    eight.sh("rm -r /tmp/unpacked /tmp/ascend-log")
