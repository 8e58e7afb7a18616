"""The hand-written libraries of the stand-in, compiled once and called through ctypes in child processes."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

IMAGES = Path(__file__).resolve().parents[3] / "images"
TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(IMAGES / "stubgen"), str(TESTS / "native/stubgen"), str(TESTS / "unit/cann_sim")]

from made_up_wheel import build_cann  # noqa: E402  # needs the paths above
from stand_in import StandIn  # noqa: E402


@pytest.fixture(scope="session")
def stand_in(once: Callable[[str, Callable[[Path], None]], Path]) -> StandIn:
    """Compiled libraries; no card yet."""
    missing = [tool for tool in ("cc", "c++", "nm", "readelf", "c++filt") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: gcc g++ binutils)")
    return StandIn(once("cann", build_cann))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Path]:
    """An empty folder in place of /dev."""
    folder = tmp_path / "dev"
    folder.mkdir()
    yield folder


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the machine the tests run on must not reach them."""
    for name in [n for n in os.environ if n.startswith(("CANNSIM_", "ASCEND_", "HCCL_"))]:
        monkeypatch.delenv(name)
