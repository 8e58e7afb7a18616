"""YAML and shell: what is changed, what is not, and that the scripts then behave."""

import os
import subprocess
from pathlib import Path

import pytest
from mini_tree import Fixer, changed_lines
from rlinf_npu.npufix.model import NpufixError

COUNT = """#!/bin/bash
set -e
# NPROC=$(nvidia-smi -L | wc -l)
NPROC_PER_NODE=$(nvidia-smi -L 2>/dev/null | wc -l || echo 1)
while [ $# -gt 0 ]; do
    case "$1" in
        --nproc) NPROC_PER_NODE="$2"; shift 2 ;;
    esac
done

if [ "$NPROC_PER_NODE" -lt 1 ]; then
    NPROC_PER_NODE=1
fi
echo "GPUs: $NPROC_PER_NODE"
"""


def test_script_counts_with_npu_count(fix_text: Fixer) -> None:
    fixed = fix_text(COUNT, "examples/run.sh")
    gone, come = changed_lines(COUNT, fixed)
    assert gone == ["NPROC_PER_NODE=$(nvidia-smi -L 2>/dev/null | wc -l || echo 1)", "NPROC_PER_NODE=1"]
    assert come[0] == "NPROC_PER_NODE=$(npu-count || echo 0)"
    assert come[-1] == "exit 1"
    assert fix_text(fixed, "examples/run.sh") == fixed


def run_script(text: str, folder: Path, *arguments: str, **tools: str) -> subprocess.CompletedProcess[str]:
    """Run a script in bash with the given tools (name=body) on PATH."""
    for name, body in tools.items():
        tool = folder / name.replace("_", "-")
        tool.write_text(f"#!/bin/sh\n{body}\n")
        tool.chmod(0o755)
    script = folder / "run.sh"
    script.write_text(text)
    environ = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run(
        ["bash", str(script), *arguments], capture_output=True, text=True, check=False, env=environ, cwd=folder
    )


def test_count_before_and_after(fix_text: Fixer, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    assert run_script(COUNT, tools).stdout == "GPUs: 1\n"  # the symptom, with 8 cards
    fixed = fix_text(COUNT, "examples/run.sh")
    assert run_script(fixed, tools, npu_count="echo 8").stdout == "GPUs: 8\n"
    assert run_script(fixed, tools, "--nproc", "2", npu_count="echo 8").stdout == "GPUs: 2\n"
    for body in ("echo 0", "exit 3"):
        nothing = run_script(fixed, tools, npu_count=body)
        assert (nothing.returncode, nothing.stdout) == (1, "")
        assert "--nproc" in nothing.stderr


PIPE = """#!/bin/bash
CMD="bash train.sh"
LOG=log.txt
${CMD} 2>&1 | grep -v libdav1d | tee -a "${LOG}"
"""


def test_exit_code_before_and_after(fix_text: Fixer, tmp_path: Path) -> None:
    fixed = fix_text(PIPE, "examples/run.sh")
    assert changed_lines(PIPE, fixed) == ([], ['exit "${PIPESTATUS[0]}"'])
    for body, before, after in (("echo bad; exit 7", 0, 7), ("echo fine", 0, 0), ("echo libdav1d", 0, 0)):
        (tmp_path / "train.sh").write_text(body)
        assert run_script(PIPE, tmp_path).returncode == before
        assert run_script(fixed, tmp_path).returncode == after


@pytest.mark.parametrize(
    "command",
    [
        'python train.py \\\n    --name x 2>&1 | tee "$LOG"',
        '"${CMD[@]}" 2>&1 | tee log.txt',
        "    ${CMD} 2>&1 | tee -a ${LOG}",
    ],
)
def test_pipes_that_end_a_script(command: str, fix_text: Fixer) -> None:
    fixed = fix_text(f"#!/bin/bash\n{command}\n", "examples/run.sh")
    assert fixed.splitlines()[-1].strip() == 'exit "${PIPESTATUS[0]}"'
    assert fixed.startswith(f"#!/bin/bash\n{command}\n")


SCRIPTS_LEFT_ALONE = {
    "comment": "# X=$(nvidia-smi -L | wc -l)\n",
    "here-document": "cat > run.sh <<'EOF'\nX=$(nvidia-smi -L | wc -l)\nEOF\necho done\n",
    "indented here-document": "cat <<-EOF\n\tX=$(nvidia-smi -L | wc -l)\n\tEOF\necho done\n",
    "quoted": 'echo "X=$(nvidia-smi -L | wc -l)"\n',
    "another question": "nvidia-smi --query-gpu=name --format=csv\n",
    "pipefail": "set -euo pipefail\n${CMD} 2>&1 | tee log\n",
    "status used": '${CMD} 2>&1 | tee log\nexit "${PIPESTATUS[0]}"\n',
    "not the last command": "${CMD} 2>&1 | tee log\necho done\n",
    "no stderr": "echo hello | tee log\n",
    "already fixed": "NPROC_PER_NODE=$(npu-count || echo 0)\n",
}


@pytest.mark.parametrize("name", SCRIPTS_LEFT_ALONE)
def test_scripts_left_alone(name: str, fix_text: Fixer) -> None:
    source = SCRIPTS_LEFT_ALONE[name]
    assert fix_text(source, "examples/run.sh") == source


def test_clamp_of_another_variable_stays(fix_text: Fixer) -> None:
    source = COUNT.replace('if [ "$NPROC_PER_NODE" -lt 1', 'if [ "$WORKERS" -lt 1')
    gone, _ = changed_lines(source, fix_text(source, "examples/run.sh"))
    assert gone == ["NPROC_PER_NODE=$(nvidia-smi -L 2>/dev/null | wc -l || echo 1)"]


CONFIG = """# nccl is the default
distributed:
  enabled: true
  backend: "nccl"   # nccl or gloo
  timeout: 3600

megatron:
  distributed: {backend: nccl}
data:
  advantage_tag: /data/set/meta/advantages.parquet
  name: nccl
  video_backend: torchcodec # pyav | torchcodec
text: "backend: nccl"
other: ${distributed.backend}
"""


def test_configuration(fix_text: Fixer) -> None:
    source = CONFIG.replace("megatron:\n  distributed: {backend: nccl}\n", "")
    fixed = fix_text(source, "examples/config/a.yaml")
    assert changed_lines(source, fixed) == (
        [
            'backend: "nccl"   # nccl or gloo',
            "advantage_tag: /data/set/meta/advantages.parquet",
            "video_backend: torchcodec # pyav | torchcodec",
        ],
        ['backend: "hccl"   # nccl or gloo', "advantage_tag: null", "video_backend: pyav # pyav | torchcodec"],
    )
    assert fix_text(fixed, "examples/config/a.yaml") == fixed


def test_line_ends_and_missing_last_line_end_are_kept(fix_text: Fixer) -> None:
    source = "distributed:\r\n  backend: 'nccl'\r\n  x: 1"
    assert fix_text(source, "examples/a.yaml") == "distributed:\r\n  backend: 'hccl'\r\n  x: 1"


@pytest.mark.parametrize(
    "source",
    [
        "backend: nccl\n",
        "distributed:\n  backend: gloo\n",
        "distributed:\n  backend: hccl\n",
        "distributed:\n  # backend: nccl\n  timeout: 3\n",
        "data:\n  advantage_tag: null\n",
        "data:\n  advantage_tag: model_a\n",
        "data:\n  video_backend: pyav\n",
        "data: {{ template }}\nbackend: nccl\n: bad\n",
    ],
)
def test_configurations_left_alone(source: str, fix_text: Fixer) -> None:
    assert fix_text(source, "examples/a.yaml") == source


def test_value_that_cannot_be_edited_in_its_line_is_an_error(fix_text: Fixer) -> None:
    with pytest.raises(NpufixError, match=r"a\.yaml:2: 'nccl' is not written plainly"):
        fix_text("distributed:\n  backend: &name\n    nccl\n  other: *name\n", "examples/a.yaml")
