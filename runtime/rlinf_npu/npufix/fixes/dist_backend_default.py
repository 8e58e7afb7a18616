"""nccl as the default backend in code."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.model import Expectation, Fix, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "dist-backend-default"
GROUP_CALLS = {"init_process_group", "new_group"}


def find(file: PyFile) -> Iterator[Site]:
    """`.get("backend", "nccl")`, init_process_group("nccl") and parameters backend="nccl"."""
    for node in file.of(ast.Constant):
        assert isinstance(node, ast.Constant)
        if node.value == "nccl" and _is_default(file, node):
            yield file.site(ID, node, [file.replace(node, "ccl_backend()")], frozenset({"ccl_backend"}))


def _is_default(file: PyFile, node: ast.Constant) -> bool:
    parent = file.parent(node)
    if isinstance(parent, ast.keyword):
        call = file.parent(parent)
        return parent.arg == "backend" and isinstance(call, ast.Call) and _starts_group(call)
    if isinstance(parent, ast.Call):
        if _starts_group(parent):
            return bool(parent.args) and parent.args[0] is node
        is_get = isinstance(parent.func, ast.Attribute) and parent.func.attr in {"get", "setdefault"}
        key = parent.args[0] if parent.args else None
        return is_get and isinstance(key, ast.Constant) and key.value == "backend" and node is parent.args[-1]
    if isinstance(parent, ast.arguments):
        names = [arg.arg for arg in (*parent.posonlyargs, *parent.args)]
        named = dict(zip(reversed(names), reversed(parent.defaults), strict=False))
        named.update(
            {arg.arg: value for arg, value in zip(parent.kwonlyargs, parent.kw_defaults, strict=True) if value}
        )
        return named.get("backend") is node
    return False


def _starts_group(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute | ast.Name) and ast.unparse(call.func).split(".")[-1] in GROUP_CALLS


FIX = Fix(
    id=ID,
    title="hccl as the default backend on an NPU (code)",
    symptom="RuntimeError: Distributed package doesn't have NCCL built in",
    why="torch.distributed knows the NPU's collective library as hccl; nccl exists only in CUDA builds.",
    seen="a4b6abe: data/process/distributed.py",
    kind="python",
    signs=(r"doesn't have NCCL built in", r"simulated CUDA\] c10d::ProcessGroupNCCL"),
    hint=r"""["']nccl["']""",
    find_python=find,
    expect=(Expectation(suffix=".py", anchor=r"^def setup_distributed\(", cured=r"hccl|get_ccl_backend|gloo"),),
)
