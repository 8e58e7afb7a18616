"""An RLinf tree: where it is, which files count, reading them once."""

import json
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

from rlinf_npu.npufix.model import HELPER_PATH, UsageError, Use

RECORD_NAME = ".npufix.json"
ROOTS = ("rlinf", "examples")
SUFFIXES = (".py", ".yaml", ".yml", ".sh")
SKIPPED_FOLDERS = {".git", "__pycache__", ".venv", "node_modules"}


class Tree:
    """A folder that holds the package `rlinf` (and `examples`, when it is a checkout)."""

    def __init__(self, root: Path) -> None:
        """Check that `root` is an RLinf tree.

        Raises:
            UsageError: it is not.
        """
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder; give the folder that holds RLinf's package `rlinf`")
        if root.name == "rlinf" and (root / "__init__.py").is_file() and not (root / "rlinf").is_dir():
            root = root.parent
        if not (root / "rlinf" / "__init__.py").is_file():
            raise UsageError(f"{root} has no rlinf/__init__.py; give the folder that holds RLinf's package `rlinf`")
        self.root = root
        self._texts: dict[str, str] = {}

    @cached_property
    def paths(self) -> list[str]:
        """Relative paths of every Python, YAML and shell file under rlinf/ and examples/, sorted."""
        found = []
        for top in ROOTS:
            for folder, folders, names in os.walk(self.root / top):
                folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
                found += [
                    (Path(folder) / name).relative_to(self.root).as_posix() for name in names if name.endswith(SUFFIXES)
                ]
        return sorted(path for path in found if path != HELPER_PATH)

    def text(self, path: str) -> str:
        """Content of a file, line ends kept.

        Raises:
            UsageError: not UTF-8.
        """
        if path not in self._texts:
            raw = (self.root / path).read_bytes()
            try:
                self._texts[path] = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UsageError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
        return self._texts[path]

    def matching(self, pattern: str, *suffixes: str) -> list[str]:
        """Files with one of the suffixes whose text matches the regular expression."""
        regex = re.compile(pattern, re.MULTILINE)
        return [path for path in self.paths if path.endswith(suffixes) and regex.search(self.text(path))]

    def anchored(self, place: str, pattern: str) -> list[str]:
        """Files at a place (a path, or a suffix such as ".py") whose text matches the regular expression."""
        found = self.matching(pattern, place)
        return [path for path in found if path == place] if "/" in place else found

    def exists(self, path: str) -> bool:
        """Whether the tree has this file."""
        return (self.root / path).is_file()

    @cached_property
    def record(self) -> dict[str, dict[str, list[dict[str, object]]]]:
        """What earlier runs changed: {fix id: {path: [{line, code}]}}; empty for an untouched tree.

        Raises:
            UsageError: the record is damaged.
        """
        fixes = self._recorded.get("fixes", {})
        return fixes if isinstance(fixes, dict) else {}

    @cached_property
    def fixed_uses(self) -> list[Use]:
        """Uses of CUDA that earlier runs removed; their lines are those of the tree before.

        Raises:
            UsageError: the record is damaged.
        """
        return [Use(**entry, status="fixed") for entry in self._recorded.get("uses", [])]

    @cached_property
    def _recorded(self) -> dict[str, Any]:
        """The record's content, {} for an untouched tree.

        Raises:
            UsageError: the record is damaged.
        """
        file = self.root / RECORD_NAME
        if not file.is_file():
            return {}
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            content["fixes"].items()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{file} is damaged ({error}); restore the tree, then run npufix apply again") from error
        return content  # type: ignore[no-any-return]  # an object with "fixes", as just tried
