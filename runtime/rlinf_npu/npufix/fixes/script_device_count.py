"""Scripts that count devices with nvidia-smi."""

import re
from collections.abc import Iterator

from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import Expectation, Fix, Line, Site
from rlinf_npu.npufix.shell import Command, commands, indentation

ID = "script-device-count"
COUNT = re.compile(
    r"^\s*(?P<export>(?:export|local|readonly)\s+)?(?P<name>\w+)=[\"']?\$\(\s*nvidia-smi\b[^)]*\|\s*wc\s+-l[^)]*\)[\"']?\s*$"
)
CLAMP_IF = r"^\s*if \[\[? *\"?\$\{{?{name}\}}?\"? +(?:-lt +1|-eq +0|-le +0) *\]?\]; *then\s*$"
CLAMP_SET = r"^\s*{name}=1\s*$"
ERROR = 'echo "error: npu-count found no NPU and no GPU; check the driver, or choose a number yourself (--nproc N)" >&2'


def find(path: str, text: str) -> Iterator[Site]:
    """`X=$(nvidia-smi -L | wc -l ...)`, and the block that turns a count below 1 into 1."""
    lines = split_lines(text)
    script = list(commands(text))
    for command in script:
        match = COUNT.match(command.text)
        if match is None or command.number != command.last:
            continue
        name = match.group("name")
        counted = f"{indentation(command.text)}{match.group('export') or ''}{name}=$(npu-count || echo 0)"
        changes = [Line(command.number, counted), *_clamp(script, name, lines)]
        yield Site(ID, path, command.number, command.text.strip(), lines=tuple(changes))


def _clamp(script: list[Command], name: str, lines: list[str]) -> list[Line]:
    condition = re.compile(CLAMP_IF.format(name=re.escape(name)))
    setting = re.compile(CLAMP_SET.format(name=re.escape(name)))
    for test, body, end in zip(script, script[1:], script[2:], strict=False):
        if condition.match(test.text) and setting.match(body.text) and end.text.strip() == "fi":
            space = indentation(lines[body.number - 1])
            return [Line(body.number, space + ERROR, (space + "exit 1",))]
    return []


FIX = Fix(
    id=ID,
    title="count NPUs in scripts, and fail when there is nothing to count",
    symptom="GPUs: 1, on a machine with 8 cards",
    why="Without nvidia-smi `wc -l` prints 0 and succeeds: one process. npu-count knows NPUs and GPUs.",
    seen="seed 7.3; a4b6abe: run_compute_advantages.sh, run_compute_advantages_ensemble.sh",
    kind="shell",
    signs=(r"GPUs:\s+1$",),
    hint=r"nvidia-smi",
    find_text=find,
    expect=(
        Expectation(suffix=".sh", anchor=r"^\s*NPROC_PER_NODE=\$\(", cured=r"npu-count|npu-smi|torch\.npu|ASCEND"),
    ),
)
