"""The hand-written libraries of the stand-in, compiled once and called through ctypes in child processes."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

IMAGES = Path(__file__).resolve().parents[3] / "images"
sys.path[:0] = [str(IMAGES / "stubgen"), str(IMAGES / "cann-sim/python")]

from stand_in import StandIn  # noqa: E402  # needs the paths above
from stubgen.build import Toolchain  # noqa: E402
from stubgen.cann import CannBuilder  # noqa: E402


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """Compiled libraries; no card yet."""
    missing = [tool for tool in ("cc", "nm", "readelf") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: gcc binutils)")
    out = tmp_path_factory.mktemp("stand-in")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CFLAGS", "-O0 -g0")
        CannBuilder(IMAGES / "cann-sim/src", out, None, Toolchain()).build()
    return StandIn(out)


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
