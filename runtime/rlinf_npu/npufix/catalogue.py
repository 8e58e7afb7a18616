"""All fixes, in the order in which they are asked."""

from rlinf_npu.npufix.fixes import (
    advantage_tag,
    advantage_tag_config,
    autocast_device,
    cuda_availability,
    cuda_device_call,
    cuda_device_literal,
    cuda_memory_call,
    dist_backend_config,
    dist_backend_default,
    lerobot_video_backend,
    pin_memory_device,
    script_device_count,
    script_exit_code,
    tensor_cuda_method,
    tensorflow_import,
    video_backend_config,
    worker_set_device,
)
from rlinf_npu.npufix.model import Fix, UsageError

FIXES: tuple[Fix, ...] = (
    worker_set_device.FIX,  # before cuda-device-call: deleting beats rewriting
    cuda_availability.FIX,
    cuda_device_call.FIX,
    cuda_memory_call.FIX,
    autocast_device.FIX,  # before cuda-device-literal: it also mends the test around the call
    cuda_device_literal.FIX,
    tensor_cuda_method.FIX,
    dist_backend_default.FIX,
    dist_backend_config.FIX,
    lerobot_video_backend.FIX,
    video_backend_config.FIX,
    pin_memory_device.FIX,
    tensorflow_import.FIX,
    script_device_count.FIX,
    script_exit_code.FIX,
    advantage_tag.FIX,
    advantage_tag_config.FIX,
)


def fix_by_id(fix_id: str) -> Fix:
    """Look a fix up.

    Raises:
        UsageError: no such fix.
    """
    for fix in FIXES:
        if fix.id == fix_id:
            return fix
    raise UsageError(f"no fix {fix_id!r}; `npufix list` shows {', '.join(fix.id for fix in FIXES)}")
