"""tensorflow, imported because it happens to be installed."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.model import Edit, Expectation, Fix, Op, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "tensorflow-import"
PACKAGE_FILE = "rlinf/__init__.py"


def find(file: PyFile) -> Iterator[Site]:
    """The package's __init__ (where USE_TF=0 must be set) and optional imports of tensorflow."""
    if file.path == PACKAGE_FILE and "disable_tensorflow()" not in file.text:
        first = next((node for node in file.module.body if isinstance(node, ast.Import | ast.ImportFrom)), None)
        target = next((node for node in file.module.body if not _is_docstring(node)), None)
        if first is not None and target is not None:
            text = "from .utils.npu_compat import disable_tensorflow\n\ndisable_tensorflow()"
            yield file.site(ID, target, [Edit(file.span(target), Op.INSERT_BEFORE, text)])
    for node in file.of(ast.Try):
        assert isinstance(node, ast.Try)
        if _imports_tensorflow(node.body[0]) and _catches_import_error(node):
            edit = Edit(file.span(node.body[0]), Op.INSERT_BEFORE, "require_tensorflow()")
            yield file.site(ID, node.body[0], [edit], frozenset({"require_tensorflow"}))


def _is_docstring(node: ast.stmt) -> bool:
    future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return future or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _imports_tensorflow(node: ast.stmt) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return any(name.split(".")[0] == "tensorflow" for name in names)


def _catches_import_error(node: ast.Try) -> bool:
    caught = {"ImportError", "Exception", "ModuleNotFoundError"}
    return any(handler.type is None or ast.unparse(handler.type) in caught for handler in node.handlers)


FIX = Fix(
    id=ID,
    title="leave tensorflow alone on an NPU",
    symptom="segmentation fault at `import transformers` (tensorflow.python.platform.self_check)",
    why="tensorflow can crash in a process that has torch_npu; USE_TF=0 keeps transformers and RLinf from it.",
    seen="seed 7.1; a4b6abe: rlinf/envs/utils.py",
    kind="python",
    signs=(r"tensorflow[/.]python[/.]platform[/.]self_check",),
    hint=r"tensorflow",
    always=(PACKAGE_FILE,),
    find_python=find,
    expect=(Expectation(suffix="rlinf/__init__.py", anchor=r"^from|^import", cured=r"USE_TF", required=True),),
)
