"""The operators are installed once torch_npu is complete, whoever imports it. A small package stands for torch_npu."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

PYTHON = Path(__file__).resolve().parents[3] / "images/cann-sim/python"

# Replaces the part that needs torch by one that tells when it runs.
PRELUDE = """
import sys, types
fake = types.ModuleType("cannsim_host_ops.install")
fake.install = lambda: print("installed", "torch_npu" in sys.modules and sys.modules["torch_npu"].complete)
sys.modules["cannsim_host_ops.install"] = fake
import cannsim_host_ops
cannsim_host_ops.install = fake
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu/__init__.py").write_text(
        "import os\nif os.environ.get('BROKEN'): raise ImportError('libascend_hal.so')\ncomplete = True\n",
        encoding="utf-8",
    )
    return tmp_path


def run(site: Path, code: str, **environment: str) -> tuple[list[str], list[str]]:
    """Lines on stdout and stderr."""
    variables = {"PYTHONPATH": f"{PYTHON}:{site}", "PYTHONDONTWRITEBYTECODE": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_after_torch_npu_when_the_entry_point_comes_first(site: Path) -> None:
    out, err = run(site, "cannsim_host_ops.autoload(); print('armed')\nimport torch_npu\nimport torch_npu")
    assert out == ["armed", "installed True"]
    assert len(err) == 1
    assert err[0].startswith("simulated NPU")


def test_without_entry_point(site: Path) -> None:
    """A program that imports torch_npu first: sitecustomize has armed the hook."""
    assert run(site, "import torch_npu")[0] == ["installed True"]


def test_torch_npu_already_there(site: Path) -> None:
    code = "import cannsim_host_ops.hook as h\n"
    code += "sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, h._Finder)]\n"
    assert run(site, f"{code}import torch_npu\nprint('late')\ncannsim_host_ops.autoload()")[0] == [
        "late",
        "installed True",
    ]


def test_no_torch_npu_nothing_happens(tmp_path: Path) -> None:
    code = "cannsim_host_ops.autoload()\ntry:\n import torch_npu\nexcept ImportError as e: print(e)"
    assert run(tmp_path, code) == (["No module named 'torch_npu'"], [])


def test_torch_npus_own_error_comes_through_and_the_next_attempt_works(site: Path) -> None:
    code = "import os\ntry:\n import torch_npu\nexcept ImportError as e: print(e)\n"
    code += "os.environ.pop('BROKEN')\nimport torch_npu"
    assert run(site, code, BROKEN="1")[0] == ["libascend_hal.so", "installed True"]


def test_switched_off(site: Path) -> None:
    assert run(site, "cannsim_host_ops.autoload()\nimport torch_npu", CANNSIM_HOST_OPS="0") == ([], [])


def test_task_queue_is_off_before_torch_npu_reads_it(site: Path) -> None:
    code = "import os; print(os.environ.get('TASK_QUEUE_ENABLE'))\n"
    code += "import torch_npu\nprint(os.environ['TASK_QUEUE_ENABLE'])"
    assert run(site, code)[0] == ["None", "installed True", "0"]


def test_banner_once_per_tree_of_processes(site: Path) -> None:
    code = "import torch_npu, subprocess\n"
    code += "subprocess.run([sys.executable, '-c', 'import cannsim_host_ops.banner as b; b.show()'])"
    assert len(run(site, code)[1]) == 1
    assert run(site, "import torch_npu", CANNSIM_QUIET="1")[1] == []
    assert len(run(site, "import torch_npu", CANNSIM_QUIET="0")[1]) == 1
