"""Device memory, streams, events and the call log."""

import ctypes
import os
from pathlib import Path

from card_nodes import put_cards
from stand_in import Libraries, StandIn

OUT_OF_MEMORY = 207001
BAD_PARAMETER = 107000
MIB = 1 << 20


def free_and_total(libraries: Libraries) -> tuple[int, int]:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert libraries.runtime.aclrtGetMemInfo(0, ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value, total.value


def allocate(libraries: Libraries, size: int) -> ctypes.c_void_p:
    block = ctypes.c_void_p()
    assert libraries.runtime.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(size), 0) == 0
    return block


def test_out_of_memory(stand_in: StandIn, nodes: Path) -> None:
    put_cards(nodes, 0)

    def use(libraries: Libraries) -> str:
        block = ctypes.c_void_p()
        assert libraries.runtime.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(9 * MIB), 0) == OUT_OF_MEMORY
        assert free_and_total(libraries) == (8 * MIB, 8 * MIB)  # a refused block costs nothing
        return libraries.error()

    text = stand_in.run(use, CANNSIM_DEV_DIR=str(nodes), CANNSIM_HBM_MB="8")
    assert text == f"[simulated CANN] out of device memory: {9 * MIB} bytes asked for"


def test_memory_is_counted_for_the_device_it_came_from(stand_in: StandIn, nodes: Path) -> None:
    put_cards(nodes, 0, 1)

    def use(libraries: Libraries) -> list[int]:
        libraries.runtime.aclrtSetDevice(1)
        block = allocate(libraries, MIB)
        free = [free_and_total(libraries)[0]]
        libraries.runtime.aclrtSetDevice(0)
        free.append(free_and_total(libraries)[0])
        libraries.runtime.aclrtFree(block)  # while another device is current
        libraries.runtime.aclrtSetDevice(1)
        return [*free, free_and_total(libraries)[0]]

    before_free, other, after = stand_in.run(use, CANNSIM_DEV_DIR=str(nodes), CANNSIM_HBM_MB="8")
    assert before_free <= 7 * MIB
    assert other == after == 8 * MIB


def test_blocks_are_aligned_and_hold_what_is_copied(stand_in: StandIn, nodes: Path) -> None:
    put_cards(nodes, 0)

    def use(libraries: Libraries) -> bytes:
        block = allocate(libraries, 6)
        assert block.value is not None
        assert block.value % 512 == 0
        back = ctypes.create_string_buffer(6)
        copy = libraries.runtime.aclrtMemcpy
        copy.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert copy(block, 6, b"abcdef", 6, 1) == 0
        assert copy(ctypes.addressof(back), 6, block, 6, 2) == 0
        assert copy(block, 6, b"abcdefg", 7, 1) == BAD_PARAMETER
        assert "7 bytes into 6" in libraries.error()
        return back.raw

    assert stand_in.run(use, CANNSIM_DEV_DIR=str(nodes)) == b"abcdef"


def test_events_measure_time(stand_in: StandIn) -> None:
    def use(libraries: Libraries) -> float:
        runtime, events = libraries.runtime, [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in events:
            assert runtime.aclrtCreateEventWithFlag(ctypes.byref(event), 0) == 0
            assert runtime.aclrtRecordEvent(event, None) == 0
        elapsed = ctypes.c_float(-1)
        assert runtime.aclrtEventElapsedTime(ctypes.byref(elapsed), *events) == 0
        return elapsed.value

    assert 0 <= stand_in.run(use) < 1000


def test_callback_on_a_stream_runs(stand_in: StandIn) -> None:
    def use(libraries: Libraries) -> list[int]:
        stream, called = ctypes.c_void_p(), []
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(called.append)
        assert libraries.runtime.aclrtCreateStream(ctypes.byref(stream)) == 0
        assert libraries.runtime.aclrtLaunchCallback(callback, ctypes.c_void_p(7), 1, stream) == 0
        return called

    assert stand_in.run(use) == [7]


def test_call_log_of_several_processes(stand_in: StandIn, nodes: Path, tmp_path: Path) -> None:
    put_cards(nodes, 0)
    log = tmp_path / "calls.log"

    def use(libraries: Libraries) -> list[int]:
        allocate(libraries, 4096)
        child = os.fork()
        if not child:
            allocate(libraries, 8192)
            os._exit(0)
        os.waitpid(child, 0)
        return [os.getpid(), child]

    parent, child = stand_in.run(use, CANNSIM_DEV_DIR=str(nodes), CANNSIM_LOG=str(log))
    assert log.read_text(encoding="utf-8").splitlines() == [
        f"[cannsim {parent}] aclrtMalloc device=0 bytes=4096",
        f"[cannsim {child}] aclrtMalloc device=0 bytes=8192",
    ]


def test_no_log_unless_asked(stand_in: StandIn, capfd: object) -> None:
    assert stand_in.run(lambda libraries: libraries.runtime.aclInit(None)) == 0
    out, err = capfd.readouterr()  # type: ignore[attr-defined]
    assert out + err == ""
