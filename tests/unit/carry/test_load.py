"""A bundle that is not whole is refused before the engine hears of it; the tar that the engine gets is complete."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from carrykit import BASE, LATE, MIDDLE, QUIET, SavedImage, sha, tar, write

from imagekit.carry.load import Verified, _tar, verify_bundle
from imagekit.errors import Problem
from imagekit.manifest import load_manifest


def verify(path: Path, earlier: Path | None = None, machine: str = "x86_64") -> Verified:
    return verify_bundle(path, earlier, machine, load_manifest(), QUIET)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    write(SavedImage([BASE, MIDDLE, LATE]), folder / "first")
    write(SavedImage([BASE, MIDDLE, LATE]), folder / "first.tar")
    write(SavedImage([BASE, MIDDLE, tar(late=b"2")]), folder / "second", folder / "first")
    return folder


@pytest.mark.parametrize("name", ["first", "first.tar"])
def test_the_engine_gets_the_whole_image(whole: Path, name: str) -> None:
    verified = verify(whole / name)
    stream = b"".join(_tar(verified.sources, lambda _: None))
    with tarfile.open(fileobj=io.BytesIO(stream)) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    entry = json.loads(found["manifest.json"])[0]
    assert set(found) >= {"oci-layout", "index.json", entry["Config"], *entry["Layers"]}
    assert all(sha(data)[7:] == path[13:] for path, data in found.items() if path.startswith("blobs/"))


@pytest.mark.parametrize("earlier", ["first", "first.tar"])
def test_a_difference_is_completed_from_the_earlier_one(whole: Path, earlier: str) -> None:
    verified = verify(whole / "second", whole / earlier)
    assert {path.rpartition("/")[2] for _, path in verified.sources} >= {d[7:] for d in verified.contents.blobs}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("harm", [flip, truncate, Path.unlink])
@pytest.mark.parametrize("which", ["layer", "compose.yaml", "bundle.json", "SHA256SUMS", "images/index.json"])
def test_every_harm_to_every_kind_of_file_is_found(
    whole: Path, tmp_path: Path, harm: Callable[[Path], None], which: str
) -> None:
    shutil.copytree(whole / "first", tmp_path / "b")
    layer = max((tmp_path / "b/images/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    harm(layer if which == "layer" else tmp_path / "b" / which)
    with pytest.raises(Problem, match=r"is incomplete|is altered or truncated|damaged|not a bundle") as raised:
        verify(tmp_path / "b")
    assert raised.value.exit_code == 1


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99])
def test_a_truncated_tar_is_refused(whole: Path, tmp_path: Path, share: float) -> None:
    data = (whole / "first.tar").read_bytes().rstrip(b"\0")
    (tmp_path / "b.tar").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(Problem, match=r"truncated|incomplete|not a bundle|missing"):
        verify(tmp_path / "b.tar")


def test_a_flipped_bit_in_a_tar_is_found(whole: Path, tmp_path: Path) -> None:
    data = bytearray((whole / "first.tar").read_bytes())
    data[data.index(b"# RLinf's four RECAP steps")] ^= 1
    (tmp_path / "b.tar").write_bytes(data)
    with pytest.raises(Problem, match=r"altered or truncated: compose\.yaml"):
        verify(tmp_path / "b.tar")


def test_files_that_were_left_out_together_with_their_sums_are_missed(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole / "first", tmp_path / "b")
    sums = (tmp_path / "b/SHA256SUMS").read_text().splitlines(keepends=True)
    (tmp_path / "b/SHA256SUMS").write_text("".join(line for line in sums if "/blobs/" not in line))
    shutil.rmtree(tmp_path / "b/images/blobs")
    with pytest.raises(Problem, match="incomplete"):
        verify(tmp_path / "b")


def test_the_other_architecture_is_refused(whole: Path) -> None:
    with pytest.raises(Problem, match="first is for x86_64, this engine runs aarch64"):
        verify(whole / "first", machine="aarch64")


def test_a_difference_needs_its_earlier_bundle(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="only what changed") as raised:
        verify(whole / "second")
    assert raised.value.exit_code == 2
    write(SavedImage([LATE]), tmp_path / "stranger")
    with pytest.raises(Problem, match="stranger is not the bundle that this one is a difference to"):
        verify(whole / "second", tmp_path / "stranger")


def test_harm_to_the_earlier_bundle_is_found(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole / "first", tmp_path / "first")
    needed = (whole / "second/NEEDS.sha256").read_text().splitlines()[0][66:]
    flip(tmp_path / "first/images" / needed)
    with pytest.raises(Problem, match="bundle first is altered or truncated"):
        verify(whole / "second", tmp_path / "first")


def test_nothing_outside_a_bundle_is_read(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole / "first", tmp_path / "b")
    (tmp_path / "outside").write_bytes((tmp_path / "b/compose.yaml").read_bytes())
    (tmp_path / "b/compose.yaml").unlink()
    (tmp_path / "b/compose.yaml").symlink_to(tmp_path / "outside")
    with pytest.raises(Problem, match=r"incomplete: compose\.yaml"):
        verify(tmp_path / "b")


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: None])
def test_what_is_no_bundle_is_said_to_be_none(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(Problem, match=r"nothing|not a bundle|not a tar") as raised:
        verify(tmp_path / "x")
    assert raised.value.fix.startswith("BUNDLE= names the folder or the tar that make bundle wrote")


def test_what_is_said_of_the_earlier_bundle_names_its_setting(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"^EARLIER=/nowhere: there is nothing; EARLIER= names"):
        verify(whole / "second", Path("/nowhere"))
    with pytest.raises(Problem, match=r"^SINCE=/nowhere: there is nothing; SINCE= names"):
        write(SavedImage([LATE]), tmp_path / "b", Path("/nowhere"))
    with pytest.raises(Problem, match=r"^SINCE=\S+ is not a bundle: it has no bundle.json; SINCE= names"):
        write(SavedImage([LATE]), tmp_path / "b", tmp_path)
