"""tensor.cuda() and module.cuda()."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.model import Edit, Fix, Op, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "tensor-cuda-method"


def find(file: PyFile) -> Iterator[Site]:
    """Calls `<value>.cuda(...)` without a positional device index."""
    for node in file.calls():
        if not is_cuda_method(file, node) or node.args:
            continue
        if any(keyword.arg == "device" or keyword.arg is None for keyword in node.keywords):
            continue
        device, helpers = file.device_type(node)
        yield file.site(ID, node, [Edit(file.span(node), Op.METHOD, device)], helpers)


def is_cuda_method(file: PyFile, node: ast.AST) -> bool:
    """Whether the node is a method call .cuda(...) on a value (not on an imported module)."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cuda"):
        return False
    return not file.name(node.func)


FIX = Fix(
    id=ID,
    title="move tensors to the device type at hand",
    symptom="AssertionError: Torch not compiled with CUDA enabled",
    why=".cuda() names the device in the call; .to(device type) is the same on a GPU and right on an NPU.",
    seen="a4b6abe: data/io_struct.py, utils/distributed.py, envs/action_utils.py",
    kind="python",
    signs=(r"Torch not compiled with CUDA enabled",),
    hint=r"\.cuda\(",
    find_python=find,
)
