"""advantage_tag set to a path in a configuration file."""

from collections.abc import Iterator

from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import Expectation, Fix, Site
from rlinf_npu.npufix.yamlfile import changed_line, scalars

ID = "advantage-tag-config"


def find(path: str, text: str) -> Iterator[Site]:
    """`advantage_tag: <.../advantages.parquet>`; null means just that file."""
    for scalar in scalars(text):
        if scalar.keys[-1] == "advantage_tag" and scalar.value.endswith("/advantages.parquet"):
            line = changed_line(path, text, scalar, "null")
            yield Site(ID, path, scalar.line, split_lines(text)[scalar.line - 1].strip(), lines=(line,))


FIX = Fix(
    id=ID,
    title="no path as advantage_tag in configurations",
    symptom="FileNotFoundError: Advantage file not found: advantages_<whole path>.parquet",
    why="The tag is part of a file name; null stands for meta/advantages.parquet.",
    seen="seed 7.4: cfg_rl_openpi.yaml (a4b6abe itself says null)",
    kind="yaml",
    signs=(r"advantages_\S*/\S*\.parquet",),
    hint=r"advantage_tag",
    find_text=find,
    expect=(Expectation(suffix=".yaml", anchor=r"^\s+advantage_tag:", cured=r"advantage_tag:\s*(null|~|[\w-]+\s*$)"),),
)
