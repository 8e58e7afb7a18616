"""The stand-in for torch's CUDA kernels: bindings load, calls throw by name, nothing else changes."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from stubgen.cli import main

KERNELS = """
namespace at { int launch(int n) { return n; } }
namespace c10d { struct Group { virtual ~Group(); }; Group::~Group() {} }
extern "C" int unused_kernel() { return 1; }
"""
BINDINGS = """
#include <stdexcept>
#include <cstring>
#include <typeinfo>
namespace at { int launch(int); }
namespace c10d { struct Group { virtual ~Group(); }; }
extern "C" int call(char *text) {
    try { return at::launch(7); } catch (const std::exception &e) { strcpy(text, e.what()); return -1; }
}
extern "C" const char *type_name() { return typeid(c10d::Group).name(); }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, library: Callable[..., Path]) -> Path:
    """torch/lib of a CUDA build."""
    root = tmp_path_factory.mktemp("compiled")
    folder = root / "torch/lib"
    library(folder / "libtorch_cpu.so", "int cpu(void) { return 1; }")
    for name, source, links in (("cuda", KERNELS, []), ("python", BINDINGS, ["-ltorch_cuda"])):
        path = root / f"{name}.cc"
        path.write_text(source, encoding="utf-8")
        output = ["-o", str(folder / f"libtorch_{name}.so"), f"-Wl,-soname,libtorch_{name}.so"]
        common = ["g++", "-shared", "-fPIC", str(path), *output, f"-L{folder}", "-Wl,-rpath,$ORIGIN", *links]
        subprocess.run(common, check=True)
    (folder / "libtorch_cuda_linalg.so").write_bytes(b"\x7fELF")
    return folder


@pytest.fixture
def torch_lib(tmp_path: Path, compiled: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(compiled, tmp_path / "torch/lib"))


def test_calls_throw_and_types_keep_their_names(torch_lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", str(torch_lib)]) == 0
    assert capsys.readouterr().out.startswith("CUDA kernels (simulated): 2 symbols that throw")
    assert not (torch_lib / "libtorch_cuda_linalg.so").exists()
    bindings = ctypes.CDLL(str(torch_lib / "libtorch_python.so"))
    text = ctypes.create_string_buffer(300)
    assert bindings.call(text) == -1
    assert text.value == b"[simulated CUDA] at::launch(int): this image has no CUDA kernels"
    bindings.type_name.restype = ctypes.c_char_p
    assert bindings.type_name() == b"N4c10d5GroupE"


def test_a_second_run_and_a_cpu_build_change_nothing(torch_lib: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["kernels", str(torch_lib)])
    before = (torch_lib / "libtorch_cuda.so").stat().st_mtime_ns
    assert main(["kernels", str(torch_lib)]) == 0
    assert "replaced already" in capsys.readouterr().out
    assert (torch_lib / "libtorch_cuda.so").stat().st_mtime_ns == before
    (torch_lib / "libtorch_cuda.so").unlink()
    assert main(["kernels", str(torch_lib)]) == 0
    assert "CPU build" in capsys.readouterr().out


def test_data_that_cannot_be_stood_in_for_is_an_error(
    torch_lib: Path, library: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    library(torch_lib / "libtorch_cuda.so", "int table_of_kernels[4] = {1, 2};")
    library(
        torch_lib / "libtorch_python.so",
        "extern int table_of_kernels[4]; int first(void) { return table_of_kernels[0]; }",
    )
    assert main(["kernels", str(torch_lib)]) == 1
    assert "table_of_kernels is data" in capsys.readouterr().err
