"""Refusals before Ray starts, with the numbers."""

from pathlib import Path
from typing import Any

import pytest
from rlinf_npu.recap.cards import batch_problem, count_nodes, refuse_bad_batches, resolve_cards
from rlinf_npu.recap.config import Config, validate
from rlinf_npu.recap.errors import UsageError


@pytest.mark.parametrize(("micro", "total", "cards"), [(16, 128, 8), (16, 128, 1), (4, 8, 2)])
def test_batches_that_fit(micro: int, total: int, cards: int) -> None:
    assert batch_problem("value", micro, total, cards) is None


def test_batches_that_do_not_fit() -> None:
    text = batch_problem("value", 16, 128, 3)
    assert text == "value.global_batch 128 is not a multiple of value.micro_batch 16 x 3 cards = 48; use 96 or 144"
    assert "use 256" in str(batch_problem("value", 16, 128, 16))


def test_all_steps_are_named(config: Config) -> None:
    refuse_bad_batches(config, 8)
    with pytest.raises(UsageError, match=r"value\.global_batch.*policy\.global_batch"):
        refuse_bad_batches(config, 3)


def test_cards(config: Config, raw: dict[str, Any], tmp_path: Path) -> None:
    assert resolve_cards(config, 8) == 8
    four = validate({**raw, "cards": 4}, tmp_path / "recap.yaml")
    assert resolve_cards(four, 8) == 4
    with pytest.raises(UsageError, match="4 asked for, 2 visible"):
        resolve_cards(four, 2)
    with pytest.raises(UsageError, match="no NPU"):
        resolve_cards(config, 0)


def test_nodes_are_counted_without_acl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("davinci0", "davinci1", "davinci2", "davinci_manager"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CANNSIM_DEV_DIR", str(tmp_path))
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    assert count_nodes() == 3
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "0,2")
    assert count_nodes() == 2
