"""Shared by the fixes that send torch.cuda.<call> to the platform module."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.cuda import AVAILABILITY, cuda_attributes
from rlinf_npu.npufix.model import Site
from rlinf_npu.npufix.pyfile import PyFile


def platform_sites(file: PyFile, fix: str, calls: frozenset[str]) -> Iterator[tuple[ast.expr, Site]]:
    """Node and site of every `torch.cuda.<name>` with the name in `calls`."""
    for node, name, module in cuda_attributes(file):
        if name.split(".")[0] not in calls or _is_annotation(file, node) or isinstance(node.ctx, ast.Store):  # type: ignore[attr-defined]
            continue
        platform, helpers = file.platform(node)
        if name == AVAILABILITY:  # Worker.torch_platform is None on a machine without accelerators
            platform, helpers = "accel()", frozenset({"accel"})
        edit = file.replace(module, platform) if module is not None else file.replace(node, f"{platform}.{name}")
        yield node, file.site(fix, node, [edit], helpers)


def _is_annotation(file: PyFile, node: ast.AST) -> bool:
    child: ast.AST = node
    for up in file.scopes.ancestors(node):
        if isinstance(up, ast.AnnAssign | ast.arg) and child is up.annotation:
            return True
        if isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef) and child is up.returns:
            return True
        child = up
    return False
