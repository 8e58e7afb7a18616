"""torch_npu works on simulated cards: memory, copies, training, collectives; the stand-in's call log is the witness."""

import json
from collections.abc import Callable

import pytest

from tests.images.support.container import PROBES, Container

pytestmark = pytest.mark.device
Npus = Callable[[int], Container]
TRAIN = (PROBES / "train.py").read_text(encoding="utf-8")


def call_log(container: Container, name: str) -> str:
    """What the stand-in has written down."""
    return str(container.host.file(f"/tmp/{name}").content_string)


def test_allocate_copy_and_train(npus: Npus) -> None:
    container = npus(2)
    found = container.probe("train", env={"CANNSIM_LOG": "/tmp/train.log"}, seconds=90)
    assert found["sum"] == 1024 * 256
    assert found["bytes"] >= 1024 * 256 * 4
    assert found["copied"]
    assert found["device"] == "npu:0"
    assert found["losses"][-1] < 0.2 * found["losses"][0]
    log = call_log(container, "train.log")
    assert "aclrtSetDevice" in log
    assert "aclrtMalloc" in log


def test_all_reduce_between_two_processes(npus: Npus) -> None:
    container = npus(2)
    container.exec(["sh", "-c", "cat >/tmp/train.py"], stdin=TRAIN)  # spawned processes import it again
    done = container.exec(
        ["python", "/tmp/train.py", "2", "/tmp/reduce"], env={"CANNSIM_LOG": "/tmp/reduce.log"}, seconds=120
    )
    assert done.ok, done.err[-3000:]
    results = json.loads(done.out.strip().splitlines()[-1])
    assert [result["sum"] for result in results] == [[3.0] * 5] * 2
    assert [result["word"] for result in results] == [1.0, 1.0]
    assert [result["device"] for result in results] == ["npu:0", "npu:1"]
    assert {result["backend"] for result in results} == {"hccl"}
    log = call_log(container, "reduce.log")
    assert "HcclAllReduce" in log
    assert "HcclBroadcast" in log
