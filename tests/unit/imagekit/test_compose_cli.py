"""`build.py compose`: one line and an exit code for what is wrong; a build does not fail for it."""

from pathlib import Path

import pytest
from hostkit import Said

from imagekit import cli, compose_cli
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({"NPUS": "0-b"}, "error: NPUS=0-b: '0-b' is not a card or a range"),
        ({"NPUS": "31"}, "error: NPUS=31: no card 31, a host has 0-15"),
        ({"PRIVILEGED": "please"}, "error: PRIVILEGED=please is neither 1 nor 0"),
    ],
)
def test_a_wrong_setting_is_one_line_and_a_fix(
    environment: dict[str, str], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # IMAGE: whether something has been built on this machine must not matter here.
    for name, value in ({"IMAGE": "registry.example/rlinf-npu:1", "NPUS": "none"} | environment).items():
        monkeypatch.setenv(name, value)
    files = [ROOT / "compose.override.yaml", ROOT / "build/compose-cards.yaml"]
    before = [path.read_bytes() if path.exists() else None for path in files]
    monkeypatch.setattr("sys.argv", ["build.py", "compose"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == line
    assert said[1].startswith("  fix: ")
    assert len(said) == 2
    assert [path.read_bytes() if path.exists() else None for path in files] == before


def test_a_build_does_not_fail_for_a_wrong_env(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Problem("NPUS=9: card 9 is not on this host", "correct NPUS in .env")

    monkeypatch.setattr(compose_cli, "generate", refuse)
    said = Said()
    compose_cli.after_build(manifest, said)
    assert "NPUS=9" in said.text
    assert "make compose" in said.text


def test_what_is_generated_is_not_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"/compose.override.yaml", "/build/", "/.env"} <= set(ignored)
    assert Path(ROOT / ".env.example").is_file()
