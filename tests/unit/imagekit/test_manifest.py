"""images.toml is checked before anything is built, and complaints name the file and the key."""

from pathlib import Path

import pytest

from imagekit.errors import Problem
from imagekit.manifest import MANIFEST, load_manifest


def broken(tmp_path: Path, old: str, new: str) -> Path:
    text = MANIFEST.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "images.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_the_committed_manifest_is_valid() -> None:
    manifest = load_manifest()
    assert [i.name for i in manifest.chain("rlinf-npu", "sim")] == ["cann-sim", "cann-base", "rlinf-npu"]
    assert [i.name for i in manifest.chain("rlinf-npu", "cann")] == ["cann-base", "rlinf-npu"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('cann = "8.3.rc1"', 'can = "8.3.rc1"', "versions.cann: Field required"),
        ('cann = "8.3.rc1"', 'cann = "eight"', "versions.cann: "),
        ("budget_mib = 1400", "budget_mib = -1", "image.0.budget_mib"),
        ('parent = "cann-base"', 'parent = "cuda-base"', "image.rlinf-npu.parent: unknown image 'cuda-base'"),
        ('parent = "cann" ', 'parent = "rlinf-npu" ', "cycle"),
        ('name = "cann-base"', 'name = "cann-sim"', "defined twice"),
        ("schema = 1", "schema = 2", "schema"),
        ("[project]", "[project", "not valid TOML"),
        ("[engine]", "[engine]\ncolour = 'red'", "engine.colour: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_manifest_is_refused_with_file_and_key(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(Problem, match=r"images\.toml") as caught:
        load_manifest(broken(tmp_path, old, new))
    assert complaint in caught.value.what


def test_a_missing_manifest_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="full checkout"):
        load_manifest(tmp_path / "images.toml")


def test_unknown_names_list_the_known_ones() -> None:
    manifest = load_manifest()
    with pytest.raises(Problem, match="cann-base") as image:
        manifest.get_image("cuda")
    with pytest.raises(Problem, match="linux/arm64") as platform:
        manifest.get_platform("riscv64")
    assert image.value.exit_code == platform.value.exit_code == 2


@pytest.mark.parametrize("name", ["linux/arm64", "arm64", "aarch64"])
def test_a_platform_goes_by_all_its_names(name: str) -> None:
    assert load_manifest().get_platform(name).machine == "aarch64"


def test_every_exclusion_and_override_has_a_reason() -> None:
    python = load_manifest().python
    assert all(entry.reason.strip() for entry in [*python.override, *python.exclude, *python.check_exception])
