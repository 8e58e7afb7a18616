"""Simulated NPU operators: every aten kernel of torch_npu computed by the CPU, on the same memory.

The stand-in's device memory is host memory. An NPU tensor can therefore be seen as a CPU tensor without a copy, and
torch's own CPU kernels can do the arithmetic. What torch_npu itself does (devices, allocator, streams, hccl, dispatch
of views and copies) still runs for real.

Loaded into every process by the `torch.backends` entry point `autoload`. Environment:

    CANNSIM_HOST_OPS=0   leave torch_npu's operators alone; each then reports that it is not implemented
    CANNSIM_QUIET=1      no banner

This package is not part of CANN or torch_npu, and its results say nothing about the numerics of real kernels.
"""

from cannsim_host_ops.hook import arm as autoload

__all__ = ["autoload"]
