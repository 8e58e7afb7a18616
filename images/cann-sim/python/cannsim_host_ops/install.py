"""Register the replacements with torch's dispatcher."""

import inspect
import warnings

import torch

from cannsim_host_ops.selection import replacements

_library: torch.library.Library | None = None  # registrations live as long as this object


def install() -> int:
    """Replace torch_npu's aten kernels in this process; returns how many. A second call changes nothing."""
    global _library  # noqa: PLW0603
    if _library is not None:
        return 0
    library = torch.library.Library("aten", "IMPL")
    table = {(name, key): kernel for name, key, kernel in replacements()}
    # torch 2.6 overrides a C++ kernel with a warning for each; later releases want to be asked for it.
    allowed = "allow_override" in inspect.signature(library.impl).parameters
    options = {"allow_override": True} if allowed else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (name, key), kernel in table.items():
            library.impl(name.removeprefix("aten::"), kernel, key, **options)
    _library = library
    return len(table)
