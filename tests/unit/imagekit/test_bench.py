"""What a bench can be asked for."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from imagekit.bench import PARTS, common, pick
from imagekit.bench import changes as bench_changes
from imagekit.bench.changes import Change, changes, commented, edited
from imagekit.errors import Problem
from imagekit.manifest import ROOT


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
