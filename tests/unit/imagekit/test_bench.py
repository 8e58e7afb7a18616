"""What a bench can be asked for."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from imagekit import bench
from imagekit.bench import PARTS, Report, check_needs, cold_gib, common, own_platform, pick
from imagekit.bench import changes as bench_changes
from imagekit.bench.changes import Change, changes, commented, edited
from imagekit.bench.common import Add, Row, built_tag
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT, load_manifest
from imagekit.network import NetworkSettings


def test_all_or_one() -> None:
    assert pick("") == PARTS
    assert pick("overhead") == ("overhead",)


def test_an_unknown_part_is_wrong_usage() -> None:
    with pytest.raises(Problem, match="--only speed: no such part; one of build, start, overhead, seed") as raised:
        pick("speed")
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("change", changes("x86_64"), ids=lambda change: change.label)
def test_every_change_changes_its_file_and_each_time_differently(change: Change) -> None:
    text = (ROOT / change.file).read_text(encoding="utf-8")
    assert len({text, change.edit(text), change.edit(text)}) == 3


def test_a_copy_is_built_with_the_edit_and_again_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, built = tmp_path / "file", []
    file.write_text("old\n", encoding="utf-8")

    def build(folder: Path) -> float:
        built.append(file.read_text(encoding="utf-8"))
        return 1.5

    monkeypatch.setattr(bench_changes, "build", build)
    with edited(tmp_path, "file", commented) as seconds:
        assert seconds == 1.5
        assert built[0].startswith("old\n# ")
    assert built[1:] == ["old\n"]


def test_two_things_are_measured_in_turns_and_neither_is_always_first() -> None:
    """What the turn before leaves behind (memory, what is still to be written) must not always hit the same one."""
    order: list[str] = []

    def measured(name: str, *seconds: float) -> tuple[str, Callable[[], float]]:
        left = iter(seconds)

        def measure() -> float:
            order.append(name)
            return next(left)

        return name, measure

    said: list[str] = []
    assert common.medians(measured("a", 3, 1, 2), measured("b", 9, 7, 8), 3, said.append) == (2, 8)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert said[0] == "  a 1/3: 3.0 s"


DOCKERFILE = ROOT / "images" / "rlinf-npu" / "Dockerfile"


def test_a_cold_build_finds_nothing_that_another_one_made(tmp_path: Path) -> None:
    """Our step must not take bytecode from a cache while bare uv and pip compile theirs."""
    with common.cold_dockerfile(tmp_path) as path:
        cold = path.read_text(encoding="utf-8")
    assert "type=cache" not in cold
    assert "--cache" not in cold
    warm = DOCKERFILE.read_text(encoding="utf-8")
    compiled = re.findall(r"compile-python --cache=\S+ (\S+);", warm)
    assert len(compiled) == 4
    assert re.findall(r"compile-python (\S+);", cold) == compiled
    uses = [step for step in cold.split("\nRUN ") if "UV_LINK_MODE=copy" in step]
    assert len(uses) == 3
    assert all("UV_NO_CACHE=1" in step for step in uses)


def test_a_cold_build_is_the_same_but_for_the_caches() -> None:
    warm = DOCKERFILE.read_text(encoding="utf-8")
    mount = re.compile(r"    --mount=type=cache,id=[a-z-]+,target=[/a-z.]+(,sharing=locked)? \\")
    kept = [
        line.replace(" --cache=/root/.cache/bytecode", "") for line in warm.splitlines() if not mount.fullmatch(line)
    ]
    assert common.without_caches(warm).replace("UV_NO_CACHE=1 ", "").splitlines() == kept


@pytest.mark.programs
def test_the_cold_dockerfile_is_one(tmp_path: Path) -> None:
    with common.cold_dockerfile(tmp_path) as path:
        command = [Path(sys.executable).parent / "hadolint", path]
        linted = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("id=bytecode,target=/root/.cache/bytecode", "id=wheels,target=/root/.cache/wheels", "id=wheels"),
        ("--mount=type=cache,id=uv,", "--mount=id=uv,type=cache,", "id=uv,type=cache"),
        ("--cache=/root/.cache/bytecode", "--cache=/var/cache/bytecode", "--cache=/var/cache/bytecode"),
        ("export UV_LINK_MODE=copy UV_NO_PROGRESS=1 PYTHONDONT", "export PYTHONDONT", "in 3 steps and sets .* in 2"),
    ],
)
def test_a_cache_that_is_not_known_is_no_cold_build(old: str, new: str, said: str) -> None:
    warm = DOCKERFILE.read_text(encoding="utf-8")
    assert old in warm
    with pytest.raises(Problem, match=said):
        common.without_caches(warm.replace(old, new))


MANIFEST = load_manifest()
HERE = own_platform(MANIFEST, "")


def row(name: str) -> Row:
    return Row(name, "1 s", "2 s", "0.5 x", "1 x")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """An engine whose images are the lines of a file."""
    docker, images, asked = tmp_path / "docker", tmp_path / "images", tmp_path / "asked"
    docker.write_text(f"""#!/bin/sh
echo "$*" >>{asked}
case "$*" in
"image ls "*) cat {images} ;;
"image rm "*) shift 2; for tag; do sed -i "/^$tag\\$/d" {images}; done ;;
"image inspect "*) grep -qxF "$3" {images} ;;
esac
""")
    docker.chmod(0o755)
    images.write_text("")
    return Engine((str(docker),), {}, "unix:///x", "26.1", "0.13", "2.26", HERE.machine, True)


def test_a_row_is_on_the_disk_as_soon_as_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "bench.json"
    path.parent.mkdir()
    path.write_text("of yesterday")
    report = Report(path)
    assert path.read_text() == "of yesterday"
    for names in (["one"], ["one", "two"]):
        report.add(row(names[-1]))
        assert [found["name"] for found in json.loads(path.read_text())] == names


@pytest.mark.programs
@pytest.mark.parametrize("failure", [Problem("the build failed"), KeyboardInterrupt()])
def test_what_ends_early_loses_no_row_and_leaves_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, failure: BaseException
) -> None:
    """Also what an earlier bench has left: one that was killed could remove nothing."""
    images = tmp_path / "images"
    images.write_text("rlinf-npu-bench:of-yesterday\n")

    def measure(*arguments: object) -> None:
        assert images.read_text() == ""
        images.write_text("rlinf-npu-bench:seed-style\nrlinf-npu-bench:seed-style-ours\n")
        add: Add = arguments[-1]  # type: ignore[assignment]
        add(row("first"))
        raise failure

    monkeypatch.setattr(bench, "check_needs", lambda *_: None)
    monkeypatch.setattr(bench, "seed_rows", measure)
    report = Report(tmp_path / "bench.json")
    with pytest.raises(type(failure)):
        bench.run(MANIFEST, engine, HERE, NetworkSettings(), print, 3, report.add, ("seed",))
    assert [found["name"] for found in json.loads((tmp_path / "bench.json").read_text())] == ["first"]
    assert images.read_text() == ""


@pytest.mark.programs
def test_an_interrupt_waits_for_the_images_to_be_removed(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "images").write_text("rlinf-npu-bench:seed-style\n")
    docker = Path(engine.docker[0])
    docker.write_text(
        docker.read_text().replace("case ", 'case "$*" in "image rm"*) kill -INT $PPID; sleep 0.3;; esac\ncase ', 1)
    )
    script = """import signal, sys
from imagekit.bench.common import remove_images
from imagekit.engine import Engine
signal.signal(signal.SIGINT, signal.default_int_handler)
remove_images(Engine((sys.argv[1],), {}, "", "", "", "", "", True), print)
"""
    done = subprocess.run([sys.executable, "-c", script, docker], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("KeyboardInterrupt")
    assert (tmp_path / "images").read_text() == ""


@pytest.mark.programs
def test_an_image_that_stays_is_said(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "images").write_text("rlinf-npu-bench:seed-style\n")
    docker = Path(engine.docker[0])
    docker.write_text(docker.read_text().replace("shift 2;", "echo conflict >&2; exit 1;"))
    said: list[str] = []
    common.remove_images(engine, said.append)
    assert said == ["not removed: conflict; docker image rm rlinf-npu-bench:seed-style"]


@pytest.mark.programs
def test_what_any_part_needs_is_looked_for_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    monkeypatch.setattr(bench, "debian_program", lambda *_: "/usr/bin/docker-registry")
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(common, "ROOT", tmp_path)
    for part in PARTS:
        name = "recap_overhead" if part == "overhead" else f"{part}_rows"
        monkeypatch.setattr(bench, name, lambda *_: pytest.fail("something was measured"))
    with pytest.raises(Problem) as raised:
        bench.run(MANIFEST, engine, HERE, NetworkSettings(), print, 3, lambda _: None)
    said = "no simulated image has been built (for start, overhead); no image has been built (for seed)"
    assert (raised.value.what, raised.value.fix) == (said, "make image BASE=sim and make image")
    check_needs(MANIFEST, engine, HERE, print, ("build",))


@pytest.mark.programs
def test_an_image_that_the_engine_has_lost_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    record = {"images": {"cann-base": {"tags": ["cann-base:x", "cann-base:x-1"], "digest": "sha256:0"}}}
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / f"built-{HERE.arch}-sim.json").write_text(json.dumps(record))
    with pytest.raises(Problem, match=r"cann-base:x-1 has been built, and is no longer in the engine \(for seed\)"):
        check_needs(MANIFEST, engine, HERE, print, ("seed",))
    (tmp_path / "images").write_text("cann-base:x-1\n")
    check_needs(MANIFEST, engine, HERE, print, ("seed",))


def test_what_was_built_last_is_measured_whatever_it_stands_on(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    for seconds, suffix in enumerate(("", "-sim")):
        record = {"images": {"rlinf-npu": {"tags": [f"rlinf-npu:x{suffix}"], "digest": "sha256:0"}}}
        path = tmp_path / "build" / f"built-{HERE.arch}{suffix}.json"
        path.write_text(json.dumps(record))
        os.utime(path, (seconds, seconds))
    assert built_tag(tmp_path, HERE) == "rlinf-npu:x-sim"
    os.utime(tmp_path / "build" / f"built-{HERE.arch}.json", (2, 2))
    assert built_tag(tmp_path, HERE) == "rlinf-npu:x"


def test_only_builds_from_nothing_need_room_each_turn_the_same() -> None:
    assert cold_gib(MANIFEST, ("start", "overhead"), 3) == 0
    one = cold_gib(MANIFEST, ("seed",), 1)
    assert one > 2 * 4.6  # two environments of what the image has today
    assert cold_gib(MANIFEST, PARTS, 3) == 6 * one


def test_another_machines_figures_are_not_measured_by_emulation() -> None:
    other = next(found for found in MANIFEST.platform if found != HERE)
    assert own_platform(MANIFEST, HERE.name) == HERE
    with pytest.raises(Problem, match=f"PLATFORM={other.name}: figures of an emulated machine") as raised:
        own_platform(MANIFEST, other.name)
    assert raised.value.exit_code == 2
