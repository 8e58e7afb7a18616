"""Look at a tree once: what is to be done, what every fix's status is, which uses of CUDA there are."""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from importlib import resources

from rlinf_npu.npufix import safe, uses, yamlfile
from rlinf_npu.npufix.catalogue import FIXES
from rlinf_npu.npufix.edits import rewrite
from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import (
    HELPER_MODULE,
    HELPER_PATH,
    Edit,
    Fix,
    FixResult,
    NpufixError,
    Op,
    Site,
    Span,
    Status,
    Use,
)
from rlinf_npu.npufix.parallel import in_processes
from rlinf_npu.npufix.pyfile import PyFile, parse
from rlinf_npu.npufix.tree import SUFFIXES, Tree

Progress = Callable[[str, int, int], None]


def silent(_path: str, _done: int, _total: int) -> None:
    """No progress."""


class Plan:
    """What is to be done to a tree, and every use of CUDA in it, found in one pass."""

    def __init__(self, tree: Tree, progress: Progress = silent, only: Collection[str] | None = None) -> None:
        """Run all detectors (on some files only, when `only` is given)."""
        self.tree = tree
        self.sites: dict[str, list[Site]] = defaultdict(list)
        self.uses: list[Use] = []
        self._rules = safe.SafetyRules(tree)
        hints = [uses.HINT, *(fix.hint for fix in FIXES)]
        always = {path for fix in FIXES for path in fix.always if tree.exists(path)}
        paths = sorted({*tree.matching("|".join(hints), *SUFFIXES), *always})
        for index, path in enumerate(paths):
            if only is not None and path not in only:
                continue
            progress(path, index, len(paths))
            self._look_at(path, tree.text(path))

    def _look_at(self, path: str, text: str) -> None:
        if path.endswith(".py"):
            try:
                self._look_at_python(parse(path, text))
            except SyntaxError as error:
                raise NpufixError(f"{path}:{error.lineno}: not valid Python ({error.msg}); nothing was done") from error
        elif path.endswith(".sh"):
            self._look_at_shell(path, text)
        else:
            self._look_at_yaml(path, text)

    def _look_at_python(self, file: PyFile) -> None:
        untouchable = self._rules.file_reason(file)
        found = list(uses.python_uses(file))
        reasons = {use.span: untouchable or self._rules.node_reason(file, node) for use, node in found}
        claims: list[tuple[Edit, str]] = []
        for fix in () if untouchable else FIXES:
            if fix.find_python is None or not fix.concerns(file.path, file.text):
                continue
            for site in fix.find_python(file):
                if self._may_claim(file, site, claims, reasons):
                    claims += [(edit, fix.id) for edit in site.edits]
                    self.sites[fix.id].append(site)
        for use, node in found:
            fix_id = next((name for edit, name in claims if _cures(edit, use.span)), "")
            reason = "" if fix_id else reasons[use.span] or safe.leftover_reason(file, node)
            self.uses.append(_judged(use, fix_id, reason))

    @staticmethod
    def _may_claim(file: PyFile, site: Site, claims: list[tuple[Edit, str]], reasons: dict[Span | None, str]) -> bool:
        """No: an earlier fix has the place, a rule says that a use must stay, or the helper cannot be imported."""
        if site.helpers and not file.knows_rlinf:
            return False
        if any(_conflict(edit, other) for edit in site.edits for other, _ in claims):
            return False
        must_stay = any(reason and _cures(edit, span) for edit in site.edits for span, reason in reasons.items())
        return site.fix == "autocast-device" or not must_stay  # that fix mends comparisons on purpose

    def _look_at_shell(self, path: str, text: str) -> None:
        lines = self._text_sites("shell", path, text)
        for use in uses.shell_uses(path, text):
            self.uses.append(_judged(use, lines.get(use.line, ""), ""))

    def _look_at_yaml(self, path: str, text: str) -> None:
        lines = self._text_sites("yaml", path, text)
        for use, keys in uses.yaml_uses(path, text):
            self.uses.append(_judged(use, lines.get(use.line, ""), safe.yaml_reason(path, text, keys)))

    def _text_sites(self, kind: str, path: str, text: str) -> dict[int, str]:
        lines: dict[int, str] = {}
        for fix in FIXES:
            if fix.kind != kind or fix.find_text is None or not fix.concerns(path, text):
                continue
            for site in fix.find_text(path, text):
                self.sites[fix.id].append(site)
                lines.update({line.number: fix.id for line in site.lines})
        return lines

    def results(self) -> list[FixResult]:
        """Status of every fix before anything is applied: pending, already, not needed or vanished."""
        return [self._result(fix) for fix in FIXES]

    def _result(self, fix: Fix) -> FixResult:
        sites = self.sites.get(fix.id, [])
        recorded = self.tree.record.get(fix.id, {})
        touched = {site.path for site in sites} | set(recorded)
        missing, cured = self._expectations(fix, touched)
        if missing:
            return FixResult(fix, Status.VANISHED, sites, missing)
        if sites:
            return FixResult(fix, Status.PENDING, sites)
        if recorded:
            return FixResult(fix, Status.ALREADY, [], [f"{sum(map(len, recorded.values()))} places, done before"])
        return FixResult(fix, Status.NOT_NEEDED, [], cured or ["no such code in this tree"])

    def _expectations(self, fix: Fix, touched: set[str]) -> tuple[list[str], list[str]]:
        missing, cured = [], []
        for expected in fix.expect:
            anchored = self.tree.anchored(expected.suffix, expected.anchor)
            if not anchored and expected.required:
                missing.append(
                    f"no *{expected.suffix} has `{expected.anchor}` any more; the fix does not know this tree"
                )
            for path in anchored:
                if path in touched:
                    continue
                if re.search(expected.cured, self.tree.text(path), re.MULTILINE):
                    cured.append(f"{path}: upstream has its own cure")
                else:
                    missing.append(f"{path} has `{expected.anchor}`, but neither the fault nor a cure that is known")
        return missing, cured

    def new_texts(self) -> dict[str, str]:
        """Content of every file that apply would change or add, checked to compile.

        Raises:
            NpufixError: an edit cannot be placed, or a result is not valid.
        """
        by_path: dict[str, list[Site]] = defaultdict(list)
        for sites in self.sites.values():
            for site in sites:
                by_path[site.path].append(site)
        work = [(path, self.tree.text(path), sites) for path, sites in sorted(by_path.items())]
        texts = dict(in_processes(_new_text, work))
        if any(HELPER_MODULE.removeprefix("rlinf.") in text for text in texts.values()):
            texts[HELPER_PATH] = helper_text()
        return texts

    def record_text(self) -> str:
        """The record of this and earlier runs as JSON."""
        fixes: dict[str, dict[str, list[dict[str, object]]]] = {
            fix_id: dict(paths) for fix_id, paths in self.tree.record.items()
        }
        for fix_id, sites in self.sites.items():
            for site in sites:
                entries = fixes.setdefault(fix_id, {}).setdefault(site.path, [])
                entries.append({"line": site.line, "code": site.code})
        uses = [
            {"path": use.path, "line": use.line, "kind": use.kind, "code": use.code, "fix": use.fix}
            for use in [*self.tree.fixed_uses, *(use for use in self.uses if use.fix)]
        ]
        return json.dumps({"tool": "npufix", "fixes": fixes, "uses": uses}, indent=1, sort_keys=True) + "\n"


def _new_text(work: tuple[str, str, Sequence[Site]]) -> tuple[str, str]:
    """Path and new content of one file, from its path, its content and what is to be done."""
    path, before, sites = work
    if path.endswith(".py"):
        edits = list(dict.fromkeys(edit for site in sites for edit in site.edits))
        return path, rewrite(path, before, edits, frozenset().union(*(site.helpers for site in sites)))
    lines = [line for site in sites for line in site.lines]
    after = _with_lines(before, {line.number: (line.text, line.after) for line in lines})
    if path.endswith(".sh"):
        check_shell(path, after)
    else:
        yamlfile.check(path, before, after, lines)
    return path, after


def _cures(edit: Edit, use: Span | None) -> bool:
    """Whether the edit is what removes this use (and not just something around it)."""
    if use is None or edit.op not in {Op.REPLACE, Op.DELETE, Op.METHOD, Op.FSTRING_HEAD}:
        return False
    if edit.span == use:
        return True
    if edit.op in {Op.METHOD, Op.FSTRING_HEAD}:
        return False
    starts_together = (edit.span.line, edit.span.column) == (use.line, use.column)
    return edit.span.covers(use) or (starts_together and use.covers(edit.span))


def _conflict(left: Edit, right: Edit) -> bool:
    """Whether two edits cannot both be done: one replaces or deletes what the other changes."""
    whole = {Op.REPLACE, Op.DELETE}
    if left.span == right.span:
        return left.op == right.op or (left.op in whole and right.op in whole)
    return (left.op in whole and left.span.covers(right.span)) or (right.op in whole and right.span.covers(left.span))


def _judged(use: Use, fix_id: str, reason: str) -> Use:
    if fix_id:
        return replace(use, fix=fix_id, reason=f"`npufix apply` cures it ({fix_id})")
    return replace(use, status="safe", reason=reason) if reason else use


def _with_lines(text: str, changes: dict[int, tuple[str, tuple[str, ...]]]) -> str:
    out = []
    for number, line in enumerate(split_lines(text, keepends=True), start=1):
        if number not in changes:
            out.append(line)
            continue
        end = line[len(line.rstrip("\r\n")) :]
        new, after = changes[number]
        out.append(new + (end or ("\n" if after else "")))
        out += [extra + (end or "\n") for extra in after]
    return "".join(out)


def check_shell(path: str, text: str) -> None:
    """Let bash parse a script.

    Raises:
        NpufixError: bash refuses it.
    """
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    if done.returncode:
        raise NpufixError(f"{path}: the fixed script would not parse ({done.stderr.strip()}); nothing was written")


def helper_text() -> str:
    """Source of the helper module that is added to a tree."""
    return resources.files("rlinf_npu.npufix.inject").joinpath("npu_compat.py").read_text(encoding="utf-8")
