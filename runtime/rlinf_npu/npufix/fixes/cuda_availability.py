"""Decisions that hang on torch.cuda.is_available()."""

from collections.abc import Iterator

from rlinf_npu.npufix.cuda import AVAILABILITY, needs_cuda
from rlinf_npu.npufix.fixes.calls import platform_sites
from rlinf_npu.npufix.model import Expectation, Fix, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "cuda-availability"


def find(file: PyFile) -> Iterator[Site]:
    """is_available() calls, except in functions that go on to use something that only CUDA has (nvtx, graphs)."""
    for node, site in platform_sites(file, ID, frozenset({AVAILABILITY})):
        if not needs_cuda(file, file.function_of(node)):
            yield site


FIX = Fix(
    id=ID,
    title="decide by the accelerator at hand, not by CUDA alone",
    symptom="step 3 says 'complete', exits 0, and has run on the CPU; bf16 silently becomes fp32 (steam)",
    why="torch.cuda.is_available() is False on an NPU, so the code takes its CPU branch without a word.",
    seen="a4b6abe: data/process/distributed.py, value_model/steam/modeling_steam.py, utils.seed_everything, IQL actor",
    kind="python",
    signs=(r"ran on the CPU",),  # what recap and smoke say of a step that left its cards idle
    hint=r"is_available",
    find_python=find,
    expect=(
        Expectation(suffix=".py", anchor=r"^def setup_distributed\(", cured=r"npu\.is_available|torch_platform"),
        Expectation(suffix=".py", anchor=r"^def _resolve_load_dtype\(", cured=r"npu|torch_platform|torch_device_type"),
    ),
)
