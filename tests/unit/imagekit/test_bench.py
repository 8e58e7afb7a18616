"""What a bench can be asked for."""

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
