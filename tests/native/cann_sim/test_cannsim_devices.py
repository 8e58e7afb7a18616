"""Cards: how many there are, which of them are visible, which one is current."""

import ctypes
import os
from pathlib import Path

import pytest
from card_nodes import put_cards
from stand_in import Libraries, StandIn

INVALID_DEVICE = 107001
NO_CONTEXT = 107002
TWICE = 100002


def count(libraries: Libraries) -> int:
    number = ctypes.c_uint32(99)
    assert libraries.runtime.aclrtGetDeviceCount(ctypes.byref(number)) == 0
    return number.value


@pytest.mark.parametrize("cards", [0, 1, 8, 16])
def test_every_node_is_a_card(stand_in: StandIn, nodes: Path, cards: int) -> None:
    put_cards(nodes, *range(cards))
    assert stand_in.run(count, CANNSIM_DEV_DIR=str(nodes)) == cards


def test_what_is_not_a_card(stand_in: StandIn, nodes: Path) -> None:
    put_cards(nodes, 0, 15)
    for name in ("davinci_manager", "davinci", "davinci0.bak", "davinci123", "hisi_hdc", "xdavinci1"):
        (nodes / name).touch()
    (nodes / "davinci7").mkdir()  # cannot be opened for writing, not even by root
    assert stand_in.run(count, CANNSIM_DEV_DIR=str(nodes)) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_node_of_another_user_does_not_count(stand_in: StandIn, nodes: Path) -> None:
    put_cards(nodes, 0, 1)
    (nodes / "davinci1").chmod(0o600)
    (nodes / "davinci0").chmod(0o666)
    for folder in (nodes, *nodes.parents):
        if folder.stat().st_uid == 0 and folder.is_relative_to("/tmp/pytest-of-root"):
            folder.chmod(0o755)

    def as_nobody(libraries: Libraries) -> int:
        os.setuid(65534)
        return count(libraries)

    assert stand_in.run(as_nobody, CANNSIM_DEV_DIR=str(nodes)) == 1


def test_no_folder_no_cards(stand_in: StandIn, nodes: Path) -> None:
    assert stand_in.run(count, CANNSIM_DEV_DIR=str(nodes / "nothing")) == 0


# What torch_npu 2.6.0.post3 answers for the same text with 4 cards.
VISIBLE = [
    ("", 0), ("0", 1), ("3", 1), ("1,3", 2), ("0,1,2,3", 4), ("4", 0), ("0,4", 1), ("0,99,2", 1), ("abc", 0), ("-1", 0),
    ("1,abc", 1), ("2,1", 0), ("1,1", 0), ("1,,2", 1), (",1", 0), ("1,2,", 2), (" 1", 0), ("1 ,2", 1),
    ("99999999999999999999", 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), VISIBLE)
def test_visible_devices(stand_in: StandIn, nodes: Path, text: str, expected: int) -> None:
    put_cards(nodes, 0, 1, 2, 3)
    assert stand_in.run(count, CANNSIM_DEV_DIR=str(nodes), ASCEND_RT_VISIBLE_DEVICES=text) == expected


def test_visibility_may_change_until_a_card_is_in_use(stand_in: StandIn, nodes: Path) -> None:
    put_cards(nodes, 0, 1, 2, 3)

    def use(libraries: Libraries) -> list[int]:
        counts = [count(libraries)]
        os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "1,2"
        counts.append(count(libraries))
        libraries.runtime.aclrtSetDevice(0)
        os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "1"
        return [*counts, count(libraries)]

    assert stand_in.run(use, CANNSIM_DEV_DIR=str(nodes)) == [4, 2, 2]


def test_current_device(stand_in: StandIn, nodes: Path) -> None:
    put_cards(nodes, 0, 1)

    def use(libraries: Libraries) -> None:
        runtime, device = libraries.runtime, ctypes.c_int32()
        assert runtime.aclrtGetDevice(ctypes.byref(device)) == NO_CONTEXT
        assert runtime.aclrtSetDevice(1) == 0
        assert runtime.aclrtGetDevice(ctypes.byref(device)) == 0
        assert device.value == 1
        assert runtime.aclrtSetDevice(2) == INVALID_DEVICE
        assert libraries.error() == "[simulated CANN] aclrtSetDevice(2): 2 device(s) visible"
        assert runtime.aclrtResetDevice(1) == 0
        assert runtime.aclrtGetDevice(ctypes.byref(device)) == NO_CONTEXT
        assert (runtime.aclInit(None), runtime.aclInit(None), runtime.aclFinalize()) == (0, TWICE, 0)

    stand_in.run(use, CANNSIM_DEV_DIR=str(nodes))


def test_context_carries_the_device(stand_in: StandIn, nodes: Path) -> None:
    put_cards(nodes, 0, 1)

    def use(libraries: Libraries) -> int:
        runtime, context, device = libraries.runtime, ctypes.c_void_p(), ctypes.c_int32()
        runtime.aclrtSetDevice(1)
        runtime.aclrtGetCurrentContext(ctypes.byref(context))
        runtime.aclrtSetDevice(0)
        assert runtime.aclrtSetCurrentContext(context) == 0
        runtime.aclrtGetDevice(ctypes.byref(device))
        return device.value

    assert stand_in.run(use, CANNSIM_DEV_DIR=str(nodes)) == 1


def test_chip_name(stand_in: StandIn) -> None:
    def name(libraries: Libraries) -> bytes:
        return bytes(libraries.runtime.aclrtGetSocName())

    assert stand_in.run(name, CANNSIM_SOC="Ascend910B3") == b"Ascend910B3"
    assert stand_in.run(name) == b"simulated"


def test_version_is_the_toolkits(stand_in: StandIn, tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime/version.info").write_text("name=x\nVersion=8.3.RC1\n", encoding="utf-8")

    def version(libraries: Libraries) -> bytes:
        buffer = ctypes.create_string_buffer(128)
        libraries.runtime.aclsysGetCANNVersion(0, buffer)
        return buffer.value

    assert stand_in.run(version, ASCEND_HOME_PATH=str(tmp_path)) == b"8.3.RC1"
    assert stand_in.run(version, ASCEND_HOME_PATH="/nowhere") == b"simulated"
