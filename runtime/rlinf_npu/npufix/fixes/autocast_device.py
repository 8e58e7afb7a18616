"""torch.autocast for CUDA only."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.cuda import is_cuda_test
from rlinf_npu.npufix.model import Edit, Expectation, Fix, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "autocast-device"
AUTOCAST = {"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast", "torch.amp.GradScaler"}


def find(file: PyFile) -> Iterator[Site]:
    """autocast("cuda") and autocast(device_type="cuda"), with a test for CUDA that switches it off elsewhere."""
    for node in file.calls():
        if file.name(node.func) not in AUTOCAST:
            continue
        literal = _device_argument(node)
        if literal is not None and isinstance(literal, ast.Constant) and literal.value == "cuda":
            device, helpers = file.device_type(node)
            edits = [file.replace(literal, device), *_gate_edits(file, node)]
            yield file.site(ID, node, edits, helpers)
        elif literal is not None and not isinstance(literal, ast.Constant):
            edits = _gate_edits(file, node)
            if edits:
                yield file.site(ID, node, edits)


def _device_argument(node: ast.Call) -> ast.expr | None:
    named = [keyword.value for keyword in node.keywords if keyword.arg in {"device_type", "device"}]
    found = [*node.args, *named]
    return found[0] if found else None


def _gate_edits(file: PyFile, node: ast.Call) -> list[Edit]:
    """Edits of the test that decides whether this autocast is used: 'is it CUDA' becomes 'is it not the CPU'."""
    tests: list[ast.expr] = []
    choice = file.parent(node)
    if isinstance(choice, ast.IfExp) and choice.body is node:
        tests.append(choice.test)
    for keyword in node.keywords:
        if keyword.arg == "enabled":
            tests.append(_definition(file, keyword.value) or keyword.value)
    return [edit for test in tests if is_cuda_test(file, test) for edit in _not_cpu(file, test)]


def _definition(file: PyFile, node: ast.expr) -> ast.expr | None:
    """The value of a name that is assigned exactly once in this function, and only used for this."""
    if not isinstance(node, ast.Name):
        return None
    function = file.function_of(node)
    assigned = [
        statement.value
        for statement in ast.walk(function)
        if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == [node.id]
    ]
    uses = [name for name in ast.walk(function) if isinstance(name, ast.Name) and name.id == node.id]
    return assigned[0] if len(assigned) == 1 and len(uses) == 2 else None


def _not_cpu(file: PyFile, test: ast.expr) -> list[Edit]:
    if isinstance(test, ast.Compare):
        return [file.replace(test, f'{file.source(test.left)} != "cpu"')]
    if isinstance(test, ast.Attribute) and test.attr == "is_cuda":
        return [file.replace(test, f'{file.source(test.value)}.device.type != "cpu"')]
    return []


FIX = Fix(
    id=ID,
    title="mixed precision for the device type at hand",
    symptom="UserWarning: User provided device_type of 'cuda', but CUDA is not available. Disabling",
    why='On an NPU autocast for "cuda" only warns and turns mixed precision off.',
    seen="a4b6abe: fsdp_model_manager.py, starvla action heads, abot_m0, opensora environment; evo1 in newer trees",
    kind="python",
    signs=(r"device_type of 'cuda', but CUDA is not available",),
    hint=r"autocast|GradScaler",
    find_python=find,
    expect=(
        Expectation(
            suffix=".py",
            anchor=r"def _create_amp_context\(",
            cured=r"autocast\(\s*(device_type=)?\s*(Worker|self)\.torch_device_type",
            required=True,
        ),
    ),
)
