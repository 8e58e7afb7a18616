"""Import every module of a tree that the four steps reach; print what failed as JSON. Run as a program."""

import ast
import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path

STEPS = ("compute_returns.py", "train_value.py", "compute_advantages.py", "train_cfg.py")
WORKERS = ("fsdp_value_sft_worker.py", "fsdp_cfg_worker.py", "sft_runner.py", "modeling_critic.py")


def imported(path: Path, package: str) -> set[str]:
    """Dotted names of rlinf that a file imports, at module level or later."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1]]) if node.level else ""
            full = ".".join(part for part in (base, node.module) if part)
            names.update([full, *(f"{full}.{alias.name}" for alias in node.names)])
    return {name for name in names if name.split(".")[0] == "rlinf"}


def module_file(root: Path, name: str) -> Path | None:
    base = root / name.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def reached(root: Path) -> list[str]:
    """Modules that the entry scripts (or, without examples, the workers) need."""
    scripts = [path for path in (root / "examples").rglob("*.py") if path.name in STEPS and "steam" not in path.parts]
    workers = [path for path in (root / "rlinf").rglob("*.py") if path.name in WORKERS]
    todo = [name for script in scripts for name in imported(script, "")]
    todo += [".".join(path.relative_to(root).with_suffix("").parts) for path in workers]
    todo += [f"rlinf.data.{part}" for part in ("process", "datasets") if (root / "rlinf/data" / part).is_dir()]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        path = module_file(root, name)
        if name not in seen and path is not None:
            seen.add(name)
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            todo += imported(path, package)
    return sorted(seen)


def alias_lerobot() -> None:
    """PyPI's lerobot has no `lerobot.common`, which RLinf imports; the images carry an alias, here it is made."""
    lerobot = importlib.import_module("lerobot")
    if importlib.util.find_spec("lerobot.common") is None:
        common = types.ModuleType("lerobot.common")
        common.__path__ = list(lerobot.__path__)
        sys.modules["lerobot.common"] = common


def main() -> None:
    root = Path(sys.argv[1])
    sys.path.insert(0, str(root))
    alias_lerobot()
    failed = {}
    names = reached(root)
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:  # whatever stops an import is the result
            failed[name] = f"{type(error).__name__}: {error}"
    origin = Path(sys.modules["rlinf"].__file__ or "").parent.parent
    npu = getattr(sys.modules.get("torch"), "npu", None)
    cards = npu.device_count() if npu is not None else 0
    print("RESULT " + json.dumps({"modules": names, "failed": failed, "origin": str(origin), "npus": cards}))


if __name__ == "__main__":
    main()
