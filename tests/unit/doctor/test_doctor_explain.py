"""Codes and logs are explained; what nobody documents is said to be undocumented."""

import io

import pytest
from rlinf_npu.doctor import logscan, tables
from rlinf_npu.doctor.explain import UNDOCUMENTED, Explanation, explain, explain_log, is_code
from rlinf_npu.doctor.literals import necessary

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


def explained(log: str | bytes) -> dict[str, Explanation]:
    """What a log says, by code, in its order."""
    data = log.encode() if isinstance(log, str) else log
    return {answer.code: answer for answer in explain_log(io.BytesIO(data))}


def test_log() -> None:
    found = explained(LOG)
    assert list(found) == ["507033", "ERR00100", "E39007", "hccl:11", "EJ0003", "-8005", "cuda-set-device"]
    assert found["507033"].count == 2
    assert found["507033"].line.startswith("RuntimeError: ExchangeDevice")
    assert found["cuda-set-device"].npufix


def test_a_line_of_megabytes_does_no_harm() -> None:
    found = explained("tensorflow libx.so " * 60_000 + "EJ0003 beyond what is looked at\nEJ0004 after it\n")
    assert list(found) == ["EJ0004"]


def test_progress_bars_end_lines_and_the_last_line_needs_no_end() -> None:
    assert list(explained("12%\rEJ0003: bound\r13% \xe9".encode("latin-1") + b"\nret is 1, ret=107001")) == [
        "EJ0003",
        "107001",
    ]


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_where_blocks_end_does_not_matter(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    expected = [(key, answer.count, answer.line) for key, answer in explained(LOG * 3).items()]
    monkeypatch.setattr(logscan, "_BLOCK", block)
    assert [(key, answer.count, answer.line) for key, answer in explained(LOG * 3).items()] == expected


def test_progress_is_told_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logscan, "_BLOCK", 1000)
    told: list[int] = []
    explain_log(io.BytesIO(b"a line of nothing\n" * 200), told.append)
    assert told[-1] == 3600
    assert told == sorted(told) and len(told) > 2


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("plain text", {"plain text"}),
        (r"lib(a|b)\.so: gone|other\sthing", {".so: gone", "other"}),
        (r"ab?cde.*xy+z", {"cde"}),
        (r"abcd{0,3}ef[gh]ijk", {"abc"}),
        (r"[^abc]def(?:x|y)*ghij", {"ghij"}),
        (r"\[CASE\] (?i:x)", {"[case] "}),
    ],
)
def test_literals_without_which_a_pattern_cannot_match(pattern: str, literals: set[str]) -> None:
    assert necessary(pattern) == literals


@pytest.mark.parametrize("pattern", [r"\d+", "ab|long enough", "(only|groups)", "a?b*"])
def test_where_none_is_necessary(pattern: str) -> None:
    assert necessary(pattern) is None


def test_every_signature_can_be_looked_for_quickly() -> None:
    assert [signature.id for signature in tables.signatures() if necessary(signature.pattern) is None] == []


@pytest.mark.parametrize("code", ["507033", "-8005", "ej0003", "hccl:19", "19", "E39007"])
def test_known_code(code: str) -> None:
    answer = explain(code)
    assert answer.name and answer.documented.startswith("https://") and answer.meaning != UNDOCUMENTED


def test_every_code_of_the_table_has_the_form_of_one() -> None:
    assert [code for code in tables.codes() if not is_code(code)] == []


def test_family() -> None:
    assert "Internal error" in explain("EZ9999").meaning
    assert "5xxxxx" in explain("599999").meaning and explain("599999").name == ""


@pytest.mark.parametrize("code", ["EJ0002", "E99998", "-8999", "hccl:77", "999999"])
def test_undocumented_code_says_so(code: str) -> None:
    assert is_code(code)
    answer = explain(code)
    assert answer.meaning == UNDOCUMENTED and answer.documented == "" and answer.name == ""


def test_meaning_is_not_taken_from_reports() -> None:
    """-8005 is documented as an internal error only; that a container held the card is what somebody saw."""
    answer = explain("-8005")
    assert "Internal error" in answer.meaning and "container" in answer.seen_as
