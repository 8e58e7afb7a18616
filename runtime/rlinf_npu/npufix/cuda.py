"""What the detectors have in common: which expressions mention CUDA, and what torch.npu offers in their place."""

import ast
import re
from collections.abc import Iterator

from rlinf_npu.npufix.pyfile import PyFile

# Calls that torch.npu of torch_npu 2.6.0.post3 has under the same name and with the same meaning.
MEMORY_CALLS = frozenset(
    {
        "empty_cache",
        "max_memory_allocated",
        "max_memory_reserved",
        "mem_get_info",
        "memory_allocated",
        "memory_reserved",
        "memory_snapshot",
        "memory_stats",
        "memory_summary",
        "reset_max_memory_allocated",
        "reset_peak_memory_stats",
        "synchronize",
    }
)
DEVICE_CALLS = frozenset(
    {
        "Event",
        "Stream",
        "current_device",
        "current_stream",
        "default_stream",
        "device",
        "device_count",
        "get_device_name",
        "get_device_properties",
        "get_rng_state",
        "get_rng_state_all",
        "init",
        "initial_seed",
        "is_initialized",
        "manual_seed",
        "manual_seed_all",
        "seed",
        "seed_all",
        "set_device",
        "set_rng_state",
        "set_rng_state_all",
        "set_stream",
        "stream",
    }
)
AVAILABILITY = "is_available"
NPU_API = MEMORY_CALLS | DEVICE_CALLS | {AVAILABILITY}

DEVICE_LITERAL = re.compile(r"cuda(:\d+)?")


def cuda_attributes(file: PyFile) -> Iterator[tuple[ast.expr, str, ast.expr | None]]:
    """Every expression `torch.cuda...` as (outermost expression, name after torch.cuda, the `torch.cuda` part).

    The last is None when the name was imported directly (`from torch.cuda import empty_cache`).
    """
    for node in file.of(ast.Attribute, ast.Name):
        if _root(node) not in file.torch_names:
            continue
        parent = file.parent(node)
        if isinstance(parent, ast.Attribute) and file.name(parent):
            continue  # a longer chain is reported instead
        assert isinstance(node, ast.expr)
        if not isinstance(getattr(node, "ctx", None), ast.Load | ast.Store):
            continue
        name = file.name(node)
        if name == "torch.cuda":
            yield node, "", node
        elif name.startswith("torch.cuda."):
            yield node, name.removeprefix("torch.cuda."), _module_part(file, node)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _module_part(file: PyFile, node: ast.expr) -> ast.expr | None:
    part: ast.AST = node
    while isinstance(part, ast.Attribute):
        part = part.value
        if file.name(part) == "torch.cuda":
            assert isinstance(part, ast.expr)
            return part
    return None


def is_availability_call(file: PyFile, node: ast.AST) -> bool:
    """Whether the node is `torch.cuda.is_available()`."""
    return isinstance(node, ast.Call) and file.name(node.func) == "torch.cuda.is_available"


def device_literals(file: PyFile) -> Iterator[ast.expr]:
    """String literals "cuda", "cuda:0" and f-strings that start with "cuda:"."""
    for node in file.of(ast.Constant, ast.JoinedStr):
        if isinstance(node, ast.Constant):
            inside = isinstance(file.parent(node), ast.JoinedStr)
            if isinstance(node.value, str) and DEVICE_LITERAL.fullmatch(node.value) and not inside:
                yield node
        elif isinstance(node, ast.JoinedStr) and node.values:
            head = node.values[0]
            if isinstance(head, ast.Constant) and str(head.value).startswith("cuda:"):
                yield node


def is_cuda_test(file: PyFile, node: ast.AST) -> bool:
    """Whether an expression asks 'is this CUDA?': x.type == "cuda", x == "cuda", x.is_cuda, torch.version.cuda."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        return any(isinstance(side, ast.Constant) and side.value == "cuda" for side in (node.left, node.comparators[0]))
    if isinstance(node, ast.Attribute):
        return node.attr == "is_cuda" or file.name(node) == "torch.version.cuda"
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return any(is_cuda_test(file, value) for value in node.values)
    return False


def needs_cuda(file: PyFile, scope: ast.AST) -> bool:
    """Whether code below `scope` uses something of torch.cuda that an NPU has no counterpart for."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute):
            name = file.name(node)
            if name.startswith("torch.cuda.") and name.split(".")[2] not in NPU_API:
                return True
            if node.attr == "CUDA" and "ProfilerActivity" in file.source(node):
                return True
    return False


def literal_edit_text(file: PyFile, node: ast.expr, device: str) -> str:
    """Replacement of a plain literal: "cuda" -> device, "cuda:0" -> f"{device}:0"."""
    assert isinstance(node, ast.Constant)
    _, _, index = str(node.value).partition(":")
    return f'f"{{{device}}}:{index}"' if index else device
