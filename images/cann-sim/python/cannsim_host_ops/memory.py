"""The same bytes seen from both sides."""

import ctypes
from typing import Any

import torch

DEVICE_TYPE = "npu"


def on_device(value: Any) -> bool:
    """Is it a tensor on a (simulated) NPU?"""
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_TYPE


def host_view(tensor: torch.Tensor) -> torch.Tensor:
    """CPU tensor over the memory of an NPU tensor: same shape, strides, offset and dtype, no copy.

    The result does not own the memory: the caller keeps `tensor` alive while it uses the view.
    """
    storage = tensor.untyped_storage()
    size = storage.nbytes()
    if size == 0:  # no address to look at; torch refuses buffers of length zero
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    buffer = (ctypes.c_char * size).from_address(storage.data_ptr())
    raw = torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=tensor.dtype).set_(raw, tensor.storage_offset(), tensor.size(), tensor.stride())


def to_host(value: Any) -> Any:
    """An argument as the CPU kernel must see it: tensors as views, the device as cpu, a device generator as default."""
    if on_device(value):
        return host_view(value)
    if isinstance(value, torch.device) and value.type == DEVICE_TYPE:
        return torch.device("cpu")
    if isinstance(value, torch.Generator) and value.device.type == DEVICE_TYPE:
        return None
    return value


def to_device(result: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a CPU kernel's result into new device memory, with the same strides."""
    if any(stride == 0 and size > 1 for size, stride in zip(result.size(), result.stride(), strict=True)):
        # An expanded result: several elements share one address. A kernel's result may not, in-place writes follow.
        result = result.contiguous()
    copied = torch.empty_strided(result.size(), result.stride(), dtype=result.dtype, device=device)
    host_view(copied).copy_(result)
    return copied
