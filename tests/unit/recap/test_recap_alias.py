"""lerobot.common.datasets means lerobot.datasets, with the same module objects."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[3] / "runtime"
SAME = """
import warnings; warnings.simplefilter("error")
import rlinf_npu.recap.lerobot_alias as a; a.install(); a.install()
import lerobot.common.datasets.lerobot_dataset as old
import lerobot.datasets.lerobot_dataset as new
from lerobot.common.datasets.utils import helper
import lerobot.common.datasets
assert old is new and lerobot.common.datasets is lerobot.datasets
assert new.__spec__.name == "lerobot.datasets.lerobot_dataset", new.__spec__
assert new.helper is helper and new.LOADED == 1
try:
    import lerobot.common.nothing
except ModuleNotFoundError as error:
    print(error.name)
"""
REAL = """
import rlinf_npu.recap.lerobot_alias as a; a.install()
import lerobot.common.datasets.utils as real
print(real.__file__)
"""


def lerobot(root: Path, common: bool) -> None:
    """A stand-in of LeRobot's layout; with `common`, of the layout before the move."""
    datasets = root / "lerobot" / ("common/datasets" if common else "datasets")
    datasets.mkdir(parents=True)
    for folder in (root / "lerobot", *([root / "lerobot/common"] if common else []), datasets):
        (folder / "__init__.py").touch()
    (datasets / "utils.py").write_text("def helper(): ...\n")
    (datasets / "lerobot_dataset.py").write_text(
        "from .utils import helper\nimport builtins\n"
        "builtins._n = getattr(builtins, '_n', 0) + 1\nLOADED = builtins._n\n"
    )


def run(code: str, root: Path) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "PYTHONPATH": f"{root}:{RUNTIME}"}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=30, check=False
    )


def test_same_modules(tmp_path: Path) -> None:
    lerobot(tmp_path, common=False)
    result = run(SAME, tmp_path)
    assert (result.returncode, result.stdout) == (0, "lerobot.common.nothing\n"), result.stderr


def test_a_real_package_wins(tmp_path: Path) -> None:
    lerobot(tmp_path, common=True)
    assert run(REAL, tmp_path).stdout.strip() == str(tmp_path / "lerobot/common/datasets/utils.py")


@pytest.mark.skipif(importlib.util.find_spec("lerobot") is not None, reason="LeRobot is installed here")
def test_without_lerobot_the_error_is_the_usual_one(tmp_path: Path) -> None:
    result = run("import rlinf_npu.recap.lerobot_alias as a; a.install()\nimport lerobot.common.datasets", tmp_path)
    assert "No module named 'lerobot'" in result.stderr


@pytest.mark.parametrize("module", ["torch", "typer", "pydantic", "rich"])
def test_the_line_in_the_pth_file_costs_nothing(module: str, tmp_path: Path) -> None:
    code = f"import sys, rlinf_npu.recap.lerobot_alias; print({module!r} in sys.modules)"
    assert run(code, tmp_path).stdout == "False\n"
