"""torch.cuda calls that select or describe a device."""

from collections.abc import Iterator

from rlinf_npu.npufix.cuda import DEVICE_CALLS
from rlinf_npu.npufix.fixes.calls import platform_sites
from rlinf_npu.npufix.model import Expectation, Fix, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "cuda-device-call"


def find(file: PyFile) -> Iterator[Site]:
    """current_device, set_device, device_count, streams, events, seeds, random states."""
    return (site for _, site in platform_sites(file, ID, DEVICE_CALLS))


FIX = Fix(
    id=ID,
    title="ask the platform at hand for devices, streams and seeds",
    symptom=(
        "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'; "
        "AssertionError: Torch not compiled with CUDA enabled"
    ),
    why="torch_npu needs a CPU build of torch, where torch.cuda has nothing behind it; torch.npu has the same calls.",
    seen="a4b6abe: reward worker, asynchronous PPO actor, utils/distributed.py, data/io_struct.py, step 3's set-up",
    kind="python",
    signs=(r"Torch not compiled with CUDA enabled", r"_cuda_setDevice"),
    hint=r"cuda",
    find_python=find,
    expect=(
        Expectation(
            suffix=".py",
            anchor=r"^def setup_distributed\(",
            cured=r"torch_platform\.set_device|npu\.set_device",
        ),
    ),
)
