"""Which images the image tests look at: what the last build should have made, whether it did or not."""

import io
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from imagekit.manifest import Manifest
from tests.images.support import ours, subjects
from tests.images.support.layers import Entry
from tests.images.support.subjects import Subject

ALL = ["cann-sim", "cann-base", "rlinf-npu"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("IMAGE", "BASE", "PLATFORM", "INSTALLER"):
        monkeypatch.delenv(name, raising=False)
    subjects.base.cache_clear()
    yield
    subjects.base.cache_clear()


@pytest.mark.parametrize(
    ("built", "under_test"),
    [
        (ALL, ALL),
        (["cann-sim", "cann-base"], ALL),  # rlinf-npu is reported as missing, not left out
        (["cann-sim"], ALL),
        (["cann-base", "rlinf-npu"], ["cann-base", "rlinf-npu"]),  # on a stand-in with the vendor's name
        (["cann-base"], ["cann-base", "rlinf-npu"]),
    ],
)
def test_only_a_base_that_is_not_ours_is_left_out(
    monkeypatch: pytest.MonkeyPatch, built: list[str], under_test: list[str]
) -> None:
    record = {"base": "sim", "images": {name: {} for name in built}}
    monkeypatch.setattr(subjects, "record", lambda fixes=True: record)
    assert subjects.names() == under_test


def test_without_a_build_all_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "record", lambda fixes=True: None)
    assert subjects.names() == ALL


def test_what_stands_on_a_stand_in_is_what_base_cann_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, manifest: Manifest
) -> None:
    arch = manifest.get_platform(platform.machine()).arch
    monkeypatch.setattr(subjects, "ROOT", tmp_path)
    (tmp_path / "build").mkdir()

    def build(os_name: str) -> dict[str, Any]:
        tag = f"cann-base:8.3.rc1-910b-{os_name}-py3.11-0123456789ab-sim"
        record = {"base": "sim", "images": {"cann-base": {"tags": [tag], "digest": "sha256:0"}}}
        (tmp_path / f"build/built-{arch}-sim.json").write_text(json.dumps(record), encoding="utf-8")
        return record

    for os_name, base, other in ((manifest.base.cann.os, "cann", "sim"), (manifest.base.sim.os, "sim", "cann")):
        record = build(os_name)
        for wanted, found in (("", record), ("auto", record), (base, record), (other, None)):
            monkeypatch.setenv("BASE", wanted)
            assert subjects.record() == found, (os_name, wanted)


def test_a_bases_layers_are_not_taken_for_those_of_a_parent_of_fewer_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent has two of its own, the child three more; the table of contents names both by configurations."""
    own = {"parent": 2, "child": 5}
    layers = {"parent": ["base1", "base2", "p1", "p2"], "child": ["base1", "base2", "p1", "p2", "c1", "c2", "c3"]}
    monkeypatch.setattr(ours, "own_layer_count", lambda image: own[image.id])
    images = [SimpleNamespace(id=name, attrs={"RootFS": {"Layers": layers[name]}}, all_ours=False) for name in own]
    names = ours.LayerNames(cast("list[Subject]", images))
    contents = [{"Config": f"blobs/sha256/config-of-{name}", "Layers": layers[name]} for name in own]
    names.look(Entry("", "manifest.json", True, 0, io.BytesIO(json.dumps(contents).encode())))
    assert [layer for layer in layers["child"] if layer in names] == ["p1", "p2", "c1", "c2", "c3"]
