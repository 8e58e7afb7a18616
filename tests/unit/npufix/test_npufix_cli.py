"""The command line: output, exit codes, bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import rlinf_npu
from mini_tree import SKELETON, TreeMaker
from rlinf_npu.npufix.catalogue import FIXES
from rlinf_npu.npufix.cli import app
from typer.testing import CliRunner

FILES = {"rlinf/a.py": "import torch\n\n\ndef f():\n    torch.cuda.synchronize()\n"}
runner = CliRunner()


def test_list() -> None:
    plain = runner.invoke(app, ["list"])
    assert plain.exit_code == 0
    assert all(fix.id in plain.stdout for fix in FIXES)
    assert [entry["id"] for entry in json.loads(runner.invoke(app, ["list", "--json"]).stdout)] == [
        fix.id for fix in FIXES
    ]
    assert runner.invoke(app, ["list", "--json", "--markdown"]).exit_code == 2


def test_explain() -> None:
    shown = runner.invoke(app, ["explain", "script-device-count"])
    assert shown.exit_code == 0
    assert "GPUs: 1" in shown.stdout
    unknown = runner.invoke(app, ["explain", "nonsense"])
    assert unknown.exit_code == 2
    assert "script-device-count" in unknown.stderr


def test_scan_apply_verify(make_tree: TreeMaker, tmp_path: Path) -> None:
    root = str(make_tree(FILES).root)
    assert runner.invoke(app, ["scan", root]).exit_code == 0
    before = runner.invoke(app, ["verify", root])
    assert before.exit_code == 1
    assert "cuda-memory-call" in before.stderr
    difference = runner.invoke(app, ["diff", root])
    assert difference.exit_code == 0
    assert "-    torch.cuda.synchronize()\n+    accel().synchronize()\n" in difference.stdout
    file = tmp_path / "deep/npufix.json"
    applied = runner.invoke(app, ["apply", root, "--report", str(file)])
    assert applied.exit_code == 0, applied.output
    assert "applied" in applied.stdout
    kept = json.loads(file.read_text())
    assert kept["summary"]["open_on_paths"] == 0
    assert kept["summary"]["uses"] == {"fixed": 2}
    assert {"path": "rlinf/a.py", "line": 5, "status": "fixed", "fix": "cuda-memory-call"}.items() <= next(
        use for use in kept["uses"] if use["path"] == "rlinf/a.py"
    ).items()
    assert runner.invoke(app, ["diff", root]).stdout == ""
    after = runner.invoke(app, ["verify", root, "--json"])
    assert after.exit_code == 0, after.output
    assert {entry["status"] for entry in json.loads(after.stdout)["fixes"]} == {"already", "not needed"}


def test_vanished_site_is_exit_code_1(make_tree: TreeMaker) -> None:
    strange = SKELETON["rlinf/manager.py"].replace('torch.amp.autocast(device_type="cuda", ', "make_context(")
    root = make_tree({**FILES, "rlinf/manager.py": strange}).root
    done = runner.invoke(app, ["apply", str(root)])
    assert done.exit_code == 1
    assert "autocast-device: rlinf/manager.py" in done.stderr
    assert "vanished" in done.stderr
    assert "torch.cuda.synchronize()" in (root / "rlinf/a.py").read_text()


@pytest.mark.parametrize(
    "arguments", [["apply"], ["apply", "/nonexistent"], ["scan", "/usr"], ["nonsense"], ["apply", "--frob", "x"]]
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    done = runner.invoke(app, arguments)
    assert done.exit_code == 2
    assert done.stderr.strip()
    assert "Traceback" not in done.output


def test_report_that_cannot_be_written_is_one_line(make_tree: TreeMaker, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = runner.invoke(app, ["scan", str(make_tree().root), "--report", str(tmp_path / "file/npufix.json")])
    assert done.exit_code == 1
    assert done.stderr.startswith("npufix: cannot write")


def test_module_runs(make_tree: TreeMaker) -> None:
    runtime = Path(rlinf_npu.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "rlinf_npu.npufix", "scan", str(make_tree(FILES).root), "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(runtime), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["open_on_paths"] == 2
