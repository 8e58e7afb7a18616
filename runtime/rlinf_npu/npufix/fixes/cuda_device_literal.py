"""The string "cuda" where a device is wanted."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.cuda import device_literals, is_availability_call, literal_edit_text, needs_cuda
from rlinf_npu.npufix.model import Edit, Fix, Op, Site
from rlinf_npu.npufix.pyfile import FUNCTIONS, PyFile

ID = "cuda-device-literal"
KEYWORDS = {"device", "map_location", "init_device", "pin_memory_device"}
CALLEES = {"torch.device", "torch.set_default_device", "torch.Generator"}


def find(file: PyFile) -> Iterator[Site]:
    """Literals in a place that takes a device; comparisons, keys and unknown calls are not touched."""
    for node in device_literals(file):
        if not _is_device(file, node) or _gate_stays(file, node):
            continue
        device, helpers = file.device_type(node)
        if isinstance(node, ast.JoinedStr):
            edit = Edit(file.span(node), Op.FSTRING_HEAD, device)
        else:
            edit = file.replace(node, literal_edit_text(file, node, device))
        yield file.site(ID, node, [edit], helpers)


def _is_device(file: PyFile, node: ast.expr) -> bool:
    parent = file.parent(node)
    match parent:
        case ast.IfExp() if node is not parent.test:
            return _is_availability_choice(file, parent) or _is_device(file, parent)
        case ast.BoolOp():
            return _is_device(file, parent)
        case ast.keyword():
            found = parent.arg in KEYWORDS
        case ast.Call():
            found = node in parent.args and _call_takes_device(file, parent, node)
        case ast.arguments():
            found = _is_device_parameter(parent, node)
        case ast.Assign(targets=targets):
            found = all("device" in ast.unparse(target).lower() for target in targets)
        case ast.AnnAssign(target=target):
            found = "device" in ast.unparse(target).lower()
        case ast.Return():
            function = file.function_of(node)
            found = isinstance(function, FUNCTIONS) and "device" in function.name
        case _:
            found = False
    return found


def _call_takes_device(file: PyFile, call: ast.Call, node: ast.expr) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        return True
    if isinstance(call.func, ast.Name):
        if call.func.id == "getattr":
            return len(call.args) == 3 and call.args[2] is node and "device" in ast.unparse(call.args[1])
        if call.func.id in {"partial", "put_tensor_device", "move_to_device"}:
            return True
    return file.name(call.func) in CALLEES and call.args[0] is node


def _is_device_parameter(arguments: ast.arguments, node: ast.expr) -> bool:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True))
    pairs += [
        (arg, default) for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default
    ]
    return any(default is node and "device" in arg.arg for arg, default in pairs)


def _is_availability_choice(file: PyFile, node: ast.AST) -> bool:
    return isinstance(node, ast.IfExp) and is_availability_call(file, node.test)


def _gate_stays(file: PyFile, node: ast.expr) -> bool:
    """Whether the literal is chosen by an availability test that cuda-availability leaves alone."""
    chosen = any(_is_availability_choice(file, up) for up in file.scopes.ancestors(node))
    return chosen and needs_cuda(file, file.function_of(node))


FIX = Fix(
    id=ID,
    title='name the device type at hand, not "cuda"',
    symptom="AssertionError: Torch not compiled with CUDA enabled; tensors on two devices",
    why='A literal "cuda" in a place that takes a device is wrong on an NPU whatever was detected before.',
    seen="a4b6abe: value models' defaults, asynchronous PPO actor, utils/distributed.py, wan_video_vae.py",
    kind="python",
    signs=(r"Torch not compiled with CUDA enabled",),
    hint=r"""["']cuda""",
    find_python=find,
)
