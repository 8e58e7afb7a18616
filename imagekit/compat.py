"""Which torch_npu goes with which CANN: Ascend's compatibility table, the same data that the doctor reads."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from imagekit.manifest import ROOT, Versions

TABLE = ROOT / "runtime" / "rlinf_npu" / "doctor" / "data" / "compat.toml"


@dataclass(frozen=True)
class CannRelease:
    """One CANN release.

    Attributes:
        cann: its name as Ascend writes it, `8.3.RC1`; `9.0` stands for the series.
        torch_npu: torch version -> torch_npu releases that pair with it.
        driver: the driver release that ships beside it, empty when not known.
        oldest_driver: the oldest driver it runs on.
        sources: pages that say so.
    """

    cann: str
    torch_npu: dict[str, list[str]]
    driver: str
    oldest_driver: str
    sources: list[str]


def releases(path: Path = TABLE) -> list[CannRelease]:
    """Return the table, oldest release first."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["cann"]
    return [
        CannRelease(row["cann"], row.get("torch_npu", {}), row.get("paired", ""), row["oldest"], row["sources"])
        for row in rows
    ]


def find_release(cann: str, path: Path = TABLE) -> CannRelease | None:
    """Return the row of a CANN release: its own, else that of its series (`9.0` for 9.0.1), else None."""
    rows = {row.cann.lower(): row for row in releases(path)}
    return rows.get(cann.lower()) or rows.get(".".join(cann.lower().split(".")[:2]))


def is_listed(versions: Versions, path: Path = TABLE) -> bool:
    """Return whether CANN, torch and torch_npu of the manifest are a pair that the table knows."""
    row = find_release(versions.cann, path)
    return row is not None and versions.torch_npu in row.torch_npu.get(versions.torch, [])
