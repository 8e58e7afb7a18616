"""Stubs for a made-up wheel: complete, callable, and honest about what they are."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_wheel import SOURCES, build_cann
from stubgen import elf
from stubgen.cli import main


@pytest.fixture(scope="session")
def built(once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """The stand-in for a made-up wheel."""
    return once("cann", build_cann)


def names(path: Path) -> set[str]:
    return {symbol.name for symbol in elf.defined(path)}


def test_each_symbol_is_in_the_library_it_belongs_to(built: Path) -> None:
    toolkit = built / "lib64"
    assert {"aclrtMystery", "aclCreateTensorDesc", "aclrtSetDevice"} <= names(toolkit / "libascendcl.so")
    assert "HcclMystery" in names(toolkit / "libhccl.so")
    assert "acltdtGetDatasetSize" in names(toolkit / "libacl_tdt_channel.so")
    assert {"_ZN2ge7Session8AddGraphEj", "_ZN2ge7SessionD1Ev"} <= names(toolkit / "libge_runner.so")


def test_what_is_implemented_is_not_stubbed(built: Path) -> None:
    assert "strcpy_s" in names(built / "lib64/libc_sec.so")
    for path in (built / "lib64").glob("*.so"):
        assert path.name == "libc_sec.so" or "strcpy_s" not in names(path)


def test_operators_come_in_pairs(built: Path) -> None:
    found = {name for name in names(built / "lib64/libopapi.so") if "Foo" in name or "Ba" in name}
    assert found == {"aclnnFoo", "aclnnFooGetWorkspaceSize", "aclnnBar", "aclnnBarGetWorkspaceSize"}


def test_libraries_opened_by_name_exist(built: Path) -> None:
    for soname in ("libnnopbase.so", "libmsprofiler.so", "libascend_dump.so"):
        assert (built / "lib64" / soname).is_file()


def test_driver_is_apart_and_devlib_offers_the_same(built: Path) -> None:
    driver = built / "driver/lib64/driver/libascend_hal.so"
    assert not (built / "lib64/libascend_hal.so").exists()
    assert names(driver) == names(built / "devlib/libascend_hal.so")
    assert (built / "driver/lib64/common/libc_sec.so").is_file()


def test_only_the_runtime_asks_for_the_driver(built: Path) -> None:
    asking = [path.name for path in (built / "lib64").glob("*.so") if "libascend_hal.so" in elf.needed(path)]
    assert asking == ["libascendcl.so"]


def call(built: Path, code: str) -> str:
    """Run `code` in a process that finds the libraries, as programs do."""
    paths = f"{built}/lib64:{built}/driver/lib64/driver"
    prelude = "import ctypes\nload = lambda name: ctypes.CDLL(f'lib{name}.so')\n"
    prelude += "error = load('ascendcl').aclGetRecentErrMsg; error.restype = ctypes.c_char_p\n"
    done = subprocess.run(
        [sys.executable, "-c", prelude + code],
        env={"LD_LIBRARY_PATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("expression", "value", "named"),
    [
        ("load('ascendcl').aclrtMystery()", "200001", "aclrtMystery"),
        ("load('hccl').HcclMystery()", "5", "HcclMystery"),
        ("load('ascendcl').aclCreateTensorDesc()", "0", "aclCreateTensorDesc"),
        ("load('acl_tdt_channel').acltdtGetDatasetSize()", "0", "acltdtGetDatasetSize"),
        ("load('opapi').aclnnFooGetWorkspaceSize()", "200001", "operator aclnnFoo has no implementation"),
        ("load('opapi').aclnnBar()", "200001", "operator aclnnBar has no implementation"),
    ],
)
def test_a_stub_fails_and_says_what_and_why(built: Path, expression: str, value: str, named: str) -> None:
    result, text = call(built, f"print({expression}); print(error().decode())").splitlines()
    assert result == value
    assert named in text
    assert text.startswith("[simulated CANN]")


def test_a_cxx_stub_throws(built: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.cc"
    program.write_text(
        "#include <cstdio>\n#include <stdexcept>\n"
        "namespace ge { struct Session { void AddGraph(unsigned); ~Session(); }; }\n"
        "int main() { try { ge::Session s; s.AddGraph(1); } catch (const std::exception &e) { puts(e.what()); } }\n",
        encoding="utf-8",
    )
    toolkit, driver = built / "lib64", built / "driver/lib64/driver"
    link = [str(toolkit / "libge_runner.so"), f"-Wl,-rpath-link,{toolkit}:{driver}"]
    subprocess.run(["c++", str(program), "-o", str(tmp_path / "program"), *link], check=True)
    environment = {"LD_LIBRARY_PATH": f"{toolkit}:{driver}"}
    done = subprocess.run([tmp_path / "program"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[simulated CANN] ge::Session::AddGraph(unsigned int) is not implemented\n"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("extern int frobnicate(void); int f(void) { return frobnicate(); }", "frobnicate"),
        ('extern int x(void) __asm__("_ZN5weird4loadEv"); int f(void) { return x(); }', "weird::load()"),
        ('extern int x[] __asm__("_ZTVN2ge7SessionE"); int *f(void) { return x; }', "_ZTVN2ge7SessionE"),
    ],
)
def test_a_symbol_without_an_owner_is_an_error(
    tmp_path: Path, library: Callable[..., Path], capsys: pytest.CaptureFixture[str], source: str, complaint: str
) -> None:
    library(tmp_path / "wheel/libx.so", source)
    out = tmp_path / "out"
    assert main(["cann", str(out), "--sources", str(SOURCES), "--wheel", str(tmp_path / "wheel")]) == 1
    assert complaint in capsys.readouterr().err
    assert not out.exists()


def test_a_library_without_an_owner_is_an_error(
    tmp_path: Path, library: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    strange = library(tmp_path / "elsewhere/libstrange.so", "int strange(void) { return 1; }")
    library(tmp_path / "wheel/libx.so", "extern int strange(void); int f(void) { return strange(); }", str(strange))
    assert main(["cann", str(tmp_path / "out"), "--sources", str(SOURCES), "--wheel", str(tmp_path / "wheel")]) == 1
    assert "libstrange.so" in capsys.readouterr().err


@pytest.mark.parametrize(("wheel", "sources"), [("empty", SOURCES), ("wheel", Path("/nowhere"))])
def test_wrong_folders(
    tmp_path: Path, library: Callable[..., Path], capsys: pytest.CaptureFixture[str], wheel: str, sources: Path
) -> None:
    (tmp_path / "empty").mkdir()
    library(tmp_path / "wheel/libx.so", "int f(void) { return 1; }")
    assert main(["cann", str(tmp_path / "out"), "--sources", str(sources), "--wheel", str(tmp_path / wheel)]) == 1
    assert "expected" in capsys.readouterr().err


def test_a_compiler_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert main(["cann", str(tmp_path / "out"), "--sources", str(SOURCES)]) == 1
    assert "no-such-compiler is not installed" in capsys.readouterr().err


def test_usage() -> None:
    with pytest.raises(SystemExit) as stop:
        main(["cann"])
    assert stop.value.code == 2
