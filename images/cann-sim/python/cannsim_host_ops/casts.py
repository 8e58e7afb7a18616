"""torch_npu's own cast operators: its C++ calls them (hccl with bool tensors), so the aten replacements do not help."""

import torch

from cannsim_host_ops.memory import host_view, to_device


def npu_dtype_cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`tensor` as another dtype, in memory of its own."""
    return to_device(host_view(tensor).to(dtype), tensor.device)


def npu_dtype_cast_(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Copy `source` into `target`, converting."""
    host_view(target).copy_(host_view(source))
    return target


OPERATORS = {
    "npu_dtype_cast": npu_dtype_cast,
    "_npu_dtype_cast": npu_dtype_cast,
    "npu_dtype_cast_": npu_dtype_cast_,
}
