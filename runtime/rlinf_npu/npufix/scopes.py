"""Which import a name means at a place: Python's scope rules over the standard `ast`.

A name counts as imported only when every binding of it in the scope that Python would look in is an import of the same
thing (or `= None`, the usual fall-back after a failed import). Anything else is a shadowed name and is left alone.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator

SCOPES = (
    ast.Module,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
# Statements and patterns that bind the name in their attribute `name`.
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
OTHER = "?"  # bound by something that is not an import


class Scopes:
    """Bindings of every scope of a module."""

    def __init__(self, module: ast.Module, package: str) -> None:
        """Collect bindings; `package` is the dotted package of the file, for relative imports."""
        self.package = package
        self.parents: dict[ast.AST, ast.AST] = {}
        self._bindings: dict[ast.AST, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._globals: dict[ast.AST, set[str]] = defaultdict(set)
        self.module = module
        self.nodes: list[ast.AST] = [module]
        for node in self.nodes:  # grows while it is walked: outermost first
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                self.nodes.append(child)
        for node in self.nodes:
            self._collect(node)

    def scope_of(self, node: ast.AST) -> ast.AST:
        """The scope in which `node` is evaluated (defaults and decorators belong to the scope outside)."""
        child, parent = node, self.parents.get(node)
        while parent is not None:
            if isinstance(parent, SCOPES) and not _outside(parent, child):
                return parent
            child, parent = parent, self.parents.get(parent)
        return self.module

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parents from the nearest outward."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def qualified(self, node: ast.AST) -> str:
        """Dotted name of what an expression refers to through imports, "" when that is not one certain thing."""
        names = self.candidates(node)
        return next(iter(names)) if len(names) == 1 else ""

    def candidates(self, node: ast.AST) -> frozenset[str]:
        """Dotted names of what an expression may refer to: several when imports are tried in turn."""
        if isinstance(node, ast.Attribute):
            return frozenset(f"{base}.{node.attr}" for base in self.candidates(node.value))
        if isinstance(node, ast.Name):
            return self.lookup(node.id, self.scope_of(node))
        return frozenset()

    def lookup(self, name: str, scope: ast.AST) -> frozenset[str]:
        """What a name may refer to in a scope; empty when anything but an import binds it."""
        first = True
        current = scope
        while True:
            if name in self._globals.get(current, ()):
                current = self.module
            visible = first or not isinstance(current, ast.ClassDef)
            if visible and name in self._bindings.get(current, {}):
                targets = self._bindings[current][name]
                return frozenset() if OTHER in targets else frozenset(targets)
            if isinstance(current, ast.Module):
                return frozenset()
            first = False
            current = self.scope_of(current)

    def names_bound_to(self, package: str) -> frozenset[str]:
        """Names that any scope binds to an import of the package or of something in it."""
        return frozenset(
            name
            for bindings in self._bindings.values()
            for name, targets in bindings.items()
            if any(target == package or target.startswith(f"{package}.") for target in targets)
        )

    def _bind(self, node: ast.AST, name: str, target: str) -> None:
        self._bindings[self.scope_of(node)][name].add(target)

    def _collect(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = alias.name if alias.asname else alias.name.split(".")[0]
                self._bind(node, alias.asname or target, target)
        elif isinstance(node, ast.ImportFrom):
            base = self._absolute(node)
            for alias in node.names:
                self._bind(node, alias.asname or alias.name, f"{base}.{alias.name}")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            if not self._is_none_fallback(node):
                self._bind(node, node.id, OTHER)
        elif isinstance(node, ast.arg):
            scope = next(parent for parent in self.ancestors(node) if isinstance(parent, SCOPES))
            self._bindings[scope][node.arg].add(OTHER)
        elif isinstance(node, ast.Global):
            self._globals[self.scope_of(node)].update(node.names)
        elif isinstance(node, NAMED) and node.name:
            self._bind(node, node.name, OTHER)

    def _is_none_fallback(self, node: ast.Name) -> bool:
        parent = self.parents.get(node)
        return isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Constant) and parent.value.value is None

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        kept = parts[: len(parts) - (node.level - 1)]
        return ".".join([*kept, *([node.module] if node.module else [])])


def _outside(scope: ast.AST, child: ast.AST) -> bool:
    """Whether `child` of a scope node is evaluated outside of it: default values, decorators, bases, annotations."""
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return child not in scope.body  # arguments (their names are bound explicitly), decorators, return annotation
    if isinstance(scope, ast.ClassDef):
        return child not in scope.body
    if isinstance(scope, ast.Lambda):
        return child is scope.args
    return False
