"""Two builds that differ: which image, which layer, which file, and how."""

import gzip
import tarfile
from pathlib import Path

import pytest
from layoutkit import File, image, layer, write

from imagekit.errors import Problem
from imagekit.reproduce.compare import bytes_difference, differences
from imagekit.reproduce.stored import read_layout
from imagekit.reproduce_cli import compare_all, compare_digest

FIRST = [File("etc/", kind=tarfile.DIRTYPE, mode=0o755), File("etc/a", b"one\ntwo\n"), File("etc/b", b"\0bin")]


def changed(position: int, **values: object) -> list[File]:
    files = [File(**vars(file)) for file in FIRST]
    for name, value in values.items():
        setattr(files[position], name, value)
    return files


def test_equal_builds_have_no_difference(tmp_path: Path) -> None:
    one, two = (image(tmp_path / name, FIRST) for name in ("a", "b"))
    assert one.digest == two.digest
    assert list(differences(one, two)) == []


@pytest.mark.parametrize(
    ("second", "path", "what"),
    [
        (changed(1, mtime=1001), "/etc/a", "time 1000 and 1001"),
        (changed(1, mode=0o600), "/etc/a", "mode 0644 and 0600"),
        (changed(1, uid=7), "/etc/a", "owner 0:0 and 7:0"),
        (changed(0, mtime=7), "/etc", "time 1000 and 7"),
        (changed(1, pax={"SCHILY.xattr.user.x": "1"}), "/etc/a", "attributes none and SCHILY.xattr.user.x='1'"),
        (changed(1, data=b"one\nTWO\n"), "/etc/a", "content; line 2: 'two' and 'TWO'"),
        (changed(2, data=b"\0bim"), "/etc/b", "content; at byte 3 of 4: 00 62 69 6e and 00 62 69 6d"),
        (
            changed(1, data=b"", kind=tarfile.SYMTYPE, target="b"),
            "/etc/a",
            "file and symbolic link",
        ),
        (FIRST[:2], "/etc/b", "file in the first build only"),
        ([*FIRST, File("etc/c")], "/etc/c", "file in the second build only"),
        ([FIRST[0], FIRST[2], FIRST[1]], "/etc/a", "the same files in another order: /etc/b stands there"),
    ],
)
def test_each_kind_of_difference_is_named(tmp_path: Path, second: list[File], path: str, what: str) -> None:
    """In the layer where it is; the equal one below is not mentioned."""
    below = [File("bin/sh", b"sh")]
    one, two = image(tmp_path / "a", below, FIRST), image(tmp_path / "b", below, second)
    (found,) = differences(one, two)
    assert (found.where, found.path) == ("layer 2 (RUN step 2)", path)
    assert what in found.what


def test_the_same_files_compressed_differently(tmp_path: Path) -> None:
    plain = layer(FIRST)
    folders = [write(tmp_path / str(level), [gzip.compress(plain, level, mtime=0)]) for level in (1, 9)]
    (found,) = differences(*(read_layout(folder)[0] for folder in folders))
    assert found.what == "the same files, packed or compressed differently"


def test_a_configuration_that_differs(tmp_path: Path) -> None:
    one, two = (image(tmp_path / str(day), FIRST, created=day) for day in (1, 2))
    (found,) = differences(one, two)
    assert str(found) == "configuration: created: 1 and 2"


def test_only_the_first_content_of_a_layer_is_opened(tmp_path: Path) -> None:
    """Each look reads both layers to the file: a gigabyte each."""
    one = image(tmp_path / "a", [File("a", b"1"), File("b", b"1")])
    two = image(tmp_path / "b", [File("a", b"2"), File("b", b"2")])
    assert [found.what for found in differences(one, two)] == ["content; line 1: '1' and '2'", "content"]


def test_contents_of_different_length() -> None:
    assert bytes_difference(b"a\n", b"a\nb\n") == "line 2: '' and 'b'"


def test_the_table_and_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = image(tmp_path / "a", FIRST), image(tmp_path / "b", changed(1, mtime=1001))
    compare_all({"rlinf-npu": one}, [one], 1)
    assert f"{one.digest}" in capsys.readouterr().out
    with pytest.raises(Problem, match="rlinf-npu is not reproducible") as raised:
        compare_all({"rlinf-npu": one}, [two], 1)
    assert raised.value.exit_code == 1
    assert "rlinf-npu: layer 1 (RUN step 1): /etc/a: time 1000 and 1001" in capsys.readouterr().out


def test_images_of_different_inputs_are_told_from_a_build_that_varies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    title = {"org.opencontainers.image.title": "An image"}
    one, two = (
        image(tmp_path / source, [File("etc/a", source.encode())], config={"Labels": title | {"rlinf.source": source}})
        for source in ("git", "pypi")
    )
    with pytest.raises(Problem, match=r"not made of the same as the other: rlinf\.source git and pypi") as raised:
        compare_all({"rlinf-npu": one}, [two], 1)
    assert "SOURCE" in raised.value.fix
    assert "/etc/a: size 3 and 4, content" in capsys.readouterr().out  # the first differing file is shown all the same


def test_a_digest_alone(tmp_path: Path) -> None:
    one = image(tmp_path / "a", FIRST)
    compare_digest({"rlinf-npu": one}, one.digest)
    with pytest.raises(Problem, match="no image built has digest sha256:0"):
        compare_digest({"rlinf-npu": one}, "sha256:0")


def test_what_is_no_layout_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"no tar")
    for path in (tmp_path, tmp_path / "x.tar"):
        with pytest.raises(Problem, match="is not a complete OCI layout"):
            read_layout(path)
