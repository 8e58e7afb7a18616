"""Locks carry the hash of their inputs, so that drift shows without a network."""

import re
from pathlib import Path

import pytest

from imagekit import locks
from imagekit.manifest import MANIFEST, Manifest, load_manifest

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^\]]*\])?==(\S+)", re.MULTILINE)


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_manifest()


def pins(manifest: Manifest, machine: str) -> dict[str, str]:
    platform = manifest.get_platform(machine)
    return dict(PIN.findall(locks.lock_path(platform).read_text(encoding="utf-8")))


def test_the_committed_locks_match_their_inputs(manifest: Manifest) -> None:
    assert locks.drift(manifest) == []


def test_a_changed_requirement_is_drift(tmp_path: Path) -> None:
    text = MANIFEST.read_text(encoding="utf-8").replace('"pandas<2.3"', '"pandas<2.2"')
    path = tmp_path / "images.toml"
    path.write_text(text, encoding="utf-8")
    complaints = locks.drift(load_manifest(path))
    assert len(complaints) == 2
    assert all("make lock" in line for line in complaints)


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_a_lock_holds_the_manifests_versions_and_nothing_excluded(manifest: Manifest, machine: str) -> None:
    found = pins(manifest, machine)
    for name in ("torch", "torchvision"):
        assert found[name] == getattr(manifest.versions, name)
    assert found["torch-npu"] == manifest.versions.torch_npu
    excluded = {name for exclude in manifest.python.exclude for name in exclude.names}
    assert not excluded & set(found)
    assert not [name for name in found if name.startswith("nvidia-")]
    assert not set(manifest.python.not_installed) & set(found)


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_every_package_has_hashes(manifest: Manifest, machine: str) -> None:
    text = locks.lock_path(manifest.get_platform(machine)).read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(pins(manifest, machine))
    assert not [block for block in blocks if "--hash=sha256:" not in block]


def test_both_platforms_have_the_same_versions(manifest: Manifest) -> None:
    assert pins(manifest, "aarch64") == pins(manifest, "x86_64")


def test_overrides_carry_their_reasons(manifest: Manifest) -> None:
    lines = locks.overrides_text(manifest).splitlines()
    reasons = [line for line in lines if line.startswith("# ")]
    assert len(reasons) == len(manifest.python.override) + len(manifest.python.exclude)
    assert f"torch=={manifest.versions.torch}" in lines
    assert "tensorflow; sys_platform == 'never'" in lines
