"""Scripts that lose the exit code of the training command in a pipe."""

import re
from collections.abc import Iterator

from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import Expectation, Fix, Line, Site
from rlinf_npu.npufix.shell import commands, indentation

ID = "script-exit-code"
PIPE_INTO_TEE = re.compile(
    r"""^\s*("?\$\{?\w+(\[@\])?\}?"?|python3?|torchrun|ray)(?=\s)[^;&]*2>&1[^;]*\|\s*tee\b[^|;]*$"""
)
EXIT = 'exit "${PIPESTATUS[0]}"'


def find(path: str, text: str) -> Iterator[Site]:
    """A last command `... 2>&1 | ... | tee ...` in a script that knows neither pipefail nor PIPESTATUS."""
    if re.search(r"pipefail|PIPESTATUS", text):
        return
    script = list(commands(text))
    if not script or not PIPE_INTO_TEE.match(script[-1].text):
        return
    last = script[-1]
    line = split_lines(text)[last.last - 1]
    space = indentation(split_lines(text)[last.number - 1])
    yield Site(ID, path, last.number, last.text.strip(), lines=(Line(last.last, line, (space + EXIT,)),))


FIX = Fix(
    id=ID,
    title="scripts return the exit code of the training command",
    symptom="the training fails and run_value_sft.sh or run_cfg_rl.sh exits 0",
    why="A pipeline returns the status of tee, its last command. pipefail is no cure: `grep -v` may return 1.",
    seen="a4b6abe: run_value_sft.sh, run_cfg_rl.sh and the scripts for embodied, SFT and reward training",
    kind="shell",
    hint=r"\|\s*tee\b",
    find_text=find,
    expect=(Expectation(suffix=".sh", anchor=r"2>&1 \|.*\btee\b", cured=r"pipefail|PIPESTATUS"),),
)
