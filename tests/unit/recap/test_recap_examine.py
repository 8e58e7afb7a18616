"""The doctor before a run: its findings are told, its errors stop, unless told otherwise."""

import os
import threading
from pathlib import Path

import pytest
from rlinf_npu.doctor.model import Finding, Report, Severity
from rlinf_npu.recap import cli, examine
from rlinf_npu.recap.errors import UsageError
from rlinf_npu.recap.examine import Examination, Look
from typer.testing import CliRunner


def report(*severities: Severity) -> Report:
    findings = [
        Finding(f"rule-{number}", "Title", severity, "seen", "meaning", "do this", "link")
        for number, severity in enumerate(severities)
    ]
    return Report("container", findings=findings)


def looks(quick: Report | None, slow: Report | None = None, wait: threading.Event | None = None) -> tuple[Look, Look]:
    """Two looks that find this; the slow one waits until it may."""

    def later() -> Report | None:
        assert wait is None or wait.wait(10)
        return slow

    return lambda: quick, later


def test_warnings_are_told_and_do_not_stop() -> None:
    said: list[str] = []
    with Examination(said.append, *looks(report(Severity.WARNING, Severity.NOTE))).before():
        pass
    assert said == ["doctor: warning: Title (rule-0): seen; do this"]


@pytest.mark.parametrize("found", [report(), None], ids=["healthy", "outside an image"])
def test_nothing_to_tell(found: Report | None) -> None:
    said: list[str] = []
    examination = Examination(said.append, *looks(found, found))
    with examination.before():
        pass
    assert examination.tell() == said == []
    assert examination.alarm() is None


def test_an_error_stops_and_says_how_to_go_on() -> None:
    said: list[str] = []
    with (
        pytest.raises(UsageError, match=r"1 problem\(s\) \(rule-0\), nothing was started.*--no-doctor.*RECAP_DOCTOR=0"),
        Examination(said.append, *looks(report(Severity.ERROR, Severity.WARNING))).before(),
    ):
        pass
    assert len(said) == 2


def test_who_is_refused_hears_of_the_import_too() -> None:
    said: list[str] = []
    quick, slow = report(Severity.ERROR), report(Severity.NOTE, Severity.ERROR)
    with (
        pytest.raises(UsageError, match=r"2 problem\(s\) \(rule-0, rule-1\)"),
        Examination(said.append, *looks(quick, slow)).before(),
    ):
        pass
    assert len(said) == 2


def test_when_recap_itself_refuses_the_findings_are_told_first() -> None:
    said: list[str] = []
    with (
        pytest.raises(UsageError, match="no NPU"),
        Examination(said.append, *looks(report(Severity.ERROR), report(Severity.NOTE, Severity.WARNING))).before(),
    ):
        raise UsageError("no NPU is visible")
    assert said == ["doctor: error: Title (rule-0): seen; do this", "doctor: warning: Title (rule-1): seen; do this"]


def test_the_import_goes_on_while_the_run_starts() -> None:
    said: list[str] = []
    wait = threading.Event()
    examination = Examination(said.append, *looks(report(), report(Severity.WARNING, Severity.ERROR), wait))
    with examination.before():
        pass
    assert examination.alarm() is None, "nothing is known yet"
    wait.set()
    assert len(examination.tell()) == 1
    assert "1 problem(s) (rule-1): " in (examination.alarm() or "")
    assert len(said) == 2, "each finding is told once"


def test_without_facts_there_is_no_examination(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLINF_NPU_FACTS", str(tmp_path / "none.json"))
    assert [look() for look in examine.looks()] == [None, None]


def test_without_cards_the_missing_data_are_named_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "rlinf").mkdir()
    (tmp_path / "recap.yaml").write_text(
        f"rlinf_home: {tmp_path}\nlog_dir: {tmp_path}\nmodels: {{siglip: a, gemma3: b, policy: c}}\n"
        "datasets: {train: [{path: no-such-data, type: sft}]}\n",
        encoding="utf-8",
    )
    monkeypatch.setattr("rlinf_npu.recap.cards.count_cards", lambda: 0)
    done = CliRunner().invoke(cli.app, ["run", "--no-doctor", "--config", str(tmp_path / "recap.yaml")])
    assert done.exit_code == 2
    assert "no NPU is visible" in done.output
    assert "no-such-data: no such dataset" in done.output
    assert "the pi0.5 policy is missing" in done.output


@pytest.mark.parametrize(
    ("arguments", "variable", "looked"),
    [
        (["run"], None, True),
        (["run"], "1", True),
        (["run"], "0", False),
        (["run", "--no-doctor"], None, False),
        (["run", "--no-doctor"], "1", False),
        (["step", "returns"], None, True),
        (["step", "returns", "--no-doctor"], None, False),
        (["step", "returns"], "0", False),
    ],
)
def test_what_the_command_line_says(
    arguments: list[str],
    variable: str | None,
    looked: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Refused for lack of RLinf's models in any case; the doctor was asked before that, or was not."""
    (tmp_path / "rlinf").mkdir()
    (tmp_path / "recap.yaml").write_text(
        f"rlinf_home: {tmp_path}\nlog_dir: {tmp_path}\nmodels: {{siglip: a, gemma3: b, policy: c}}\n"
        "datasets: {train: [{path: d, type: sft}]}\ncards: 3\n",
        encoding="utf-8",
    )
    asked: list[bool] = []

    def noted(nodes: int) -> tuple[Look, Look]:
        asked.append(True)
        return lambda: None, lambda: None

    monkeypatch.setattr(examine, "looks", noted)
    monkeypatch.setattr("rlinf_npu.recap.cards.count_cards", lambda: 1)
    monkeypatch.delenv("RECAP_DOCTOR", raising=False)
    if variable is not None:
        monkeypatch.setenv("RECAP_DOCTOR", variable)
    done = CliRunner().invoke(cli.app, [*arguments, "--config", str(tmp_path / "recap.yaml")], env=dict(os.environ))
    assert done.exit_code == 2, done.output
    assert asked == [True] * looked
