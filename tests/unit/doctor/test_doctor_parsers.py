"""What npu-smi, /proc and the visibility variables look like, taken apart."""

import pytest
from doctor_machine import Machine, smi_table
from rlinf_npu.doctor import nettables, npusmi, visible

# The form of driver 25.0 with a card that has a DDR column and a process (numbers changed).
REAL_FORM = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.0.rc1.2               Version: 25.0.rc1.2                                           |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B2C              | OK            | 96.6        45                0    / 0             |
| 0                         | 0000:75:01.0  | 0           0    / 0          3445 / 65536         |
+===========================+===============+====================================================+
| 10    910B                | Warning       | 70.8        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           2187 / 15137      1    / 32768         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+==========================+=========================+
| 0       0                 | 2211          | ray::Worker              | 3210                    |
| No running processes found in NPU 10                                                           |
+===========================+===============+==========================+=========================+
"""


def test_npu_smi() -> None:
    report = npusmi.parse(REAL_FORM)
    assert report.version == "25.0.rc1.2"
    assert [(chip.npu, chip.name, chip.health) for chip in report.chips] == [
        (0, "910B2C", "OK"),
        (10, "910B", "Warning"),
    ]
    assert [(chip.hbm_used, chip.hbm_total) for chip in report.chips] == [(3445, 65536), (1, 32768)]
    assert report.processes == [npusmi.Process(0, 2211, "ray::Worker", 3210)]
    assert report.errors == []


def test_npu_smi_error_and_silence() -> None:
    assert npusmi.parse("dcmi module initialize failed. ret is -8005").errors == ["-8005"]
    assert npusmi.parse("").chips == []


def test_the_fixtures_table_is_readable() -> None:
    assert len(npusmi.parse(smi_table(16)).chips) == 16


@pytest.mark.parametrize(
    ("variable", "text", "ids", "garbage"),
    [
        ("ASCEND_RT_VISIBLE_DEVICES", "0,1", [0, 1], []),
        ("ASCEND_RT_VISIBLE_DEVICES", "0, 1", [0], [" 1"]),
        ("ASCEND_RT_VISIBLE_DEVICES", "0-3", [], ["0-3"]),
        ("ASCEND_VISIBLE_DEVICES", "0-2,5", [0, 1, 2, 5], []),
        ("ASCEND_VISIBLE_DEVICES", "Ascend910-3, 4", [3, 4], []),
        ("ASCEND_VISIBLE_DEVICES", "3-1", [], ["3-1"]),
        ("ASCEND_VISIBLE_DEVICES", "void", [], []),
        ("ASCEND_VISIBLE_DEVICES", "-1", [], ["-1"]),
    ],
)
def test_visible(variable: str, text: str, ids: list[int], garbage: list[str]) -> None:
    value = visible.parse(variable, text)
    assert (value.ids, value.garbage) == (ids, garbage)


@pytest.mark.parametrize(
    ("pattern", "name", "selected"),
    [
        ("eth", "eth0", True),
        ("=eth", "eth0", False),
        ("=eth0,eth1", "eth1", True),
        ("^docker", "docker0", False),
        ("^docker", "eth0", True),
        ("^=eth0", "eth01", True),
    ],
)
def test_interface_patterns(pattern: str, name: str, selected: bool) -> None:
    assert nettables.selects(pattern, name) is selected


def test_only_listening_sockets_count(container: Machine) -> None:
    rows = ["0: 00000000:EA60 00000000:0000 0A", "1: 00000000:EA61 0100007F:1234 01"]
    container.file("/proc/net/tcp", "head\n" + "\n".join(rows) + "\n")
    container.file("/proc/net/tcp6", "head\n0: 00000000000000000000000000000000:EA62 0:0 0A\n")
    assert nettables.listening_ports(container.system()) == {60000, 60002}
