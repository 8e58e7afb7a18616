"""One parsed Python file: syntax tree, names, source positions, what it may use to name the device."""

import ast
from collections import defaultdict
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import Edit, Op, Site, Span
from rlinf_npu.npufix.scopes import Scopes

WORKER = ("rlinf.scheduler", ".Worker")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class PyFile:
    """A Python source file of the tree."""

    def __init__(self, path: str, text: str) -> None:
        """Parse.

        Raises:
            SyntaxError: the file is not valid Python.
        """
        self.path = path
        self.text = text
        self.lines = split_lines(text)
        self.module = ast.parse(text, filename=path)
        self._availability: dict[ast.AST, bool] = {}

    @cached_property
    def scopes(self) -> Scopes:
        """Scope information (built on first use)."""
        parts = PurePosixPath(self.path).with_suffix("").parts
        return Scopes(self.module, ".".join(parts[:-1]))

    @cached_property
    def nodes(self) -> dict[type[ast.AST], list[ast.AST]]:
        """Every node by its type."""
        found: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in self.scopes.nodes:
            found[type(node)].append(node)
        return found

    def of(self, *kinds: type[ast.AST]) -> list[ast.AST]:
        """Nodes of the given kinds in source order."""
        found = [node for kind in kinds for node in self.nodes.get(kind, ())]
        return sorted(found, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))

    @cached_property
    def torch_names(self) -> frozenset[str]:
        """Names that some scope binds to torch or to something from it: a cheap filter before names are resolved."""
        return self.scopes.names_bound_to("torch")

    def calls(self) -> list[ast.Call]:
        """Every call in source order."""
        return [node for node in self.of(ast.Call) if isinstance(node, ast.Call)]

    def span(self, node: ast.AST) -> Span:
        """Source range of a node, columns in characters (ast counts UTF-8 bytes)."""
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword | ast.arg | ast.excepthandler)
        end_line = node.end_lineno or node.lineno
        return Span(
            node.lineno,
            self._column(node.lineno, node.col_offset),
            end_line,
            self._column(end_line, node.end_col_offset or 0),
        )

    def code(self, node: ast.AST) -> str:
        """First source line of a node, stripped, for people."""
        line = getattr(node, "lineno", 1)
        return self.lines[line - 1].strip()

    def source(self, node: ast.AST) -> str:
        """Source text of a node."""
        return ast.get_source_segment(self.text, node) or ""

    def name(self, node: ast.AST) -> str:
        """Dotted name through imports, "" when the expression is not one."""
        return self.scopes.qualified(node)

    def names(self, node: ast.AST) -> frozenset[str]:
        """Dotted names that the expression may be, when imports are tried in turn."""
        return self.scopes.candidates(node)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Enclosing node."""
        return self.scopes.parents.get(node)

    def function_of(self, node: ast.AST) -> ast.AST:
        """Nearest enclosing function, or the module."""
        return next((up for up in self.scopes.ancestors(node) if isinstance(up, FUNCTIONS)), self.module)

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """Statement that holds the node."""
        if isinstance(node, ast.stmt):
            return node
        return next(up for up in self.scopes.ancestors(node) if isinstance(up, ast.stmt))

    def has_worker(self, node: ast.AST) -> bool:
        """Whether RLinf's class `Worker` is an imported name at this place."""
        targets = self.scopes.lookup("Worker", self.scopes.scope_of(node))
        return bool(targets) and all(name.startswith(WORKER[0]) and name.endswith(WORKER[1]) for name in targets)

    @cached_property
    def knows_rlinf(self) -> bool:
        """Whether `import rlinf` certainly works here: part of the package, or a script that imports it itself."""
        if self.path.startswith("rlinf/"):
            return True
        names = [name for node in self.module.body if isinstance(node, ast.ImportFrom) for name in [node.module or ""]]
        return any(name.split(".")[0] == "rlinf" for name in names)

    def platform(self, node: ast.AST) -> tuple[str, frozenset[str]]:
        """Expression for the platform module at this place, and the helper it needs."""
        if self._prefers_worker(node):
            return "Worker.torch_platform", frozenset()
        return "accel()", frozenset({"accel"})

    def device_type(self, node: ast.AST) -> tuple[str, frozenset[str]]:
        """Expression for the device type at this place, and the helper it needs."""
        if self._prefers_worker(node):
            return "Worker.torch_device_type", frozenset()
        return "accel_type()", frozenset({"accel_type"})

    def _prefers_worker(self, node: ast.AST) -> bool:
        """Worker's attributes are set when a worker starts, and are None without accelerators: not the thing for code
        that runs at import, or that asks for availability first."""
        function = self.function_of(node)
        if isinstance(function, ast.Module) or isinstance(self.scopes.scope_of(node), ast.Module | ast.ClassDef):
            return False
        return self.has_worker(node) and not self._asks_availability(function)

    def _asks_availability(self, function: ast.AST) -> bool:
        if function not in self._availability:
            calls = (call for call in ast.walk(function) if isinstance(call, ast.Call))
            self._availability[function] = any(self.name(call.func) == "torch.cuda.is_available" for call in calls)
        return self._availability[function]

    def site(self, fix: str, node: ast.AST, edits: list[Edit], helpers: frozenset[str] = frozenset()) -> Site:
        """A site of a fix at this node."""
        return Site(fix, self.path, getattr(node, "lineno", 1), self.code(node), tuple(edits), (), helpers)

    def replace(self, node: ast.AST, text: str, op: Op = Op.REPLACE) -> Edit:
        """Edit that replaces an expression."""
        return Edit(self.span(node), op, text)

    def _column(self, line: int, byte_column: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return byte_column
        return len(text.encode("utf-8")[:byte_column].decode("utf-8", errors="ignore"))


@lru_cache(maxsize=1024)  # a tree has some six hundred files; most are read again when the result is looked at
def parse(path: str, text: str) -> PyFile:
    """Parse a file, once as long as its text stays the same.

    Raises:
        SyntaxError: the file is not valid Python.
    """
    return PyFile(path, text)
