"""torch.cuda memory and synchronisation calls."""

from collections.abc import Iterator

from rlinf_npu.npufix.cuda import MEMORY_CALLS
from rlinf_npu.npufix.fixes.calls import platform_sites
from rlinf_npu.npufix.model import Expectation, Fix, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "cuda-memory-call"


def find(file: PyFile) -> Iterator[Site]:
    """synchronize, empty_cache, memory_allocated and their kin."""
    return (site for _, site in platform_sites(file, ID, MEMORY_CALLS))


FIX = Fix(
    id=ID,
    title="synchronise and manage memory on the platform at hand",
    symptom="AssertionError: Torch not compiled with CUDA enabled; or NPU memory that is never returned",
    why=(
        "torch.cuda.empty_cache does nothing and torch.cuda.synchronize fails without CUDA; "
        "Worker.torch_platform (or torch.npu) has the same calls."
    ),
    seen="a4b6abe: the SAC, DAgger and PPO actors, dexbotic, world-model environments, step 3's clean-up",
    kind="python",
    signs=(r"Torch not compiled with CUDA enabled",),
    hint=r"cuda",
    find_python=find,
    expect=(
        Expectation(
            suffix=".py",
            anchor=r"^def _release_\w*memory\w*\(",
            cured=r"torch_platform\.(synchronize|empty_cache)|npu\.(synchronize|empty_cache)",
        ),
    ),
)
