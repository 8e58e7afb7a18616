"""advantage_tag given as a path."""

import ast
from collections.abc import Iterator

from rlinf_npu.npufix.model import Expectation, Fix, Site
from rlinf_npu.npufix.pyfile import PyFile

ID = "advantage-tag"


def find(file: PyFile) -> Iterator[Site]:
    """f"advantages_{tag}.parquet"."""
    for node in file.of(ast.JoinedStr):
        assert isinstance(node, ast.JoinedStr)
        match node.values:
            case [
                ast.Constant("advantages_"),
                ast.FormattedValue(value=tag, format_spec=None),
                ast.Constant(".parquet"),
            ]:
                text = f"advantages_name({ast.unparse(tag)})"
                yield file.site(ID, node, [file.replace(node, text)], frozenset({"advantages_name"}))


FIX = Fix(
    id=ID,
    title="accept a full path as advantage_tag",
    symptom="FileNotFoundError: Advantage file not found: advantages_<whole path>.parquet",
    why="The tag is pasted into a file name; a path to an advantages file is now reduced to that file's name.",
    seen="seed 7.4; a4b6abe: fsdp_cfg_worker.py, compute_advantages.py",
    kind="python",
    signs=(r"advantages_\S*/\S*\.parquet",),
    hint=r"advantages_\{",
    find_python=find,
    expect=(
        Expectation(
            suffix=".py", anchor=r"^\s+def _load_advantages_lookup\(", cured=r"PurePath|is_absolute|os\.path\.base"
        ),
    ),
)
