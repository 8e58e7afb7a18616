"""torchcodec in configuration files."""

from collections.abc import Iterator

from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import Fix, Site
from rlinf_npu.npufix.yamlfile import changed_line, scalars

ID = "video-backend-config"


def find(path: str, text: str) -> Iterator[Site]:
    """`video_backend: torchcodec` anywhere."""
    for scalar in scalars(text):
        if scalar.value == "torchcodec" and scalar.keys[-1] == "video_backend":
            line = changed_line(path, text, scalar, "pyav")
            yield Site(ID, path, scalar.line, split_lines(text)[scalar.line - 1].strip(), lines=(line,))


FIX = Fix(
    id=ID,
    title="decode videos with PyAV in configurations",
    symptom="ModuleNotFoundError: No module named 'torchcodec' (or OSError: libnvrtc.so.13)",
    why="torchcodec from PyPI is a CUDA build; the image does not have it.",
    seen="a4b6abe: examples/sft/config/*dreamzero*.yaml",
    kind="yaml",
    signs=(r"libtorchcodec", r"libnvrtc\.so", r"No module named 'torchcodec'"),
    hint=r"torchcodec",
    find_text=find,
)
