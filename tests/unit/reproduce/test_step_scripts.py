"""What build steps run so that two of them give the same files: images/common, on folders of the test's own."""

import contextlib
import os
import runpy
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from imagekit import lookup
from imagekit.manifest import ROOT, load_manifest
from imagekit.planner import bake

pytestmark = pytest.mark.programs

COMMON = ROOT / "images" / "common"
DATE = 1_000_000_000


def run(command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=False)


# --- clamp-times ------------------------------------------------------------------------------------------------------


def test_what_a_step_made_gets_the_date_and_older_dates_stay(tmp_path: Path) -> None:
    (tmp_path / "new/deep").mkdir(parents=True)
    (tmp_path / "new/deep/file with space").write_text("x")
    (tmp_path / "new/link").symlink_to("nowhere")
    (tmp_path / "packed").write_text("x")
    os.utime(tmp_path / "packed", (5, 5))
    done = run([str(COMMON / "clamp-times"), str(DATE), str(tmp_path)])
    assert done.returncode == 0, done.stderr
    found = {str(path.relative_to(tmp_path)): path.lstat().st_mtime for path in [tmp_path, *tmp_path.rglob("*")]}
    assert found.pop("packed") == 5
    assert set(found.values()) == {DATE}, found
    assert len(found) == 5


def test_a_file_of_a_layer_below_is_not_touched(tmp_path: Path) -> None:
    """Touching it would copy it up. What changed before the container began cannot be the step's work."""
    (tmp_path / "below").write_text("x")
    done = run([str(COMMON / "clamp-times"), str(DATE), str(tmp_path)], CLAMP_SINCE=str(int(time.time()) + 100))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "below").stat().st_mtime > DATE


# --- compile-python ---------------------------------------------------------------------------------------------------


def write_modules(folder: Path, count: int) -> None:
    """Names that occur in several files, sets and constants: what marshal's output depends on the process for."""
    for number in range(count):
        text = f"shared = {{'a', 'b', None, ('x', {number % 7})}}\ndef function_{number % 5}(shared, other=1.5):\n"
        text += f"    return shared in {{'one', 'two', 'three', 'n{number % 3}'}} and other\n"
        (folder / f"module_{number:03}.py").write_text(text)


def bytecode(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("__pycache__/*.pyc"))}


def test_bytecode_does_not_depend_on_cores_seed_or_what_was_there(tmp_path: Path) -> None:
    write_modules(tmp_path, 250)
    (tmp_path / "template.py").write_text("class {{ name }}:\n")  # does not compile, as in many packages
    compiler = [sys.executable, str(COMMON / "compile-python"), str(tmp_path)]
    first = run(compiler, PYTHONHASHSEED="1")
    assert first.returncode == 0, first.stderr
    assert first.stderr == ""
    before = bytecode(tmp_path)
    assert len(before) == 250
    one_core = run(["taskset", "--cpu-list", _a_core(), *compiler], PYTHONHASHSEED="2")
    assert one_core.returncode == 0, one_core.stderr
    assert bytecode(tmp_path) == before


def test_bytecode_is_valid_whatever_the_source_files_time(tmp_path: Path) -> None:
    """PEP 552: flags 0b01, hash-based and unchecked."""
    write_modules(tmp_path, 1)
    run([sys.executable, str(COMMON / "compile-python"), str(tmp_path)])
    (content,) = bytecode(tmp_path).values()
    assert content[4:8] == b"\x01\0\0\0"


@pytest.fixture
def compiler(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """compile-python on tmp_path/modules, without bytecode of an earlier call there; with the cache unless told."""

    def call(*options: str) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(tmp_path / "modules/__pycache__", ignore_errors=True)
        options = options or (f"--cache={tmp_path / 'cache'}",)
        done = run([sys.executable, str(COMMON / "compile-python"), *options, str(tmp_path / "modules")])
        assert done.returncode == 0, done.stderr
        return done

    (tmp_path / "modules").mkdir()
    write_modules(tmp_path / "modules", 250)
    (tmp_path / "modules/template.py").write_text("class {{ name }}:\n")
    return call


def test_kept_bytecode_is_what_compiling_gives(tmp_path: Path, compiler: Callable[..., object]) -> None:
    compiler("--")
    alone = bytecode(tmp_path / "modules")
    modes = {path.stat().st_mode for path in (tmp_path / "modules/__pycache__").iterdir()}
    for _ in ("filled", "used"):
        compiler()
        assert bytecode(tmp_path / "modules") == alone
        assert {path.stat().st_mode for path in (tmp_path / "modules/__pycache__").iterdir()} == modes
    assert len(alone) == 250


def test_only_the_piece_of_a_changed_file_is_compiled_again(tmp_path: Path, compiler: Callable[..., object]) -> None:
    compiler()
    kept = set((tmp_path / "cache").iterdir())
    (tmp_path / "modules/module_100.py").write_text("changed = 1\n")
    compiler()
    assert len(set((tmp_path / "cache").iterdir()) - kept) == 1
    assert b"changed" in (tmp_path / "modules/__pycache__").joinpath(_pyc("module_100")).read_bytes()


def test_numbered_files_are_cut_into_many_pieces_and_one_more_moves_no_other_border() -> None:
    cut = runpy.run_path(str(COMMON / "compile-python"))["cut"]
    files = [f"/opt/venv/lib/package/module_{number:04}.py" for number in range(2000)]
    pieces = cut(files)
    assert [path for piece in pieces for path in piece] == files
    assert 10 < len(pieces) < 100
    assert max(len(piece) for piece in pieces) < 500
    more = cut(sorted([*files, "/opt/venv/lib/package/module_1000_more.py"]))
    assert len([piece for piece in more if piece not in pieces]) <= 2


def test_what_is_kept_is_used_and_what_is_broken_is_not(tmp_path: Path, compiler: Callable[..., object]) -> None:
    compiler()
    right = bytecode(tmp_path / "modules")
    (kept, *others) = sorted((tmp_path / "cache").iterdir())
    pristine = kept.read_bytes()
    kept.write_bytes(pristine.replace(b"three", b"THREE"))
    compiler()
    changed = bytecode(tmp_path / "modules")
    assert changed != right  # so it came from there
    kept.write_bytes(pristine[: len(pristine) // 2])
    for other in others:
        other.write_bytes(b"")
    compiler()
    assert bytecode(tmp_path / "modules") == right


def test_what_no_build_used_for_a_month_is_dropped(tmp_path: Path, compiler: Callable[..., object]) -> None:
    compiler()
    (tmp_path / "cache/old").write_bytes(b"")
    os.utime(tmp_path / "cache/old", (DATE, DATE))
    kept = set((tmp_path / "cache").iterdir())
    compiler()
    assert kept - set((tmp_path / "cache").iterdir()) == {tmp_path / "cache/old"}


def test_builds_at_the_same_time_may_rename_and_drop_files_of_the_cache(tmp_path: Path) -> None:
    """A folder is listed first and each file looked at later: what another build had there may be gone by then."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for number in range(300):
        (cache / f"{number}.unfinished").write_bytes(b"")
    (tmp_path / "modules").mkdir()
    write_modules(tmp_path / "modules", 1)
    with renaming(cache):
        for _ in range(5):
            done = run([sys.executable, str(COMMON / "compile-python"), f"--cache={cache}", str(tmp_path / "modules")])
            assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def renaming(folder: Path) -> Iterator[None]:
    """A process that gives the files there other names without end, as many builds would."""
    endless = "import itertools, os, sys\nos.chdir(sys.argv[1])\nnames = os.listdir()\n"
    endless += "for name in itertools.cycle(names):\n    os.rename(name, name + '.moved')\n"
    endless += "    os.rename(name + '.moved', name)\n"
    other = subprocess.Popen([sys.executable, "-c", endless, str(folder)])
    try:
        yield
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_two_builds_with_the_same_process_id_keep_the_same_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As two containers have it: both have written, and only then does either give its file the name that stays."""
    cache = tmp_path / "cache"
    cache.mkdir()
    write_modules(tmp_path, 3)
    compiling = runpy.run_path(str(COMMON / "compile-python"))
    piece = sorted(str(path) for path in tmp_path.glob("*.py"))
    compiling["compile_piece"](piece)
    kept, both, replace = cache / compiling["key_of"](piece), threading.Barrier(2), Path.replace

    def replace_when_both_have_written(path: Path, target: Path) -> Path:
        both.wait(timeout=30)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replace_when_both_have_written)
    with ThreadPoolExecutor(2) as builds:
        for build in [builds.submit(compiling["keep"], piece, kept) for _ in range(2)]:
            build.result()
    assert list(cache.iterdir()) == [kept]
    before = bytecode(tmp_path)
    shutil.rmtree(tmp_path / "__pycache__")
    assert compiling["take"](piece, kept)
    assert bytecode(tmp_path) == before


def test_what_another_build_drops_while_it_is_taken_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    write_modules(tmp_path, 1)
    compiling = runpy.run_path(str(COMMON / "compile-python"))
    piece, kept, utime = [str(tmp_path / "module_000.py")], tmp_path / "cache/kept", os.utime
    compiling["compile_piece"](piece)
    compiling["keep"](piece, kept)
    before = bytecode(tmp_path)

    def drop_first(path: Path) -> None:
        path.unlink()
        utime(path)

    monkeypatch.setattr(os, "utime", drop_first)
    shutil.rmtree(tmp_path / "__pycache__")
    assert compiling["take"](piece, kept)
    assert bytecode(tmp_path) == before


def test_a_piece_that_does_not_fit_into_the_cache_fails_the_step_and_is_said(tmp_path: Path) -> None:
    """The limit on a file's size is reached by the same call as a full disk's end."""
    (tmp_path / "modules").mkdir()
    write_modules(tmp_path / "modules", 60)
    command = [sys.executable, str(COMMON / "compile-python"), f"--cache={tmp_path / 'cache'}"]
    done = run(["prlimit", "--fsize=4000:4000", *command, str(tmp_path / "modules")])
    assert (done.returncode, done.stdout) == (1, "")
    assert "OSError: [Errno 27] File too large" in done.stderr.splitlines()
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix] == []  # it takes no room either
    done = run([*command, str(tmp_path / "modules")])
    assert (done.returncode, done.stderr, len(bytecode(tmp_path / "modules"))) == (0, "", 60)


def test_bytecode_that_cannot_be_written_fails_the_step_and_is_not_kept_as_none(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    write_modules(tmp_path / "modules", 3)
    in_the_way = tmp_path / "modules/__pycache__"
    in_the_way.write_text("no folder")
    command = [sys.executable, str(COMMON / "compile-python"), f"--cache={tmp_path / 'cache'}"]
    done = run([*command, str(tmp_path / "modules")])
    assert (done.returncode, done.stdout) == (1, "")
    assert str(in_the_way) in done.stderr.splitlines()[-1]
    in_the_way.unlink()
    assert run([*command, str(tmp_path / "modules")]).returncode == 0
    assert len(bytecode(tmp_path / "modules")) == 3


def test_a_link_to_nowhere_is_passed_over(tmp_path: Path, compiler: Callable[..., object]) -> None:
    (tmp_path / "modules/.#module_000.py").symlink_to("somebody@host.1234")  # an editor's lock
    for options in ((), ("--",)):
        compiler(*options)
        assert len(bytecode(tmp_path / "modules")) == 250


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = run([sys.executable, str(COMMON / "compile-python"), str(tmp_path / "nowhere")])
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        f"compile-python: error: no folder {tmp_path / 'nowhere'}",
    )


def _pyc(name: str) -> str:
    return f"{name}.{sys.implementation.cache_tag}.pyc"


def _a_core() -> str:
    return str(min(os.sched_getaffinity(0)))


# --- apt-locked -------------------------------------------------------------------------------------------------------

Apt = Callable[..., "subprocess.CompletedProcess[str]"]
LOCK = "# a comment\ngit=1:2.39\nlibc6=2.36-9\n"


@pytest.fixture
def apt(tmp_path: Path) -> Apt:
    """apt-locked with a lock of its own, in a root folder of the test, with programs that only pretend."""
    scripts, programs, root = tmp_path / "common", tmp_path / "bin", tmp_path / "root"
    for folder in (scripts / "apt", programs, root / "etc"):
        folder.mkdir(parents=True)
    for name in ("apt-locked", "with-net"):
        (scripts / name).symlink_to(COMMON / name)
    (scripts / "apt/debian12-amd64.txt").write_text(LOCK)
    (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n')
    for name, text in (
        ("dpkg", "echo amd64"),
        ("dpkg-query", f"cat {tmp_path}/installed"),
        (
            "apt-get",
            f'echo "$@" >>{tmp_path}/calls; for word; do case $word in '
            f"Dir::Etc::Preferences=*) cp ${{word#*=}} {tmp_path}/pins ;; esac; done",
        ),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)

    def call(installed: str, mode: str = "locked") -> subprocess.CompletedProcess[str]:
        (tmp_path / "installed").write_text(installed)
        path = f"{programs}:{os.environ['PATH']}"
        return run([str(scripts / "apt-locked"), "install", "git"], PATH=path, APT=mode, APT_ROOT=str(root))

    return call


def differs(tmp_path: Path) -> str:
    return (tmp_path / "root/usr/share/rlinf-npu/apt-differs.txt").read_text()


def test_recorded_versions_are_pinned_and_nothing_is_said(apt: Apt, tmp_path: Path) -> None:
    done = apt("ii git=1:2.39\nii libc6=2.36-9\nrc old=1\n")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Package: git\nPin: version 1:2.39\nPin-Priority: 1001\n" in (tmp_path / "pins").read_text()
    assert differs(tmp_path) == ""


def test_a_version_that_is_gone_is_one_line_and_a_record(apt: Apt, tmp_path: Path) -> None:
    done = apt("ii git=1:2.40\nii libc6=2.36-9\nii new=3\n")
    assert done.returncode == 0
    assert done.stdout == "warning: 2 packages are not as recorded in apt/debian12-amd64.txt: git=1:2.40 new=3 \n"
    assert differs(tmp_path) == "git=1:2.40\nnew=3\n"


def test_a_dated_build_takes_nothing_else(apt: Apt) -> None:
    assert apt("ii git=1:2.39\nii libc6=2.36-9\n", "snapshot").returncode == 0
    done = apt("ii git=1:2.40\nii libc6=2.36-9\n", "snapshot")
    assert done.returncode == 1
    assert "APT=snapshot takes recorded versions only" in done.stderr


def test_a_new_record_is_made_without_the_old_one(apt: Apt, tmp_path: Path) -> None:
    assert apt("ii git=1:2.40\n", "newest").stdout == ""
    assert (tmp_path / "pins").read_text() == ""


def test_without_a_record_the_newest_is_taken_and_said(apt: Apt, tmp_path: Path) -> None:
    (tmp_path / "common/apt/debian12-amd64.txt").unlink()
    done = apt("ii git=1:2.40\n")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert "no apt/debian12-amd64.txt records versions" in done.stdout
    assert apt("ii git=1:2.40\n", "snapshot").returncode == 1


def test_a_dated_build_reads_the_archives_from_the_server_that_keeps_that_day(
    tmp_path: Path,
) -> None:
    """debian is the beginning of debian-security, and each must go to its own place."""
    manifest = load_manifest()
    lists = tmp_path / "etc/apt/sources.list.d"
    lists.mkdir(parents=True)
    (lists / "debian.sources").write_text(
        "URIs: http://deb.debian.org/debian\nSuites: bookworm\n\nURIs: http://deb.debian.org/debian-security/\n"
    )
    (tmp_path / "etc/apt/sources.list").write_text("deb http://archive.ubuntu.com/ubuntu/ jammy main\n")
    wanted = lookup.Wanted(*lookup.pick_platform(manifest, "linux/amd64"), "sim", "git", None, apt="snapshot")
    request = lookup.offline_request(manifest, wanted)
    servers = bake(manifest, ["cann-base"], request)["target"]["cann-base"]["args"]["APT_SERVERS"]
    show = 'cat "$APT_CONFIG"; cat "$(dirname "$APT_CONFIG")"/parts/*'
    done = run([str(COMMON / "with-net"), "sh", "-c", show], APT_SERVERS=servers, APT_ROOT=str(tmp_path))
    assert done.returncode == 0, done.stderr
    day = manifest.apt.date
    assert f"URIs: https://snapshot.debian.org/archive/debian/{day}\n" in done.stdout
    assert f"URIs: https://snapshot.debian.org/archive/debian-security/{day}\n" in done.stdout
    assert f"deb https://snapshot.ubuntu.com/ubuntu/{day} jammy main\n" in done.stdout
    assert 'Acquire::Check-Valid-Until "false";' in done.stdout
