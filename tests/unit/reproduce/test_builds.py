"""A folder of layouts holds one build."""

import json
import subprocess
from pathlib import Path

import pytest
from layoutkit import File, layer, write

from imagekit import reproduce_cli
from imagekit.errors import Problem
from imagekit.reproduce.builds import check_unused, layouts_in


def test_layouts_are_kept_in_an_unused_folder_only(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("no layout")
    check_unused(tmp_path / "other")
    check_unused(tmp_path / "new")
    write(tmp_path / "used" / "cann-base", [layer([File("a")])])
    (tmp_path / "file").touch()
    for name, said in (("used", "holds a build already: .*/cann-base/index.json"), ("file", "is no folder")):
        with pytest.raises(Problem, match=said) as raised:
            check_unused(tmp_path / name)
        assert raised.value.exit_code == 2
    with pytest.raises(Problem, match="holds a build already"):
        check_unused(tmp_path / "used" / "cann-base")


def test_a_used_folder_is_refused_before_anything_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "cann-base", [layer([File("a")])])
    monkeypatch.setattr(reproduce_cli.engines, "ensure_engine", lambda *_: pytest.fail("an engine was asked"))
    with pytest.raises(Problem, match="holds a build already") as raised:
        reproduce_cli.reproduce(against="", keep=tmp_path, limit=1)
    assert raised.value.exit_code == 2


def test_two_builds_in_one_layout_are_not_taken_for_one(tmp_path: Path) -> None:
    """buildx leaves the earlier image in index.json, in front."""
    once = write(tmp_path / "kept" / "cann-base", [layer([File("a")])])
    again = write(tmp_path / "again", [layer([File("b")])])
    subprocess.run(["cp", "-R", f"{again}/blobs", once], check=True)
    indexes = [json.loads((folder / "index.json").read_text())["manifests"] for folder in (once, again)]
    (once / "index.json").write_text(json.dumps({"manifests": [*indexes[0], *indexes[1]]}))
    with pytest.raises(Problem, match="cann-base holds 2 builds"):
        layouts_in(tmp_path / "kept")
