"""Rules that show a use of CUDA to be harmless on an NPU, each with its reason. No list of lines: those would rot."""

import ast
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from rlinf_npu.npufix.cuda import is_cuda_test
from rlinf_npu.npufix.cuda_only import FOLDERS, MANAGERS, MODULES, OURS, PACKAGES, SIMULATORS
from rlinf_npu.npufix.pyfile import FUNCTIONS, PyFile, parse
from rlinf_npu.npufix.tree import Tree


class SafetyRules:
    """Asks the rules in order; knows the tree, because 'cannot be imported' follows imports from file to file."""

    def __init__(self, tree: Tree) -> None:
        """Remember the tree."""
        self._tree = tree
        self._modules: dict[str, str] = {}

    def file_reason(self, file: PyFile) -> str:
        """Why nothing in this file runs on an NPU, "" when that cannot be said."""
        path = PurePosixPath(file.path)
        for folder, reason in FOLDERS.items():
            if file.path.startswith(folder):
                return reason
        if path.name in MODULES:
            return MODULES[path.name]
        if file.path.startswith(MANAGERS) and re.search(r"_\w*pu$", path.stem) and not _ours(path.stem):
            return "manager of another vendor's accelerator; RLinf picks managers by the hardware it detects"
        return self._import_reason(file) or _simulator_reason(file)

    def node_reason(self, file: PyFile, node: ast.expr) -> str:
        """Why this use is harmless and must stay as it is, "" when no rule says so."""
        return (
            _scope_imports_cuda_only(file, node)
            or _is_comparison(file, node)
            or _behind_cuda_test(file, node)
            or _is_type_annotation(file, node)
            or _is_lookup_key(file, node)
            or _is_patched(file, node)
            or _is_megatron_option(file, node)
            or _failure_is_expected(file, node)
        )

    def _import_reason(self, file: PyFile) -> str:
        """Follow module-level imports until one reaches a package that only exists for CUDA."""
        if file.path in self._modules:
            return self._modules[file.path]
        self._modules[file.path] = ""  # ends cycles
        for name in top_level_imports(file):
            package = name.split(".")[0]
            if package in PACKAGES:
                reason = f"imports {package} at module level: {PACKAGES[package]}"
                break
            if imported := self._reason_of(self._rlinf_module(name)):
                reason = f"imports {name}, which cannot be imported on an NPU ({imported})"
                break
        else:
            return ""
        self._modules[file.path] = reason
        return reason

    def _reason_of(self, path: str) -> str:
        """The import reason of another file; "" for no file, and for one that is not valid Python."""
        if path in self._modules or not path:
            return self._modules.get(path, "")
        try:
            return self._import_reason(parse(path, self._tree.text(path)))
        except SyntaxError:
            return ""

    def _rlinf_module(self, name: str) -> str:
        """Path of the file that a dotted name stands for, or is in; "" outside RLinf."""
        if not name.startswith("rlinf."):
            return ""
        parts = name.split(".")
        paths = ("/".join(parts[:length]) + ".py" for length in (len(parts), len(parts) - 1))
        return next(filter(self._tree.exists, paths), "")


def _simulator_reason(file: PyFile) -> str:
    """An environment wrapper exists for its simulator, wherever in the file it imports it."""
    parts = PurePosixPath(file.path).parts
    if parts[:2] != ("rlinf", "envs") or len(parts) < 4:
        return ""
    names = [name for node in file.of(ast.Import, ast.ImportFrom) for name in _imported(node)]
    found = next((name.split(".")[0] for name in names if name.split(".")[0] in PACKAGES), "")
    return f"wrapper of {found}: {PACKAGES[found]}" if found else ""


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []


def top_level_imports(file: PyFile) -> Iterable[str]:
    """Dotted names that must be importable for the module to load (not in try, if or functions)."""
    for node in file.module.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _ours(stem: str) -> bool:
    return any(word in stem for word in OURS)


def _scope_imports_cuda_only(file: PyFile, node: ast.expr) -> str:
    """The class or function around the use imports a CUDA-only package when it runs."""
    owner: ast.AST | None = None
    for up in file.scopes.ancestors(node):
        if isinstance(up, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            owner = up
    for inner in ast.walk(owner) if owner is not None else ():
        for name in _imported(inner):
            package = name.split(".")[0]
            if package in PACKAGES:
                return f"belongs to code that imports {package}: {PACKAGES[package]}"
    return ""


def _is_comparison(file: PyFile, node: ast.expr) -> str:
    parent = file.parent(node)
    if isinstance(parent, ast.Compare) and not isinstance(node, ast.Call):
        return "a comparison: other device types take the other branch"
    return ""


def _behind_cuda_test(file: PyFile, node: ast.expr) -> str:
    """Inside the branch that runs only when a test for CUDA was true (availability is not such a test)."""
    child: ast.AST = node
    for up in file.scopes.ancestors(node):
        if isinstance(up, ast.If) and child in up.body and is_cuda_test(file, up.test):
            return f"runs only when `{file.source(up.test)}`"
        if isinstance(up, ast.IfExp) and child is up.body and is_cuda_test(file, up.test):
            return f"runs only when `{file.source(up.test)}`"
        if isinstance(up, FUNCTIONS):
            return _after_assertion(file, up, child)
        child = up
    return ""


def _after_assertion(file: PyFile, function: ast.AST, statement: ast.AST) -> str:
    for earlier in getattr(function, "body", ()):
        if earlier is statement:
            return ""
        if isinstance(earlier, ast.Assert) and is_cuda_test(file, earlier.test):
            return f"behind `assert {file.source(earlier.test)}`"
    return ""


def _is_type_annotation(file: PyFile, node: ast.expr) -> str:
    child: ast.AST = node
    for up in file.scopes.ancestors(node):
        annotated = isinstance(up, ast.AnnAssign | ast.arg) and child is up.annotation
        if annotated or (isinstance(up, FUNCTIONS) and child is up.returns):
            return "a type annotation: the name exists in every build of torch"
        child = up
    return ""


def _is_lookup_key(file: PyFile, node: ast.expr) -> str:
    parent = file.parent(node)
    if isinstance(parent, ast.Dict) and node in parent.keys:
        return "a key of a table, not a device"
    if isinstance(parent, ast.Subscript) and node is parent.slice:
        return "a key of a table, not a device"
    if isinstance(parent, ast.List | ast.Tuple | ast.Set):
        listing = file.parent(parent)
        if isinstance(listing, ast.arguments | ast.keyword) and "activities" in ast.unparse(listing):
            return "profiler activities: the profiler drops 'cuda' when there is none"
        if isinstance(listing, ast.Compare):
            return "a comparison: other device types take the other branch"
    return ""


def _is_patched(file: PyFile, node: ast.expr) -> str:
    if isinstance(getattr(node, "ctx", None), ast.Store):
        return "the code replaces this function of torch.cuda itself"
    parent = file.parent(node)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "hasattr":
        return "only asks whether torch has it"
    return ""


def _is_megatron_option(file: PyFile, node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and node.value == "nccl":
        text = file.source(file.statement_of(node)).split("\n")
        around = " ".join(line for line in text if "nccl" in line or "megatron" in line)
        if "megatron" in around or "tp_comm_" in around:
            return "an option of Megatron-LM, which needs NVIDIA kernels"
    return ""


def _failure_is_expected(file: PyFile, node: ast.expr) -> str:
    child: ast.AST = node
    for up in file.scopes.ancestors(node):
        if isinstance(up, ast.Try) and child in up.body and any(_swallows(handler) for handler in up.handlers):
            return "in a try whose handler expects that there is no CUDA device"
        child = up
    return ""


def _swallows(handler: ast.ExceptHandler) -> bool:
    kinds = {"RuntimeError", "Exception", "AssertionError"}
    named = handler.type is not None and ast.unparse(handler.type) in kinds
    return named and all(isinstance(statement, ast.Pass) for statement in handler.body)


def leftover_reason(file: PyFile, node: ast.expr) -> str:
    """Reasons for uses that no fix takes: CUDA-only calls behind torch.cuda.is_available()."""
    function = file.function_of(node)
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and file.name(call.func) == "torch.cuda.is_available":
            test = next((up for up in file.scopes.ancestors(call) if isinstance(up, ast.If | ast.IfExp)), None)
            inside = test is not None and any(part is node for part in ast.walk(test))
            if call.func is node or inside:
                return "guarded by torch.cuda.is_available() in a function that needs something only CUDA has"
    return ""


def yaml_reason(path: str, text: str, keys: tuple[object, ...]) -> str:
    """Why a value in a configuration file is harmless, "" when it is not."""
    names = [str(key) for key in keys]
    if "megatron" in names:
        return "an option of Megatron-LM, which needs NVIDIA kernels; on an NPU RLinf trains with FSDP"
    if "activities" in names:
        return "profiler activities: the profiler drops 'cuda' when there is none"
    if names[-1] == "t":
        return "an option of NVIDIA's profiler nsys, read for NVIDIA cards only"
    env_type = re.search(r"^\s*env_type:\s*[\"']?(\w+)", text, re.MULTILINE)
    simulator = env_type.group(1) if env_type else PurePosixPath(path).stem.split("_")[0]
    return f"setting of a simulator that needs CUDA: {SIMULATORS[simulator]}" if simulator in SIMULATORS else ""
