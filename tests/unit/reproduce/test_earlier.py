"""What a build can be compared with."""

import subprocess
from pathlib import Path

import pytest
from layoutkit import File, layer, write

from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import ROOT
from imagekit.reproduce.builds import layouts_in, source_from_there
from imagekit.reproduce.earlier import find_earlier
from imagekit.reproduce.stored import read_layout

DIGEST = "sha256:" + "0" * 64


def engine(*docker: str) -> Engine:
    return Engine(docker or ("false",), {}, "unix:///x", "26.1", "0.13", "2.26", "x86_64", True)


def layouts(folder: Path) -> Path:
    write(folder / "child", [layer([File("a")]), layer([File("b")])])
    write(folder / "parent", [layer([File("a")])])
    return folder


def test_a_folder_of_layouts_parent_first(tmp_path: Path) -> None:
    folder = layouts(tmp_path / "kept")
    assert list(layouts_in(folder)) == ["parent", "child"]
    found = find_earlier(engine(), str(folder), tmp_path)
    assert not isinstance(found, str)
    assert [len(image.layers) for image in found] == [1, 2]


def test_one_layout_and_an_archive_of_it_are_the_same(tmp_path: Path) -> None:
    folder = layouts(tmp_path / "kept") / "child"
    subprocess.run(["tar", "cf", tmp_path / "x.tar", "-C", folder, "index.json", "blobs"], check=True)
    found = [find_earlier(engine(), str(path), tmp_path)[0] for path in (folder, tmp_path / "x.tar")]
    assert found[0].digest == found[1].digest  # type: ignore[union-attr]


def test_an_image_of_the_engine_is_saved_and_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "engine", [layer([File("a")])])
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\n[ "$1" = image ] || tar c -C {folder} index.json blobs\n')
    docker.chmod(0o755)
    found = find_earlier(engine(str(docker)), "rlinf-npu:today", tmp_path)
    assert [image.digest for image in found] == [read_layout(folder)[0].digest]  # type: ignore[union-attr]


def test_a_digest_that_is_not_here_stays_a_digest(tmp_path: Path) -> None:
    assert find_earlier(engine(), DIGEST, tmp_path) == DIGEST
    assert find_earlier(engine(), f"ghcr.io/x/rlinf-npu@{DIGEST}", tmp_path) == DIGEST


def test_what_names_nothing_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for against in ("nothing:here", str(tmp_path / "empty")):
        with pytest.raises(Problem) as raised:
            find_earlier(engine(), against, tmp_path)
        assert raised.value.exit_code == 2
        assert raised.value.fix


@pytest.mark.parametrize("source", [None, "", "auto", "git", "/no/such/folder"])
def test_only_a_folder_is_named_anew(source: str | None) -> None:
    assert source_from_there({} if source is None else {"SOURCE": source}) == {}


def test_a_folder_is_found_from_another_one() -> None:
    assert source_from_there({"SOURCE": "imagekit"}) == {"SOURCE": str(ROOT / "imagekit")}
