"""Make `lerobot.common.datasets.*` mean `lerobot.datasets.*`.

RLinf imports the old package name (it pins a git commit of LeRobot from before the move); LeRobot on PyPI has data
format v2.1 only under the new name (0.3.x). The alias hands out the *same module objects*, so classes, caches and
monkey patches are shared, which a copied package would not give. Where a real `lerobot.common` exists this module does
nothing.

Install it for every process, RLinf's Ray workers included, by a line in a `.pth` file of the environment:

    import rlinf_npu.recap.lerobot_alias as _a; _a.install()

Keep this module free of heavy imports: that line runs at every start of Python.
"""

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

OLD = "lerobot.common"
NEW = "lerobot"


class _AliasLoader:
    """Returns the module of the new name; its own `__spec__` stays untouched."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # importlib has just put the alias' spec on the shared module: relative imports in it would warn.
        module.__spec__ = self.spec


class _EmptyPackageLoader:
    """The package `lerobot.common` itself: nothing but a place for the aliases below it."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = f"Alias of {NEW}, made by {__name__}."


class LerobotAlias:
    """Meta path finder for the old name. First in line: the path finder would load a second copy of a submodule."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for `lerobot.common` and what lies below it, None for all other names."""
        if name == OLD:
            if importlib.machinery.PathFinder.find_spec(name, path) is not None:
                return None  # an older LeRobot: it has the package itself
            return importlib.machinery.ModuleSpec(name, _EmptyPackageLoader(), is_package=True)  # type: ignore[arg-type]
        if not name.startswith(OLD + ".") or not _made_here(sys.modules.get(OLD)):
            return None
        new = NEW + name[len(OLD) :]
        if importlib.util.find_spec(new) is None:
            return None
        return importlib.machinery.ModuleSpec(name, _AliasLoader(new))  # type: ignore[arg-type]


def _made_here(package: ModuleType | None) -> bool:
    spec = getattr(package, "__spec__", None)
    return isinstance(getattr(spec, "loader", None), _EmptyPackageLoader)


def install() -> None:
    """Put the alias in front of the import system, once."""
    if not any(isinstance(finder, LerobotAlias) for finder in sys.meta_path):
        sys.meta_path.insert(0, LerobotAlias())  # type: ignore[arg-type]
