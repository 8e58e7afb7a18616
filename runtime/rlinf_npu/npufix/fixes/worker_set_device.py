"""Second device set-up in a worker whose FSDPModelManager has already set the device."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.model import Edit, Expectation, Fix, Op, Site
from rlinf_npu.npufix.pyfile import FUNCTIONS, PyFile

ID = "worker-set-device"
MANAGER = "FSDPModelManager"


def find(file: PyFile) -> Iterator[Site]:
    """`torch.cuda.set_device(..)` and `self.device = torch.cuda.current_device()` behind the manager's __init__."""
    for function in file.of(*FUNCTIONS):
        assert isinstance(function, FUNCTIONS)
        line = _manager_init_line(file, function)
        if function.name != "__init__" or not line:
            continue
        for statement in function.body:
            if statement.lineno > line and _is_set_up(file, statement):
                comment = "" if _sets_attribute(statement) else f"npufix: {MANAGER}.__init__ has set the device."
                yield file.site(ID, statement, [Edit(file.span(statement), Op.DELETE, comment)])


def _manager_init_line(file: PyFile, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Line of the call that runs FSDPModelManager.__init__, 0 when there is none."""
    owner = file.parent(function)
    if not isinstance(owner, ast.ClassDef):
        return 0
    by_super = any(ast.unparse(base).split(".")[-1] == MANAGER for base in owner.bases[:1])
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
            target = ast.unparse(node.func.value)
            if target.split(".")[-1] == MANAGER or (by_super and target == "super()"):
                return node.lineno
    return 0


def _is_set_up(file: PyFile, node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    if not isinstance(value, ast.Call):
        return False
    if isinstance(node, ast.Expr):
        return file.name(value.func) == "torch.cuda.set_device"
    return _sets_attribute(node) and file.name(value.func) == "torch.cuda.current_device"


def _sets_attribute(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["self.device"]


FIX = Fix(
    id=ID,
    title="workers must not set the device a second time through torch.cuda",
    symptom="AttributeError: module 'torch._C' has no attribute '_cuda_setDevice' (or: Found no NVIDIA driver)",
    why=(
        "FSDPModelManager.__init__ has already called Worker.torch_platform.set_device and set self.device; "
        "the lines are superfluous on a GPU and fail on an NPU, after which the driver hangs."
    ),
    seen="a4b6abe and 0.3.0: the value, CFG and base SFT workers",
    kind="python",
    signs=(r"_cuda_setDevice", r"Found no NVIDIA driver", r"Cannot initialize CUDA without ATen_cuda"),
    hint=r"torch\.cuda\.(set_device|current_device)",
    find_python=find,
    expect=(
        Expectation(
            suffix=".py",
            anchor=r"^class FSDPModelManager\b",
            cured=r"torch_platform\.set_device",
            required=True,
        ),
    ),
)
