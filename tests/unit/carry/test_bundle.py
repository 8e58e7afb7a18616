"""What a bundle holds, what it leaves out, and which images may be in one."""

import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from carrykit import BASE, LATE, MIDDLE, NAME, PREFIX, OldSavedImage, SavedImage, sha, tar, write
from docker.errors import APIError

from imagekit.carry.contents import read_contents
from imagekit.compose.record import find_built
from imagekit.errors import Problem
from imagekit.manifest import ROOT
from imagekit.registry import digest_of


def blobs(bundle: Path) -> set[str]:
    return {f"sha256:{path.name}" for path in (bundle / "images/blobs/sha256").iterdir()}


def test_the_layers_are_gzip_whatever_the_engine_keeps(tmp_path: Path) -> None:
    for number, image in enumerate([SavedImage([BASE, LATE]), SavedImage([BASE, LATE], kept="plain")]):
        write(image, tmp_path / f"b{number}")
        contents = read_contents((tmp_path / f"b{number}/bundle.json").read_bytes())
        for layer in contents.layers:
            data = (tmp_path / f"b{number}/images/blobs/sha256" / layer.digest[7:]).read_bytes()
            assert sha(gzip.decompress(data)) == layer.diff_id
            assert len(data) == layer.size


def test_old_engines_archives_are_understood(tmp_path: Path) -> None:
    write(OldSavedImage([BASE, LATE], kept="plain"), tmp_path / "old")
    write(SavedImage([BASE, LATE], kept="plain"), tmp_path / "new")
    assert (tmp_path / "old/bundle.json").read_bytes() == (tmp_path / "new/bundle.json").read_bytes()


def test_a_gzip_image_keeps_its_manifest_and_so_its_digest(tmp_path: Path) -> None:
    image = SavedImage([BASE, LATE], kept="gzip")
    write(image, tmp_path / "b")
    assert read_contents((tmp_path / "b/bundle.json").read_bytes()).digest == sha(image.manifest)
    assert blobs(tmp_path / "b") == {sha(b) for b in (*image.blobs, image.config, image.manifest)}


def test_old_and_new_engines_find_names_and_files(tmp_path: Path) -> None:
    write(SavedImage([BASE, LATE], names=[NAME, "rlinf-npu:0.3.0-sim"]), tmp_path / "b")
    images = tmp_path / "b/images"
    entry = json.loads((images / "manifest.json").read_text())[0]
    assert entry["RepoTags"] == ["rlinf-npu:0.3.0-sim", NAME]  # the immutable one last
    assert all((images / path).is_file() for path in [entry["Config"], *entry["Layers"]])
    index = json.loads((images / "index.json").read_text())
    names = [m["annotations"]["io.containerd.image.name"] for m in index["manifests"]]
    assert names == [f"docker.io/library/{name}" for name in entry["RepoTags"]]
    manifest = json.loads((images / "blobs/sha256" / index["manifests"][0]["digest"][7:]).read_text())
    assert [layer["mediaType"].rpartition("+")[2] for layer in manifest["layers"]] == ["gzip", "gzip"]
    assert json.loads((images / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}


def test_what_compose_needs_is_beside_the_image(tmp_path: Path) -> None:
    written = write(SavedImage([BASE]), tmp_path / "b", root=ROOT)
    names = {path.relative_to(written.path).as_posix() for path in written.path.rglob("*") if path.is_file()}
    assert {
        "compose.yaml",
        ".env.example",
        "recap.yaml",
        "docs/airgap.md",
        "imagekit/carry/configure.py",
        "install.sh",
        "SHA256SUMS",
    } <= names
    assert os.access(written.path / "install.sh", os.X_OK)
    built = find_built(written.path / "build", "rlinf-npu", "amd64", "-sim")
    assert built is not None
    assert built.reference == NAME
    assert (written.path / "bundle.env").read_text() == f"IMAGE={NAME}\nARCH=amd64\n"
    listed = {line[66:] for line in (written.path / "SHA256SUMS").read_text().splitlines()}
    assert listed == names - {"SHA256SUMS"}
    assert written.fingerprint == digest_of((written.path / "SHA256SUMS").read_bytes())


def test_since_leaves_out_what_the_earlier_one_has(tmp_path: Path) -> None:
    write(SavedImage([BASE, MIDDLE, LATE]), tmp_path / "first")
    image = SavedImage([BASE, MIDDLE, tar(late=b"2")])
    written = write(image, tmp_path / "second", tmp_path / "first")
    contents = read_contents((tmp_path / "second/bundle.json").read_bytes())
    assert contents.from_earlier == [layer.digest for layer in contents.layers[:2]]
    assert blobs(tmp_path / "second") == {contents.layers[2].digest, contents.config, contents.digest}
    assert written.left_out == sum(layer.size for layer in contents.layers[:2])
    needs = (tmp_path / "second/NEEDS.sha256").read_text().splitlines()
    assert needs == [f"{digest[7:]}  blobs/sha256/{digest[7:]}" for digest in contents.from_earlier]


def test_since_takes_a_full_bundle_only(tmp_path: Path) -> None:
    write(SavedImage([BASE, LATE]), tmp_path / "first.tar")
    write(SavedImage([BASE, MIDDLE]), tmp_path / "second", tmp_path / "first.tar")
    with pytest.raises(Problem, match="second is itself a difference") as raised:
        write(SavedImage([BASE]), tmp_path / "third", tmp_path / "second")
    assert raised.value.exit_code == 2
    assert not (tmp_path / "third").exists()


def test_a_tar_holds_the_same_files_as_a_folder(tmp_path: Path) -> None:
    write(SavedImage([BASE, LATE]), tmp_path / "b")
    write(SavedImage([BASE, LATE]), tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert (tmp_path / "unpacked/b/SHA256SUMS").read_bytes() == (tmp_path / "b/SHA256SUMS").read_bytes()
    assert os.access(tmp_path / "unpacked/b/install.sh", os.X_OK)


@pytest.mark.parametrize(
    ("names", "labels", "line"),
    [
        (["rlinf-npu:1-unfixed-sim"], {}, "rlinf-npu:1-unfixed-sim has no NPU fixes"),
        (["rlinf-npu:1-sim"], {f"{PREFIX}.fixes": "none"}, "rlinf-npu:1-sim has no NPU fixes"),
        (["rlinf-npu:1"], {}, "rlinf-npu:1 is simulated, but its name does not end in -sim"),
        (["rlinf-npu:1", "rlinf-npu:1-sim"], {}, "rlinf-npu:1 is simulated"),
        (["rlinf-npu:1-sim"], {f"{PREFIX}.simulated": "false"}, "rlinf-npu:1-sim is not simulated, but its name does"),
        (["debian:12"], {f"{PREFIX}.simulated": ""}, "debian:12 is not an image of this project"),
        ([], {}, "the image has no name"),
    ],
)
def test_these_images_never_travel(tmp_path: Path, names: list[str], labels: dict[str, str], line: str) -> None:
    image = SavedImage([BASE])
    image.tags, image.labels = names, image.labels | labels
    with pytest.raises(Problem) as raised:
        write(image, tmp_path / "b")
    assert raised.value.what.startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    image = SavedImage([BASE, LATE])
    image.blobs[1] = image.blobs[1][:-4]
    with pytest.raises(Problem, match="ends early"):
        write(image, tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_cannot_export_is_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = SavedImage([BASE])

    def save(*_: object, **__: object) -> Iterator[bytes]:
        yield b"half of it"
        raise APIError("", explanation="content digest sha256:12: not found")

    monkeypatch.setattr(image, "save", save)
    with pytest.raises(Problem, match=r"the engine cannot export rlinf-npu:\S+: content digest sha256:12: not found"):
        write(image, tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["/proc/b", "/proc/no/such/b", "/dev/null/b"])
def test_where_nothing_can_be_written_that_is_said_of_the_bundle(output: str) -> None:
    with pytest.raises(Problem) as raised:
        write(SavedImage([BASE]), Path(output))
    assert "bundle" in raised.value.what
    assert "build" not in raised.value.what
    assert raised.value.fix == "OUTPUT= elsewhere"


def test_a_bundle_is_never_overwritten(tmp_path: Path) -> None:
    write(SavedImage([BASE]), tmp_path / "b")
    with pytest.raises(Problem, match="exists already"):
        write(SavedImage([LATE]), tmp_path / "b")
