"""pyACL stand-in (simulated CANN): the calls that count and name devices.

The real `acl` module covers all of AscendCL. Programs that only ask how many cards there are (Ray's and RLinf's
device detection) use the functions below; anything else raises AttributeError. Return values follow pyACL: a value and
an error code, or an error code alone; 0 is success.
"""

import ctypes

_runtime = ctypes.CDLL("libascendcl.so")
_runtime.aclrtGetSocName.restype = ctypes.c_char_p
_runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p


def init(config_path: str | None = None) -> int:
    """Initialize the runtime. 100002 when that was done before."""
    return int(_runtime.aclInit(config_path.encode() if config_path else None))


def finalize() -> int:
    """End the use of the runtime."""
    return int(_runtime.aclFinalize())


def get_soc_name() -> str:
    """Name of the (simulated) chip, such as Ascend910B3."""
    return str(_runtime.aclrtGetSocName().decode())


def get_recent_err_msg() -> str:
    """Text of this thread's last error; empty when there was none."""
    text = _runtime.aclGetRecentErrMsg()
    return text.decode() if text else ""


class rt:  # the name is pyACL's
    """Run-time functions: pyACL groups them under `acl.rt`."""

    @staticmethod
    def get_device_count() -> tuple[int, int]:
        """Cards this process may use, after ASCEND_RT_VISIBLE_DEVICES, and the error code."""
        count = ctypes.c_uint32()
        code = _runtime.aclrtGetDeviceCount(ctypes.byref(count))
        return count.value, code

    @staticmethod
    def set_device(device_id: int) -> int:
        """Make a card current in this thread."""
        return int(_runtime.aclrtSetDevice(device_id))

    @staticmethod
    def get_device() -> tuple[int, int]:
        """The current card and the error code."""
        device = ctypes.c_int32()
        code = _runtime.aclrtGetDevice(ctypes.byref(device))
        return device.value, code

    @staticmethod
    def reset_device(device_id: int) -> int:
        """Release a card."""
        return int(_runtime.aclrtResetDevice(device_id))

    @staticmethod
    def get_soc_name() -> str:
        """Name of the (simulated) chip."""
        return get_soc_name()

    @staticmethod
    def get_mem_info(attribute: int) -> tuple[int, int, int]:
        """Free bytes, total bytes and the error code of the current card."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        code = _runtime.aclrtGetMemInfo(attribute, ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value, code
