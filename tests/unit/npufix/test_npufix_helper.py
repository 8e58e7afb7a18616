"""The module that npufix adds to a tree, tried with a torch of our own making: with NPUs, without, with none at all."""

import logging
import os
import sys
from types import ModuleType, SimpleNamespace

import pytest
from rlinf_npu.npufix.cuda import NPU_API
from rlinf_npu.npufix.inject import npu_compat


class Platform(SimpleNamespace):
    """Stands for torch.cuda or torch.npu."""

    def is_available(self) -> bool:
        return bool(self.cards)


def torch_with(monkeypatch: pytest.MonkeyPatch, npus: int | None) -> ModuleType:
    torch = ModuleType("torch")
    torch.cuda = Platform(cards=0)  # type: ignore[attr-defined]
    if npus is not None:
        torch.npu = Platform(cards=npus)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(npu_compat.importlib.util, "find_spec", lambda _name: None)
    npu_compat._load_torch_npu.cache_clear()
    return torch


def test_with_npus(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_with(monkeypatch, 2)
    assert npu_compat.accel() is torch.npu
    assert npu_compat.accel_type() == "npu"
    assert npu_compat.ccl_backend() == "hccl"
    assert (npu_compat.pin_device(True), npu_compat.pin_device(False)) == ("npu", "")


@pytest.mark.parametrize("npus", [None, 0])
def test_without_npus_everything_is_as_it_was(npus: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_with(monkeypatch, npus)
    assert npu_compat.accel() is torch.cuda
    assert npu_compat.accel_type() == "cuda"
    assert npu_compat.ccl_backend() == "nccl"
    assert npu_compat.pin_device(True) == ""


def test_torch_npu_is_loaded_when_torch_was_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_with(monkeypatch, None)
    monkeypatch.setattr(npu_compat.importlib.util, "find_spec", lambda _name: object())
    monkeypatch.setattr(npu_compat.importlib, "import_module", lambda _name: setattr(torch, "npu", Platform(cards=1)))
    assert npu_compat.accel_type() == "npu"


def test_torch_npu_that_does_not_load_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    torch_with(monkeypatch, None)
    monkeypatch.setattr(npu_compat.importlib.util, "find_spec", lambda _name: object())

    def fail(_name: str) -> None:
        raise OSError("libascend_hal.so: cannot open shared object file")

    monkeypatch.setattr(npu_compat.importlib, "import_module", fail)
    assert (npu_compat.accel_type(), npu_compat.ccl_backend()) == ("cuda", "nccl")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "libascend_hal.so" in caplog.text


def test_tensorflow_is_switched_off_only_where_torch_npu_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USE_TF", "x")
    monkeypatch.delenv("USE_TF")
    monkeypatch.setattr(npu_compat.importlib.util, "find_spec", lambda _name: None)
    npu_compat.disable_tensorflow()
    assert "USE_TF" not in os.environ
    npu_compat.require_tensorflow()
    monkeypatch.setattr(npu_compat.importlib.util, "find_spec", lambda _name: object())
    npu_compat.disable_tensorflow()
    assert os.environ["USE_TF"] == "0"
    with pytest.raises(ImportError, match="USE_TF"):
        npu_compat.require_tensorflow()


def test_users_choice_of_tensorflow_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USE_TF", "1")
    monkeypatch.setattr(npu_compat.importlib.util, "find_spec", lambda _name: object())
    npu_compat.disable_tensorflow()
    npu_compat.require_tensorflow()
    assert os.environ["USE_TF"] == "1"


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("model_a", "advantages_model_a.parquet"),
        (7, "advantages_7.parquet"),
        ("v1.5", "advantages_v1.5.parquet"),
        ("/data/set/meta/advantages.parquet", "advantages.parquet"),
        ("/data/set/meta/advantages_b.parquet", "advantages_b.parquet"),
        ("advantages_b.parquet", "advantages_b.parquet"),
    ],
)
def test_advantages_name(tag: object, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert npu_compat.advantages_name(tag) == name
    assert bool(caplog.records) == str(tag).endswith(".parquet")  # a path is accepted, but not in silence


@pytest.mark.parametrize("tag", ["/data/set", "meta/returns.parquet", "a/b"])
def test_a_path_to_something_else_is_an_error(tag: str) -> None:
    with pytest.raises(ValueError, match="advantage_tag"):
        npu_compat.advantages_name(tag)


def test_calls_that_fixes_send_to_the_npu_exist_there() -> None:
    torch_npu = pytest.importorskip("torch_npu", reason="needs torch_npu and a (simulated) CANN", exc_type=ImportError)
    assert [name for name in sorted(NPU_API) if not hasattr(torch_npu.npu, name)] == []
