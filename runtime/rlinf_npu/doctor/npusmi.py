"""What `npu-smi info` prints, as data. The table's form is the same from driver 22 to 26."""

import re
from dataclasses import dataclass, field

_CARD = re.compile(r"^\|\s*(\d+)\s+(\S+)\s*\|\s*(\S+)\s*\|")
_CHIP = re.compile(r"^\|\s*(\d+)(?:\s+\d+)?\s*\|\s*([0-9A-Fa-f]{4}:[0-9A-Fa-f:.]+|NA)\s*\|(.*)\|\s*$")
_PROCESS = re.compile(r"^\|\s*(\d+)\s+(\d+)\s*\|\s*(\d+)\s*\|\s*(.*?)\s*\|\s*(\d+)\s*\|\s*$")
_CODE = re.compile(r"-8\d{3}\b")


@dataclass
class Chip:
    """One line pair of the table; memory in MiB."""

    npu: int
    name: str
    health: str
    hbm_used: int = 0
    hbm_total: int = 0


@dataclass
class Process:
    """A process that npu-smi knows on a card."""

    npu: int
    pid: int
    name: str
    memory: int


@dataclass
class SmiReport:
    """The table, and DCMI error codes printed instead of or beside it."""

    text: str
    version: str = ""
    chips: list[Chip] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def parse(text: str) -> SmiReport:
    """Read npu-smi's table; unknown lines are passed over."""
    report = SmiReport(text, errors=sorted(set(_CODE.findall(text))))
    version = re.search(r"Version:\s*(\S+)", text)
    report.version = version[1] if version else ""
    card: Chip | None = None
    for line in text.splitlines():
        if match := _PROCESS.match(line):
            report.processes.append(Process(int(match[1]), int(match[3]), match[4], int(match[5])))
        elif (match := _CHIP.match(line)) and card is not None:
            used, total = _hbm(match[3])
            report.chips.append(Chip(card.npu, card.name, card.health, used, total))
        elif match := _CARD.match(line):
            card = Chip(int(match[1]), match[2], match[3])
    return report


def _hbm(columns: str) -> tuple[int, int]:
    """HBM-Usage is the last `used / total` of the line (the one before it is DDR, 0 / 0 on 910B)."""
    pairs = re.findall(r"(\d+)\s*/\s*(\d+)", columns)
    return (int(pairs[-1][0]), int(pairs[-1][1])) if pairs else (0, 0)
