"""The doctor's tables (data/*.toml), each entry with the public page its content comes from."""

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

DATA = Path(__file__).parent / "data"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Code(_Strict):
    """An error code. Without `meaning` no public page documents it."""

    code: str
    name: str = ""
    meaning: str = ""
    fix: str = ""
    source: str = ""  # a key of the file's [sources], where the meaning is documented
    seen: list[str] = []  # public reports
    seen_as: str = ""  # what the reporters found


class Family(_Strict):
    """Codes that are documented as a family only."""

    pattern: str
    meaning: str
    fix: str
    source: str


class Signature(_Strict):
    """A line in a log or an import error that tells a known fault."""

    id: str
    pattern: str
    meaning: str
    fix: str
    link: str
    npufix: list[str] = []  # ids of fixes that cure it

    def search(self, text: str) -> re.Match[str] | None:
        """First place in `text` that shows this fault."""
        return re.search(self.pattern, text, re.MULTILINE)


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / name).read_text(encoding="utf-8"))


@lru_cache
def codes() -> dict[str, Code]:
    """Error codes by code."""
    return {row["code"]: Code(**row) for row in _load("codes.toml")["code"]}


@lru_cache
def families() -> tuple[Family, ...]:
    """Families of error codes."""
    return tuple(Family(**row) for row in _load("codes.toml")["family"])


@lru_cache
def sources() -> dict[str, str]:
    """Pages that document error codes, by key."""
    return dict(_load("codes.toml")["sources"])


@lru_cache
def signatures() -> tuple[Signature, ...]:
    """Known fault lines, most specific first."""
    return tuple(Signature(**row) for row in _load("signatures.toml")["signature"])


class Limits(_Strict):
    """Thresholds; data/limits.toml gives the reason for each."""

    import_seconds: int
    command_seconds: int
    network_seconds: int
    nofile: int
    nproc: int
    disk_free_gib: int
    disk_used_percent: int
    inodes_free_percent: int
    hbm_used_percent: int
    zombies: int
    clock_skew_seconds: int
    hugepages_percent: int
    hccl_base_port: int
    hccl_ports: int
    hccl_port_min: int
    hccl_port_max: int
    ray_memory_percent: int
    ray_shm_bytes: int


@lru_cache
def limits() -> Limits:
    """The thresholds."""
    return Limits(**_load("limits.toml"))
