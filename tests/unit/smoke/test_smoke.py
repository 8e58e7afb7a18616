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
from rlinf_npu.smoke.report import Case, Report
from rlinf_npu.smoke.run import proof_problem

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
