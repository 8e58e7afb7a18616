"""Register the replacements with torch's dispatcher."""

import inspect
import warnings

import torch

from cannsim_host_ops.casts import OPERATORS
from cannsim_host_ops.kernels import Kernel
from cannsim_host_ops.selection import DEVICE, replacements

_libraries: list[torch.library.Library] = []  # registrations live as long as these objects


def install() -> int:
    """Replace torch_npu's kernels in this process; returns how many. A second call changes nothing."""
    if _libraries:
        return 0
    aten = {(name.removeprefix("aten::"), key): kernel for name, key, kernel in replacements()}
    own = {
        (name, DEVICE): kernel
        for name, kernel in OPERATORS.items()
        if torch._C._dispatch_has_kernel_for_dispatch_key(f"npu::{name}", DEVICE)  # not every release has all
    }
    _register("aten", aten)
    _register("npu", own)
    return len(aten) + len(own)


def _register(namespace: str, table: dict[tuple[str, str], Kernel]) -> None:
    library = torch.library.Library(namespace, "IMPL")
    _libraries.append(library)
    # torch 2.6 overrides a C++ kernel with a warning for each; later releases want to be asked for it.
    allowed = "allow_override" in inspect.signature(library.impl).parameters
    options = {"allow_override": True} if allowed else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (name, key), kernel in table.items():
            library.impl(name, kernel, key, **options)
