"""Collectives and messages between real processes, checked against plain arithmetic."""

import array
import ctypes
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand_in import Libraries, StandIn, in_children

INT32, FP16, FP32, INT64, FP64, BF16 = 2, 3, 4, 5, 10, 11
SUM, PROD, MAX, MIN = 0, 1, 2, 3
NOT_SUPPORTED, TIMEOUT, PARAMETER = 5, 9, 1
SLOT = 1 << 20

Rank = Callable[[ctypes.CDLL, ctypes.c_void_p, int], Any]


def root_info(libraries: Libraries) -> bytes:
    """What rank 0 hands to the others."""
    info = ctypes.create_string_buffer(4108)
    assert libraries.hccl.HcclGetRootInfo(info) == 0
    return info.value


def together(stand_in: StandIn, ranks: int, work: Rank, **environment: str) -> list[Any]:
    """work(hccl, communicator, rank) in `ranks` processes."""
    info = ctypes.create_string_buffer(stand_in.run(root_info), 4108)

    def member(rank: int) -> Callable[[], Any]:
        def run() -> Any:
            libraries, comm = stand_in.load(), ctypes.c_void_p()
            assert libraries.hccl.HcclCommInitRootInfo(ranks, info, rank, ctypes.byref(comm)) == 0, libraries.error()
            result = work(libraries.hccl, comm, rank)
            assert libraries.hccl.HcclCommDestroy(comm) == 0
            return result

        return run

    # Where one member fails, the others must not wait half an hour.
    patience = {"HCCL_EXEC_TIMEOUT": "10", "HCCL_CONNECT_TIMEOUT": "10"}
    results = in_children([member(rank) for rank in range(ranks)], patience | environment)
    assert not list(Path("/dev/shm").glob(f"{info.value.decode()}*"))
    return results


def ints(*values: int) -> Any:
    return (ctypes.c_int32 * len(values))(*values)


def count(number: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(number)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_all_reduce(stand_in: StandIn, ranks: int) -> None:
    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> list[list[int]]:
        results = []
        for op in (SUM, PROD, MAX, MIN):
            out = ints(0, 0)
            assert hccl.HcclAllReduce(ints(rank + 1, -rank), out, count(2), INT32, op, comm, None) == 0
            results.append(list(out))
        return results

    product = {1: 1, 2: 2, 4: 24}[ranks]
    total = ranks * (ranks - 1) // 2
    expected = [[total + ranks, -total], [product, 0], [ranks, 0], [1, 1 - ranks]]
    assert together(stand_in, ranks, work) == [expected] * ranks


def test_all_reduce_in_place_over_several_rounds(stand_in: StandIn) -> None:
    length = SLOT // 4 * 2 + 3

    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> bool:
        data = array.array("i", range(rank, rank + length))
        pointer = ctypes.c_void_p(data.buffer_info()[0])
        assert hccl.HcclAllReduce(pointer, pointer, count(length), INT32, SUM, comm, None) == 0
        return data == array.array("i", range(1, 2 * length, 2))

    assert together(stand_in, 2, work) == [True, True]


def bfloat16(value: float) -> bytes:
    return struct.pack("<f", value)[2:]


@pytest.mark.parametrize(
    ("kind", "encode", "values", "expected"),
    [
        (FP16, lambda x: struct.pack("<e", x), (1.5, 0.0009765625), 1.5009765625),
        (FP16, lambda x: struct.pack("<e", x), (65504.0, 65504.0), float("inf")),
        (BF16, bfloat16, (256.0, 1.0), 256.0),  # tie, rounds to even
        (BF16, bfloat16, (256.0, 3.0), 260.0),
        (BF16, bfloat16, (float("nan"), 1.0), float("nan")),
        (FP32, lambda x: struct.pack("<f", x), (0.25, 0.5), 0.75),
        (FP64, lambda x: struct.pack("<d", x), (1e300, 1e300), 2e300),
        (INT64, lambda x: struct.pack("<q", int(x)), (1 << 40, 1), (1 << 40) + 1),
    ],
)
def test_sum_in_each_type(
    stand_in: StandIn, kind: int, encode: Callable[[float], bytes], values: tuple[float, float], expected: float
) -> None:
    width = len(encode(0.0))

    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> bytes:
        out = ctypes.create_string_buffer(width)
        assert hccl.HcclAllReduce(encode(values[rank]), out, count(1), kind, SUM, comm, None) == 0
        return out.raw

    results = together(stand_in, 2, work)
    if math.isnan(expected):
        assert [math.isnan(struct.unpack("<f", b"\0\0" + raw)[0]) for raw in results] == [True] * 2
    else:
        assert results == [encode(expected)] * 2


def test_moving_collectives(stand_in: StandIn) -> None:
    """broadcast, all_gather, reduce_scatter, reduce, scatter, barrier with three ranks."""

    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> dict[str, list[int]]:
        sent, gathered, part = ints(rank, 7), ints(*[0] * 3), ints(0)
        spread, root_sum = ints(0), ints(-1)
        each = ints(*(10 * rank + i for i in range(3)))
        assert hccl.HcclBroadcast(sent, count(2), INT32, 1, comm, None) == 0
        assert hccl.HcclAllGather(ints(rank * rank), gathered, count(1), INT32, comm, None) == 0
        assert hccl.HcclReduceScatter(each, part, count(1), INT32, SUM, comm, None) == 0
        assert hccl.HcclReduce(ints(rank), root_sum, count(1), INT32, SUM, 2, comm, None) == 0
        assert hccl.HcclScatter(ints(4, 5, 6) if rank == 0 else None, spread, count(1), INT32, 0, comm, None) == 0
        assert hccl.HcclBarrier(comm, None) == 0
        return {
            "broadcast": list(sent),
            "gather": list(gathered),
            "part": list(part),
            "sum": list(root_sum),
            "scatter": list(spread),
        }

    for rank, got in enumerate(together(stand_in, 3, work)):
        assert got == {
            "broadcast": [1, 7],
            "gather": [0, 1, 4],
            "part": [30 + 3 * rank],
            "sum": [3 if rank == 2 else -1],
            "scatter": [4 + rank],
        }


def longs(*values: int) -> Any:
    return (ctypes.c_uint64 * len(values))(*values)


def test_all_to_all(stand_in: StandIn) -> None:
    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> list[int]:
        out = ints(0, 0, 0)
        sent = ints(*(10 * rank + i for i in range(3)))
        assert hccl.HcclAlltoAll(sent, count(1), INT32, out, count(1), INT32, comm, None) == 0
        return list(out)

    assert together(stand_in, 3, work) == [[0, 10, 20], [1, 11, 21], [2, 12, 22]]


def test_all_to_all_of_unequal_lengths(stand_in: StandIn) -> None:
    """Rank 0 sends nothing to itself and more than a slot to rank 1."""
    big = SLOT // 4 + 5

    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> tuple[int, int, int]:
        out_counts = [0, big] if rank == 0 else [2, 1]
        in_counts = [0, 2] if rank == 0 else [big, 1]
        sent = array.array("i", [rank + 1] * sum(out_counts))
        got = array.array("i", [0] * sum(in_counts))
        addresses = [ctypes.c_void_p(a.buffer_info()[0]) for a in (sent, got)]
        code = hccl.HcclAlltoAllV(
            addresses[0], longs(*out_counts), longs(0, out_counts[0]), INT32,
            addresses[1], longs(*in_counts), longs(0, in_counts[0]), INT32, comm, None,
        )  # fmt: skip
        return code, got.count(1), got.count(2)

    assert together(stand_in, 2, work) == [(0, 0, 2), (0, big, 1)]


def test_all_to_all_with_lengths_that_disagree(stand_in: StandIn) -> None:
    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> int:
        wanted = longs(1, 1) if rank == 0 else longs(2, 1)
        out = ints(0, 0, 0)
        code = hccl.HcclAlltoAllV(
            ints(1, 2), longs(1, 1), longs(0, 1), INT32, out, wanted, longs(0, 2), INT32, comm, None
        )
        assert hccl.HcclBarrier(comm, None) == 0  # the communicator is still in order
        return int(code)

    assert together(stand_in, 2, work) == [PARAMETER, PARAMETER]


class Item(ctypes.Structure):
    """HcclSendRecvItem."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("type", ctypes.c_int),
        ("peer", ctypes.c_uint32),
    )


def test_messages(stand_in: StandIn) -> None:
    """Both send first and receive then; the order of messages holds; a batch in the wrong order gets through."""

    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> list[int]:
        peer, got = 1 - rank, [ints(0), ints(0), ints(0)]
        for value in (1, 2):
            assert hccl.HcclSend(ints(10 * rank + value), count(1), INT32, peer, comm, None) == 0
        for place in got[:2]:
            assert hccl.HcclRecv(place, count(1), INT32, peer, comm, None) == 0
        sent = ints(10 * rank + 3)
        items = (Item * 2)(
            Item(1, ctypes.addressof(got[2]), 1, INT32, peer), Item(0, ctypes.addressof(sent), 1, INT32, peer)
        )
        assert hccl.HcclBatchSendRecv(items, 2, comm, None) == 0
        return [place[0] for place in got]

    assert together(stand_in, 2, work) == [[11, 12, 13], [1, 2, 3]]


def test_a_message_nobody_received_is_removed(stand_in: StandIn) -> None:
    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> None:
        if rank == 0:
            assert hccl.HcclSend(ints(1), count(1), INT32, 1, comm, None) == 0
        assert hccl.HcclBarrier(comm, None) == 0

    together(stand_in, 2, work)  # looks for leftovers


@pytest.mark.parametrize(
    ("name", "arguments", "code", "text"),
    [
        ("HcclAllReduce", lambda comm: (None, None, count(1), 99, SUM, comm, None), NOT_SUPPORTED, "data type 99"),
        ("HcclAllReduce", lambda comm: (None, None, count(1), INT32, 9, comm, None), NOT_SUPPORTED, "reduction 9"),
        ("HcclBroadcast", lambda comm: (None, count(1), INT32, 5, comm, None), PARAMETER, "root 5"),
        ("HcclSend", lambda comm: (None, count(1), INT32, 5, comm, None), PARAMETER, "peer 5"),
    ],
)
def test_wrong_arguments(stand_in: StandIn, name: str, arguments: Any, code: int, text: str) -> None:
    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> tuple[int, str]:
        result = getattr(hccl, name)(*arguments(comm))
        return result, stand_in.load().error()

    [(result, message)] = together(stand_in, 1, work)
    assert result == code
    assert text in message
    assert message.startswith("[simulated CANN]")


def test_a_peer_that_never_comes(stand_in: StandIn) -> None:
    def join(libraries: Libraries) -> tuple[int, str, list[Path]]:
        info, comm = ctypes.create_string_buffer(4108), ctypes.c_void_p()
        libraries.hccl.HcclGetRootInfo(info)
        code = libraries.hccl.HcclCommInitRootInfo(2, info, 0, ctypes.byref(comm))
        return code, libraries.error(), list(Path("/dev/shm").glob(f"{info.value.decode()}*"))

    code, text, left = stand_in.run(join, HCCL_CONNECT_TIMEOUT="0.2")
    assert code == TIMEOUT
    assert "1 of 2 ranks joined" in text
    assert left == []


def test_a_peer_that_went_away(stand_in: StandIn) -> None:
    def work(hccl: ctypes.CDLL, comm: ctypes.c_void_p, rank: int) -> tuple[int, str]:
        if rank == 1:
            return 0, ""
        return hccl.HcclBarrier(comm, None), stand_in.load().error()

    [(code, text), _] = together(stand_in, 2, work, HCCL_EXEC_TIMEOUT="0.3")
    assert code == TIMEOUT
    assert "rank 0 waited" in text
