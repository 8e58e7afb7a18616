"""How many cards does each library count, for each value of ASCEND_RT_VISIBLE_DEVICES given as argument (null: unset)?

The libraries are loaded once; every value is tried in a forked child, whose first call into the runtime sees it.
Prints [{who: count}] in the order of the arguments.
"""

import json
import os
import subprocess
import sys

import ray._private.accelerators.npu as ray_npu
import torch
import torch_npu  # noqa: F401
from rlinf.scheduler.hardware.accelerators.ascend_npu import AscendNPUManager
from rlinf_npu.devices import count

VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"


def ask():
    """Every count there is."""
    return {
        "torch": torch.npu.device_count(),
        "available": torch.npu.is_available(),
        "ray": ray_npu.NPUAcceleratorManager.get_current_node_num_accelerators(),
        "rlinf": AscendNPUManager.get_num_devices(),
        "helper": count().number,
        "npu-count": int(subprocess.run(["npu-count"], capture_output=True, text=True, check=True).stdout),
    }


def in_child(value):
    """`ask` with the variable set to `value`."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.environ.pop(VARIABLE, None)
        if value is not None:
            os.environ[VARIABLE] = value
        try:
            answer = ask()
        except BaseException as error:
            answer = {"error": repr(error)}
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return json.loads(pipe.read() or '{"error": "the child died"}')


print(json.dumps([in_child(json.loads(argument)) for argument in sys.argv[1:]]))
