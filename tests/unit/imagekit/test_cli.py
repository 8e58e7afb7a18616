"""The command line: usage errors exit 2 with one clear line, failures exit 1, and `plan` needs nothing but Python."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imagekit import cli

Run = Callable[..., int]


@pytest.fixture
def build_py(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run `build.py ARGUMENTS` and return its exit code. Nothing is on PATH: no docker, no git, no network tools."""
    settings = ("BASE", "PLATFORM", "SOURCE", "TORCH", "INSTALLER", "MIRROR", "USE_MIRRORS", "NO_FIXES")
    for name in (*settings, "SOURCE_DATE_EPOCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")

    def run(*arguments: str, **environment: str) -> int:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.argv", ["build.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0)

    # Commands set SIGTERM; SIGINT is ignored where a shell has started the tests in the background.
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield run
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_plan_needs_no_docker_and_no_network(build_py: Run, tmp_path: Path) -> None:
    target = tmp_path / "out" / "bake.json"
    assert build_py("plan", "--platform", "arm64", "--base", "cann", "--output", str(target)) == 0
    plan = json.loads(target.read_text(encoding="utf-8"))
    assert plan["target"]["rlinf-npu"]["platforms"] == ["linux/arm64"]
    assert "cann-sim" not in plan["target"]


@pytest.mark.parametrize(
    ("arguments", "environment", "line"),
    [
        (("plan", "--base", "cuda"), {}, "error: BASE='cuda' is not a base"),
        (("plan",), {"BASE": "cuda"}, "error: BASE='cuda' is not a base"),
        (("plan", "--platform", "mips"), {}, "error: no platform 'mips'"),
        (("plan", "--mirror", "mars"), {}, "error: no mirrors called 'mars'"),
        (("plan", "--torch", "rocm"), {}, "error: TORCH='rocm' is not a source of torch"),
        (("plan", "--installer", "pip"), {}, "error: INSTALLER='pip' is not an installer"),
        # before an engine is looked for, let alone installed
        (("image", "--source", "/nowhere"), {}, "error: SOURCE=/nowhere: no such folder"),
        (("image",), {"PROBE_SECONDS": "soon"}, "error: PROBE_SECONDS=soon is not a number of seconds"),
        (("plan", "cuda-base"), {}, "error: no image called 'cuda-base' in images.toml"),
        (
            ("plan",),
            {"SOURCE_DATE_EPOCH": "yesterday"},
            "error: SOURCE_DATE_EPOCH='yesterday' is not a number of seconds",
        ),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    build_py: Run,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    environment: dict[str, str],
    line: str,
) -> None:
    assert build_py(*arguments, **environment) == 2
    text = capsys.readouterr().err
    assert text.splitlines()[0] == line
    assert "Traceback" not in text


def test_rlinfs_own_installer_needs_its_git_tree(build_py: Run, tmp_path: Path) -> None:
    """What is on PyPI has no install.sh: `auto` does not fall back to it then."""
    target = tmp_path / "bake.json"
    assert build_py("plan", "--output", str(target), INSTALLER="upstream") == 0
    plan = json.loads(target.read_text(encoding="utf-8"))["target"]["rlinf-npu"]
    assert plan["args"]["INSTALLER"] == "upstream"
    assert plan["labels"]["ai.rlinf.npu.rlinf.source"] == "git"
    assert all("-upstream" in tag for tag in plan["tags"])
    assert build_py("plan", INSTALLER="upstream", SOURCE="pypi") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_cancelled_job_are_one_line(
    build_py: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    def interrupt() -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(cli, "load_manifest", interrupt)
    assert build_py("plan") == 130
    assert capsys.readouterr().err.startswith("interrupted: what was finished is kept")


def test_use_mirrors_is_the_first_set_of_mirrors(build_py: Run, tmp_path: Path) -> None:
    assert build_py("plan", "--output", str(tmp_path / "bake.json"), USE_MIRRORS="1") == 0
