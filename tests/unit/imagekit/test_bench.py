"""What a bench can be asked for."""

from pathlib import Path

import pytest

from imagekit.bench import PARTS, pick
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
