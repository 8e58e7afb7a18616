"""Work on many files: in order, with errors, on all cores or on one."""

import os

import pytest
from rlinf_npu.npufix import parallel
from rlinf_npu.npufix.model import NpufixError


def _square(number: int) -> tuple[int, int]:
    if number < 0:
        raise NpufixError(f"a.py: cannot take {number}")
    return number * number, os.getpid()


@pytest.fixture(params=[1, 2], ids=["one core", "two cores"])
def _cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(request.param)))
    return int(request.param)


def test_results_come_in_order(_cores: int) -> None:
    done = parallel.in_processes(_square, range(20))
    assert [result for result, _ in done] == [number * number for number in range(20)]
    assert (os.getpid() in {process for _, process in done}) == (_cores == 1)


def test_an_error_is_raised_here(_cores: int) -> None:
    with pytest.raises(NpufixError, match=r"a\.py: cannot take -1"):
        parallel.in_processes(_square, [*range(10), -1])


def test_few_files_take_no_process() -> None:
    assert {process for _, process in parallel.in_processes(_square, [1, 2])} == {os.getpid()}
