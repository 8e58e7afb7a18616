"""Codes and logs are explained; what nobody documents is said to be undocumented."""

import time

import pytest
from rlinf_npu.doctor.explain import UNDOCUMENTED, explain, explain_log

LOG = """\
RuntimeError: ExchangeDevice:compiler_depend.ts:253 NPU function error: c10_npu::SetDevice(device), error code is 507033
[ERROR] 2026-05-21-10:00:00 (PID:1, Device:1, RankID:-1) ERR00100 PTA call acl api failed
Inner_Error_Device_Subprocess_Startup_Timeout(E39007): Starting a subprocess on the device timed out.
        open device 1 failed, runtime result = 507033.
RuntimeError: createHCCLComm: HCCL function error: HcclGetRootInfo(&hcclID), error code is 11
EJ0003: [PID: 159] Failed to bind the IP port. Reason: The IP address and port have been bound already.
dcmi module initialize failed. ret is -8005
AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'
step 507011 of 600000, loss 0.21, PID 207001, EJ00031, XE39007
"""


def test_log() -> None:
    found = {answer.code: answer for answer in explain_log(LOG.splitlines())}
    assert list(found) == ["507033", "ERR00100", "E39007", "hccl:11", "EJ0003", "-8005", "cuda-set-device"]
    assert found["507033"].count == 2
    assert found["507033"].line.startswith("RuntimeError: ExchangeDevice")
    assert found["cuda-set-device"].npufix


def test_a_line_of_a_megabyte_does_no_harm() -> None:
    started = time.process_time()
    assert explain_log(["tensorflow libx.so " * 60_000]) == []
    assert time.process_time() - started < 1


@pytest.mark.parametrize("code", ["507033", "-8005", "ej0003", "hccl:19", "19", "E39007"])
def test_known_code(code: str) -> None:
    answer = explain(code)
    assert answer.name and answer.documented.startswith("https://") and answer.meaning != UNDOCUMENTED


def test_family() -> None:
    assert "Internal error" in explain("EZ9999").meaning
    assert "5xxxxx" in explain("599999").meaning and explain("599999").name == ""


@pytest.mark.parametrize("code", ["EJ0002", "E99998", "-8999", "hccl:77", "nonsense"])
def test_undocumented_code_says_so(code: str) -> None:
    answer = explain(code)
    assert answer.meaning == UNDOCUMENTED and answer.documented == "" and answer.name == ""


def test_meaning_is_not_taken_from_reports() -> None:
    """-8005 is documented as an internal error only; that a container held the card is what somebody saw."""
    answer = explain("-8005")
    assert "Internal error" in answer.meaning and "container" in answer.seen_as
