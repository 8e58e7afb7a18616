"""Every library that any file links to is there; only the driver's come with the host."""

import re
from pathlib import PurePath

from tests.images.support.container import Container

DRIVER = re.compile(r"libascend_hal\.so|libdrv\w*\.so|libdcmi\.so|libc_sec\.so|libmmpa\.so")
# In the process before the extension that links to it, because the package's __init__ loads it. (files, libraries)
PRELOADED = [
    # `import torch`; on x86-64 the CUDA runtime's stand-in comes with it
    ("/opt/venv/**", r"lib(torch\w*|c10|c10_\w+|shm|torch_npu)\.so|libcudart\.so\.12"),
    ("*/mujoco/plugin/*", r"libmujoco\.so\.[\d.]+"),
    # sapien loads its own copies first; ManiSkill, of RLinf's own installer, brings it
    ("*/sapien.libs/libsvulkan2.so", r"libOpenImageDenoise\.so\.2"),
    ("*/sapien/oidn_library/*", r"libOpenImageDenoise_core\.so\.[\d.]+"),
]
# May stay incomplete, each with the reason. (files, libraries)
UNUSED = {
    ("*/tc/q_atm.so", r"libatm\.so\.1"): "the distribution's iproute2: traffic shaping on ATM networks",
    ("*/numba/np/ufunc/tbbpool.*", r"libtbb\.so\.12"): "optional thread pool; numba falls back to its own",
    ("*/numba/np/ufunc/omppool.*", r"libgomp\.so\.1\.0\.0"): "optional thread pool; numba falls back to its own",
}


def test_linked_libraries(idle: Container) -> None:
    """vllm-ascend#152, #262, lerobot#3976: a library that is missing shows at run time only."""
    found = idle.probe("linked_libraries", python="python3", seconds=240)
    assert found["files"] > 300
    missing = {library: files for library, files in found["missing"].items() if not DRIVER.fullmatch(library)}
    unexplained = {
        library: left[:5]
        for library, files in missing.items()
        if (left := [f for f in files if not explained(f, library)])
    }
    assert unexplained == {}


def explained(file: str, library: str) -> bool:
    """Whether the library is loaded before this file is, or the file is listed with a reason."""
    known = [*PRELOADED, *UNUSED]
    return any(match(file, files) and re.fullmatch(libraries, library) for files, libraries in known)


def match(file: str, pattern: str) -> bool:
    """A pattern that ends in ** names everything below its folder."""
    return file.startswith(pattern.removesuffix("**")) if pattern.endswith("**") else PurePath(file).match(pattern)
