"""Scan, apply, diff: a plan, and for apply one atomic write of its result."""

import difflib

from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import FixResult, Report, Status
from rlinf_npu.npufix.plan import Plan, Progress, silent
from rlinf_npu.npufix.tree import RECORD_NAME, Tree
from rlinf_npu.npufix.write import write_all


def scan(tree: Tree, progress: Progress = silent) -> Report:
    """Look, change nothing."""
    plan = Plan(tree, progress)
    return Report(tree, plan.results(), [*tree.fixed_uses, *plan.uses])


def apply(tree: Tree, progress: Progress = silent) -> Report:
    """Do every pending fix; the tree is changed completely or not at all.

    Raises:
        NpufixError: a fix's expected site has vanished, an edit cannot be placed, a file cannot be written.
    """
    plan = Plan(tree, progress)
    results = plan.results()
    vanished = [result for result in results if result.status is Status.VANISHED]
    if vanished:
        return Report(tree, results, plan.uses)
    texts = plan.new_texts()
    if texts:
        write_all(tree.root, {**texts, RECORD_NAME: plan.record_text()})
    results = [replace_status(result) for result in results]
    after = Plan(Tree(tree.root), only=texts)
    unchanged = [use for use in plan.uses if use.path not in texts]
    return Report(after.tree, results, [*after.tree.fixed_uses, *unchanged, *after.uses], texts)


def replace_status(result: FixResult) -> FixResult:
    """Pending becomes applied."""
    status = Status.APPLIED if result.status is Status.PENDING else result.status
    return FixResult(result.fix, status, result.sites, result.notes)


def diff(tree: Tree, progress: Progress = silent) -> str:
    """Unified diff of what apply would do."""
    plan = Plan(tree, progress)
    parts: list[str] = []
    for path, text in plan.new_texts().items():
        before = split_lines(tree.text(path), keepends=True) if tree.exists(path) else []
        parts += difflib.unified_diff(before, split_lines(text, keepends=True), f"a/{path}", f"b/{path}")
    return "".join(parts)
