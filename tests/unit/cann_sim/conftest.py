"""The parts of the stand-in that are scripts. Its compiled libraries are tested in tests/native."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "images/cann-sim/python"))


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """An empty folder in place of /dev."""
    folder = tmp_path / "dev"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the machine the tests run on must not reach them."""
    for name in [n for n in os.environ if n.startswith(("CANNSIM_", "ASCEND_", "HCCL_"))]:
        monkeypatch.delenv(name)
