"""nccl in configuration files."""

from collections.abc import Iterator

from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import Expectation, Fix, Site
from rlinf_npu.npufix.yamlfile import changed_line, scalars

ID = "dist-backend-config"


def find(path: str, text: str) -> Iterator[Site]:
    """`backend: nccl` below a key `distributed`."""
    for scalar in scalars(text):
        if scalar.value == "nccl" and scalar.keys[-2:] == ("distributed", "backend"):
            line = changed_line(path, text, scalar, "hccl")
            yield Site(ID, path, scalar.line, split_lines(text)[scalar.line - 1].strip(), lines=(line,))


FIX = Fix(
    id=ID,
    title="hccl as backend in configurations",
    symptom="RuntimeError: Distributed package doesn't have NCCL built in",
    why="The configuration wins over the default in code, and it names nccl.",
    seen="seed 3.3; a4b6abe: recap_compute_advantages.yaml, steam_compute_advantages_ensemble.yaml",
    kind="yaml",
    signs=(r"doesn't have NCCL built in", r"simulated CUDA\] c10d::ProcessGroupNCCL"),
    hint=r"\bnccl\b",
    find_text=find,
    expect=(Expectation(suffix=".yaml", anchor=r"^distributed:\s*$", cured=r"hccl|backend:\s*(null|auto|\$)"),),
)
