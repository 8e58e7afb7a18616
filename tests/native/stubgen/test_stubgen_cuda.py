"""CUDA stand-ins for a made-up torch: it loads, every call fails, a second run changes nothing."""

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stubgen import elf
from stubgen.cli import main

RUNTIME = """
int cudaGetDeviceCount(int *n) { *n = 1; return 0; }
const char *cudaGetErrorString(int e) { return "real"; }
"""
MAPPED = "libcudart.so.12 { global: cudaGetDeviceCount; cudaGetErrorString; };\n"
CUDA = """
extern int cudaGetDeviceCount(int *), ncclGetVersion(int *), cuInit(unsigned);
extern int cuGetErrorName(int, const char **);
extern const char *cudaGetErrorString(int);
int count(void) { int n = 7; return cudaGetDeviceCount(&n); }
int driver(void) { return cuInit(0); }
int nccl(void) { int v; return ncclGetVersion(&v); }
const char *name(void) { const char *text = "unset"; return cuGetErrorName(100, &text) ? "failed" : text; }
const char *text(void) { return cudaGetErrorString(35); }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, library: Callable[..., Path]) -> Path:
    """torch/lib of a CUDA build."""
    root = tmp_path_factory.mktemp("compiled")
    nvidia = root / "nvidia"
    (root / "map").write_text(MAPPED, encoding="utf-8")
    real = [
        library(nvidia / "libcudart.so.12", RUNTIME, f"-Wl,--version-script={root / 'map'}"),
        library(nvidia / "libnccl.so.2", "int ncclGetVersion(int *v) { return 0; }"),
        library(
            nvidia / "libcuda.so.1",
            "int cuInit(unsigned f) { return 0; } int cuGetErrorName(int e, char **t) { return 0; }",
        ),
    ]
    folder = root / "torch/lib"
    library(folder / "libtorch_cpu.so", "int cpu(void) { return 1; }")
    library(folder / "libtorch_cuda.so", CUDA, *map(str, real), "-Wl,-rpath,$ORIGIN")
    return folder


@pytest.fixture
def torch_lib(tmp_path: Path, compiled: Path) -> Path:
    """A copy of it, where no nvidia package is installed."""
    return Path(shutil.copytree(compiled, tmp_path / "torch/lib"))


def test_torch_loads_and_every_call_fails(torch_lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="libcudart"):
        ctypes.CDLL(str(torch_lib / "libtorch_cuda.so"))
    assert main(["cuda", str(torch_lib)]) == 0
    assert "simulated" in capsys.readouterr().out
    code = (
        f"import ctypes; lib = ctypes.CDLL({str(torch_lib / 'libtorch_cuda.so')!r}, 2); "
        "lib.text.restype = lib.name.restype = ctypes.c_char_p; "
        "print(lib.count(), lib.driver(), lib.nccl() != 0, lib.text().decode(), lib.name() == lib.text())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "35 100 True simulated CUDA: not available True\n"


def test_symbols_keep_their_versions(torch_lib: Path) -> None:
    assert main(["cuda", str(torch_lib)]) == 0
    versions = {symbol.name: symbol.version for symbol in elf.defined(torch_lib / "libcudart.so.12")}
    assert versions["cudaGetDeviceCount"] == "libcudart.so.12"


def test_a_second_run_changes_nothing(torch_lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cuda", str(torch_lib)]) == 0
    before = {path.name: path.stat().st_mtime_ns for path in torch_lib.iterdir()}
    capsys.readouterr()
    assert main(["cuda", str(torch_lib)]) == 0
    assert {path.name: path.stat().st_mtime_ns for path in torch_lib.iterdir()} == before
    assert capsys.readouterr().out == "CUDA stand-ins: 3 present already\n"


def test_a_cpu_build_is_left_alone(torch_lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (torch_lib / "libtorch_cuda.so").unlink()
    assert main(["cuda", str(torch_lib)]) == 0
    assert capsys.readouterr().out == "CUDA stand-ins: none needed, this torch is a CPU build\n"
    assert [path.name for path in torch_lib.iterdir()] == ["libtorch_cpu.so"]


def test_libraries_that_the_wheel_carries_are_its_own(
    torch_lib: Path, library: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """torch 2.6.0 for aarch64: auditwheel has packed OpenBLAS and others into torch.libs."""
    (torch_lib / "libtorch_cuda.so").unlink()
    blas = library(torch_lib.parents[1] / "torch.libs/libopenblasp-aaa.so", "int dgemm(void) { return 1; }")
    library(torch_lib / "libtorch_cpu.so", "extern int dgemm(void); int cpu(void) { return dgemm(); }", str(blas))
    assert main(["cuda", str(torch_lib)]) == 0
    assert capsys.readouterr().out == "CUDA stand-ins: none needed, this torch is a CPU build\n"


def test_other_packages_get_what_they_want_of_the_same_library(
    torch_lib: Path, library: Callable[..., Path], tmp_path: Path
) -> None:
    """torchvision calls functions of the CUDA runtime that torch itself does not."""
    vision = tmp_path / "torchvision"
    (tmp_path / "more").write_text("libcudart.so.12 { global: cudaLaunchKernel; };\n", encoding="utf-8")
    runtime = library(
        tmp_path / "other/libcudart.so.12",
        "int cudaLaunchKernel(void) { return 0; }",
        f"-Wl,--version-script={tmp_path / 'more'}",
    )
    library(
        vision / "_C.so",
        "extern int cudaLaunchKernel(void); int nms(void) { return cudaLaunchKernel(); }",
        str(runtime),
    )
    assert main(["cuda", str(torch_lib), str(vision)]) == 0
    versions = {symbol.name: symbol.version for symbol in elf.defined(torch_lib / "libcudart.so.12")}
    assert versions["cudaLaunchKernel"] == "libcudart.so.12"


def test_not_torchs_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cuda", str(tmp_path)]) == 1
    assert "libtorch_cpu.so" in capsys.readouterr().err


def test_a_library_that_is_not_cudas(
    torch_lib: Path, library: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    strange = library(torch_lib.parent / "libstrange.so", "int strange(void) { return 1; }")
    library(torch_lib / "libtorch_x.so", "extern int strange(void); int f(void) { return strange(); }", str(strange))
    assert main(["cuda", str(torch_lib)]) == 1
    assert "libstrange.so" in capsys.readouterr().err
    assert not (torch_lib / "libcudart.so.12").exists()
