"""The doctor before a run: its findings are told, its errors stop, unless told otherwise."""

import contextlib
import os
from pathlib import Path

import pytest
from rlinf_npu.doctor.model import Finding, Report, Severity
from rlinf_npu.recap import cli, examine
from rlinf_npu.recap.errors import UsageError
from rlinf_npu.recap.examine import examination
from typer.testing import CliRunner


def report(*severities: Severity) -> Report:
    findings = [
        Finding(f"rule-{number}", "Title", severity, "seen", "meaning", "do this", "link")
        for number, severity in enumerate(severities)
    ]
    return Report("container", findings=findings)


def examined(found: Report | None) -> list[str]:
    said: list[str] = []
    with examination(said.append, lambda: found):
        pass
    return said


def test_warnings_are_told_and_do_not_stop() -> None:
    assert examined(report(Severity.WARNING, Severity.NOTE)) == ["doctor: warning: Title (rule-0): seen; do this"]


def test_nothing_to_tell() -> None:
    assert examined(report()) == []
    assert examined(None) == [], "outside an image"


def test_an_error_stops_and_says_how_to_go_on() -> None:
    said: list[str] = []
    with (
        pytest.raises(UsageError, match=r"1 problem\(s\) \(rule-0\), nothing was started.*--no-doctor.*RECAP_DOCTOR=0"),
        examination(said.append, lambda: report(Severity.ERROR, Severity.WARNING)),
    ):
        pass
    assert len(said) == 2


def test_when_recap_itself_refuses_the_findings_are_told_first() -> None:
    said: list[str] = []
    with pytest.raises(UsageError, match="no NPU"), examination(said.append, lambda: report(Severity.ERROR)):
        raise UsageError("no NPU is visible")
    assert said == ["doctor: error: Title (rule-0): seen; do this"]


def test_without_facts_there_is_no_examination(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLINF_NPU_FACTS", str(tmp_path / "none.json"))
    assert examine.examine() is None


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

    @contextlib.contextmanager
    def noted(say: object, look: object):  # type: ignore[no-untyped-def]
        asked.append(True)
        yield

    monkeypatch.setattr(examine, "examination", noted)
    monkeypatch.setattr("rlinf_npu.recap.cards.count_cards", lambda: 1)
    monkeypatch.delenv("RECAP_DOCTOR", raising=False)
    if variable is not None:
        monkeypatch.setenv("RECAP_DOCTOR", variable)
    done = CliRunner().invoke(cli.app, [*arguments, "--config", str(tmp_path / "recap.yaml")], env=dict(os.environ))
    assert done.exit_code == 2, done.output
    assert asked == [True] * looked
