"""The command line: usage errors exit 2 with one clear line, failures exit 1, and `plan` needs nothing but Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def build_py(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("BASE", "PLATFORM", "SOURCE", "MIRROR", "USE_MIRRORS")}
    # No docker, no git, no network tools on PATH: `plan` must not need them.
    env = clean | {"PATH": "/nonexistent"} | environment
    return subprocess.run(
        [sys.executable, str(ROOT / "build.py"), *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_plan_needs_no_docker_and_no_network() -> None:
    run = build_py("plan", "--platform", "arm64", "--base", "cann")
    assert run.returncode == 0, run.stderr
    plan = json.loads((ROOT / "build" / "bake.json").read_text(encoding="utf-8"))
    assert plan["target"]["rlinf-npu"]["platforms"] == ["linux/arm64"]
    assert "cann-sim" not in plan["target"]


@pytest.mark.parametrize(
    ("arguments", "environment", "line"),
    [
        (("plan", "--base", "cuda"), {}, "error: BASE='cuda' is not a base"),
        (("plan",), {"BASE": "cuda"}, "error: BASE='cuda' is not a base"),
        (("plan", "--platform", "mips"), {}, "error: no platform 'mips'"),
        (("plan", "--mirror", "mars"), {}, "error: no mirrors called 'mars'"),
        (("plan", "cuda-base"), {}, "error: no image called 'cuda-base' in images.toml"),
        (
            ("plan",),
            {"SOURCE_DATE_EPOCH": "yesterday"},
            "error: SOURCE_DATE_EPOCH='yesterday' is not a number of seconds",
        ),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    arguments: tuple[str, ...], environment: dict[str, str], line: str
) -> None:
    run = build_py(*arguments, **environment)
    assert run.returncode == 2
    assert run.stderr.splitlines()[0] == line
    assert "Traceback" not in run.stderr


def test_use_mirrors_is_the_first_set_of_mirrors() -> None:
    assert build_py("plan", USE_MIRRORS="1").returncode == 0
