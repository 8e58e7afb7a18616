"""Fixtures: small RLinf-like trees, on which the fixes are tried."""

from pathlib import Path

import pytest
from mini_tree import SKELETON, Fixer, TreeMaker, write
from rlinf_npu.npufix.model import HELPER_PATH
from rlinf_npu.npufix.plan import Plan
from rlinf_npu.npufix.tree import Tree


@pytest.fixture
def make_tree(tmp_path: Path) -> TreeMaker:
    """A tree with the skeleton and the given files."""

    def make(files: dict[str, str] | None = None, skeleton: bool = True) -> Tree:
        root = tmp_path / "tree"
        write(root, {**(SKELETON if skeleton else {"rlinf/__init__.py": ""}), **(files or {})})
        return Tree(root)

    return make


@pytest.fixture
def fix_text(make_tree: TreeMaker) -> Fixer:
    """Run all fixes over one file and return its new text (the old one when nothing applies)."""

    def fix(text: str, path: str = "rlinf/sample.py") -> str:
        tree = make_tree({path: text}, skeleton=False)
        texts = Plan(tree).new_texts()
        texts.pop(HELPER_PATH, None)
        texts.pop("rlinf/__init__.py", None)
        assert set(texts) <= {path}
        return texts.get(path, text)

    return fix
