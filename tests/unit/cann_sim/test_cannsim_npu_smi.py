"""npu-smi: the tables people and scripts read, made from the card nodes."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from card_nodes import put_cards

TOOL = Path(__file__).resolve().parents[3] / "images/cann-sim/driver/npu-smi"


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    folder = tmp_path / "driver"
    (folder / "lib64/driver").mkdir(parents=True)
    (folder / "lib64/driver/libascend_hal.so").touch()
    (folder / "version.info").write_text("Version=25.3.rc1\npackage_version=other\n", encoding="utf-8")
    (folder / "simulated.info").write_text("simulated=yes\nsoc=Ascend910B3\n", encoding="utf-8")
    return folder


def smi(driver: Path, nodes: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"CANNSIM_DEV_DIR": str(nodes), "CANNSIM_DRIVER_DIR": str(driver)} | environment
    return subprocess.run([TOOL, *arguments], env=variables, capture_output=True, text=True, check=False)


def test_overview(driver: Path, nodes: Path) -> None:
    put_cards(nodes, 0, 2, 10)
    (nodes / "davinci_manager").touch()
    done = smi(driver, nodes, "info")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert {len(line) for line in lines} == {98}  # one box
    assert "npu-smi 25.3.rc1 (simulated)" in lines[1]
    cards = [re.match(r"\| (\d+) +910B3 +\| OK ", line) for line in lines]
    assert [match[1] for match in cards if match] == ["0", "2", "10"]
    assert sum("/ 65536" in line for line in lines) == 3


def test_memory_follows_the_setting(driver: Path, nodes: Path) -> None:
    put_cards(nodes, 0)
    assert "/ 512 " in smi(driver, nodes, "info", CANNSIM_HBM_MB="512").stdout


def fields(text: str) -> dict[str, str]:
    return {
        key.strip(): value.strip() for key, _, value in (line.partition(" : ") for line in text.splitlines()) if value
    }


def test_list(driver: Path, nodes: Path) -> None:
    put_cards(nodes, 0, 1)
    text = smi(driver, nodes, "info", "-l").stdout
    assert fields(text)["Total Count"] == "2"
    assert fields(text)["Simulated"] == "yes"
    assert re.findall(r"NPU ID +: (\d+)", text) == ["0", "1"]


def test_mapping(driver: Path, nodes: Path) -> None:
    put_cards(nodes, 3, 12)
    rows = [line.split() for line in smi(driver, nodes, "info", "-m").stdout.splitlines()]
    assert [row for row in rows if row[-1] == "910B3"] == [
        ["3", "0", "0", "Ascend", "910B3"],
        ["12", "0", "1", "Ascend", "910B3"],
    ]


@pytest.mark.parametrize("arguments", [("-t", "board", "-i", "3"), ("-i", "3", "-t", "board")])
def test_board(driver: Path, nodes: Path, arguments: tuple[str, ...]) -> None:
    put_cards(nodes, 0, 3)
    board = fields(smi(driver, nodes, "info", *arguments).stdout)
    assert (board["NPU ID"], board["Software Version"], board["Simulated"]) == ("3", "25.3.rc1", "yes")


def test_no_such_board(driver: Path, nodes: Path) -> None:
    put_cards(nodes, 0)
    done = smi(driver, nodes, "info", "-t", "board", "-i", "5")
    assert (done.returncode, done.stdout) == (1, "")
    assert "NPU ID 5 is invalid" in done.stderr
    assert "simulated" in done.stderr


def test_no_cards(driver: Path, nodes: Path) -> None:
    done = smi(driver, nodes, "info")
    assert (done.returncode, done.stdout) == (1, "")
    assert "dcmi module initialize failed" in done.stderr


def test_no_driver(nodes: Path) -> None:
    put_cards(nodes, 0)
    done = smi(Path("/nowhere"), nodes, "info")
    assert done.returncode == 127
    assert "libascend_hal.so: cannot open shared object file" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("infos",), ("info", "-x"), ("set", "-t", "power")])
def test_usage(driver: Path, nodes: Path, arguments: tuple[str, ...]) -> None:
    put_cards(nodes, 0)
    done = smi(driver, nodes, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: npu-smi info")
