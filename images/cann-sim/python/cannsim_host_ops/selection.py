"""Which operators are replaced, and by what."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from cannsim_host_ops.attention import scaled_dot_product_attention
from cannsim_host_ops.kernels import Kernel, host_kernel

DEVICE, DEVICE_AUTOGRAD = "PrivateUse1", "AutogradPrivateUse1"

# Allocation, views, copies and bookkeeping: torch_npu does these on memory and metadata alone, so its own code runs.
KEPT = frozenset({
    "_foreach_copy__", "_has_compatible_shallow_copy_type", "_lazy_clone",
    "_local_scalar_dense_", "_pin_memory", "_reshape_alias", "_resize_output_", "alias", "as_strided", "detach",
    "empty", "empty_like", "empty_strided", "is_pinned", "is_set_to", "new_empty_strided",
    "record_stream", "resize_", "resize_as_", "set_", "unfold", "view", "view_as_complex", "view_as_real",
})  # fmt: skip

# A kernel under one of these runs on CPU tensors.
_CPU_KEYS = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")

Replacement = tuple[str, str, Kernel]  # operator with overload, dispatch key, kernel


def replacements() -> Iterator[Replacement]:
    """All replacements for the operators that torch_npu has registered in this process.

    Three kinds. A device kernel becomes the CPU's. A composite operator that torch_npu replaced by one kernel (matmul,
    softmax) becomes composite again. A derivative it replaced (gather, dropout) becomes core's: the device's calls
    kernels that do not exist here. Later ones win.
    """
    yield from _device_kernels()
    yield from _composites_and_derivatives()


def _aten_operators() -> Iterator[tuple[str, str, Any]]:
    """Full name, base name and OpOverload of every aten operator."""
    for full in torch._C._dispatch_get_all_op_names():
        if not full.startswith("aten::"):
            continue
        base, _, overload = full.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, base, None)
        operator = getattr(packet, overload or "default", None)
        if operator is not None:
            yield full, base, operator


def _has(full: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(full, key))


def _is_view(operator: Any) -> bool:
    """Its result shares memory with an argument. A copy in its place would silently lose in-place writes."""
    return any(result.alias_info and not result.alias_info.is_write for result in operator._schema.returns)


def _cpu_can(full: str) -> bool:
    """Some operators exist for accelerators only (fused LSTM cells). Theirs stay, and report that they are missing."""
    return any(_has(full, key) for key in _CPU_KEYS)


def _device_kernels() -> Iterator[Replacement]:
    for full, base, operator in _aten_operators():
        if base not in KEPT and _has(full, DEVICE) and not _is_view(operator) and _cpu_can(full):
            yield full, DEVICE, host_kernel(operator)


def _composites_and_derivatives() -> Iterator[Replacement]:
    keys = torch._C.DispatchKey
    for full, base, operator in _aten_operators():
        on_device, differentiated = _has(full, DEVICE), _has(full, DEVICE_AUTOGRAD)
        if not (on_device or differentiated):
            continue
        if base == "scaled_dot_product_attention":
            yield full, DEVICE, scaled_dot_product_attention
            yield full, DEVICE_AUTOGRAD, scaled_dot_product_attention
        elif _has(full, "CompositeImplicitAutograd") and not _has(full, "CPU"):
            composite = _through(operator, keys.CompositeImplicitAutograd)
            yield full, DEVICE, composite
            yield full, DEVICE_AUTOGRAD, composite
        elif differentiated and _has(full, "Autograd"):
            # Core's general derivative, never AutogradCPU's entry: that one gives gradients of None.
            yield full, DEVICE_AUTOGRAD, _through(operator, keys.Autograd)


def _through(operator: Any, key: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return operator._op_dk(key, *args, **kwargs)

    return kernel
