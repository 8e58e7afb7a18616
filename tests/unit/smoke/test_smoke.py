"""The smoke test's own judgement: what it would accept, and what not."""

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rlinf_npu.recap.config import load_config
from rlinf_npu.smoke.calls import allocations, count_calls
from rlinf_npu.smoke.fixtures import MARKER, Fixtures, make_fixtures
from rlinf_npu.smoke.fixtures.config import write_config
from rlinf_npu.smoke.quick import quick
from rlinf_npu.smoke.report import Case, Report
from rlinf_npu.smoke.run import Smoke, proof_problem

LOG = """[cannsim 7] aclrtMalloc bytes=512
[cannsim 7] HcclAllReduce count=3
aclrtMallocAlign32
HcclAllReduce
STUB aclnnFoo
"""


def test_calls_of_both_formats(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG)
    counts = count_calls(tmp_path / "log")
    assert (counts["HcclAllReduce"], counts["aclnnFoo"], allocations(counts)) == (2, 1, 2)
    assert count_calls(tmp_path / "none") == Counter()


@pytest.mark.parametrize(
    ("step", "counts", "cards", "expected"),
    [
        ("advantages", {}, 1, "ran on the CPU"),
        ("advantages", {"aclrtMalloc": 3}, 2, None),
        ("value_sft", {"aclrtMalloc": 3}, 2, "no HcclAllReduce"),
        ("value_sft", {"aclrtMalloc": 3}, 1, None),
        ("cfg_rl", {"aclrtMalloc": 3, "HcclAllReduce": 9}, 2, None),
    ],
)
def test_proof(step: str, counts: dict[str, int], cards: int, expected: str | None) -> None:
    problem = proof_problem(step, Counter(counts), cards)
    assert problem is None if expected is None else expected in str(problem)


def failed_step(folder: Path, output: str, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Step 2 of a smoke run whose `recap` writes `output` and fails."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\necho "{output}"\nexit 1\n', encoding="utf-8")
    python.chmod(0o755)
    smoke = Smoke(folder / "work", lambda text: None, timeout=60, cards=2)
    fixtures = Fixtures(folder / "work/fixtures")
    write_config(fixtures)
    monkeypatch.setattr("sys.executable", str(python))
    monkeypatch.setattr("rlinf_npu.smoke.run.POLL_SECONDS", 0.02)
    return smoke._recap("value_sft", load_config(fixtures.config))


def test_a_failed_step_names_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = failed_step(tmp_path, "RuntimeError: Distributed package doesn't have NCCL built in", monkeypatch)
    assert case.status == "failed"
    assert case.detail.splitlines()[0].startswith("code 1; npufix cures this (dist-backend-default, ")


def test_another_failure_names_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = failed_step(tmp_path, "ValueError: bad data", monkeypatch)
    assert "ValueError: bad data" in case.detail
    assert "npufix" not in case.detail


def test_quick_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(device: str) -> str:
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr("rlinf_npu.smoke.quick._imports", fails)
    (case,) = quick("npu:0")
    assert case.status == "failed"
    assert "npufix cures this (" in case.detail


def test_report(tmp_path: Path) -> None:
    cases = [Case("a", "passed", seconds=2), Case("b", "failed", "why\nand how"), Case("c", "skipped", "no card")]
    Report("smoke", True, cases).write(tmp_path)
    facts = json.loads((tmp_path / "report.json").read_text())
    assert (facts["passed"], facts["simulated"]) == (False, True)
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - we wrote it
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [child.tag for case in suite for child in case] == ["failure", "skipped"]


def test_fixtures_spare_what_is_not_theirs(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match="is not empty"):
        make_fixtures(tmp_path, print)
    assert (tmp_path / "thesis.tex").exists()


def test_fixtures_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text('{"version": 1}')
    said: list[str] = []
    make_fixtures(tmp_path, said.append)
    assert said == [f"fixtures are there: {tmp_path}"]


def test_their_configuration_is_a_valid_one(tmp_path: Path) -> None:
    fixtures = Fixtures(tmp_path)
    write_config(fixtures)
    config = load_config(fixtures.config)
    assert config.value.global_batch % (config.value.micro_batch * 2) == 0
    assert config.value.max_steps == 2 * config.value.save_every


def test_expected_returns() -> None:
    pytest.importorskip("numpy", reason="numpy is in the image, not on every host")
    from rlinf_npu.smoke.fixtures.datasets import Episode
    from rlinf_npu.smoke.verify import expected_returns

    assert expected_returns(Episode(3, True), -30).tolist() == [-2, -1, 0]
    assert expected_returns(Episode(2, False), -30).tolist() == [-31, -30]
