"""Which images the image tests look at: what the last build should have made, whether it did or not."""

from collections.abc import Iterator

import pytest

from tests.images.support import subjects

ALL = ["cann-sim", "cann-base", "rlinf-npu"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("IMAGE", "BASE"):
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
