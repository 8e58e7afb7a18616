"""Tiny shared libraries, compiled on the spot, in place of wheels of hundreds of megabytes."""

import functools
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

IMAGES = Path(__file__).resolve().parents[3] / "images"
sys.path.insert(0, str(IMAGES / "stubgen"))

from stubgen import wheel  # noqa: E402  # needs the path above

Library = Callable[..., Path]


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    """Everything here reads or makes ELF files."""
    missing = [tool for tool in ("cc", "c++", "nm", "readelf", "c++filt") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: gcc g++ binutils)")


@pytest.fixture(scope="session", autouse=True)
def libraries_of_the_system_are_read_once() -> Iterator[None]:
    """One tool run asks the compiler once for libc's and libstdc++'s names; so do all tests together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wheel, "_system_names", functools.cache(wheel._system_names))
        yield


@pytest.fixture(autouse=True)
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-O0 -g0")


@pytest.fixture(scope="session")
def library() -> Library:
    """library(path, source, *link options) compiles a C text into a shared library; undefined symbols are allowed."""

    def compile_library(path: Path, source: str, *options: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        command = ["cc", "-w", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", str(path)]
        subprocess.run([*command, f"-Wl,-soname,{path.name}", *options], input=source, text=True, check=True)
        return path

    return compile_library
