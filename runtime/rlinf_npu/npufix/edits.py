"""Apply edits to a Python source through LibCST, so that formatting and comments stay as they are."""

import ast
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from rlinf_npu.npufix.lines import split_lines
from rlinf_npu.npufix.model import HELPER_MODULE, Edit, NpufixError, Op, Span

EXPRESSION_OPS = {Op.REPLACE, Op.FSTRING_HEAD, Op.ADD_KEYWORD, Op.ADD_DICT_ITEM, Op.METHOD}


def rewrite(path: str, text: str, edits: Sequence[Edit], helpers: frozenset[str]) -> str:
    """Return `text` with every edit done and the helpers imported.

    LibCST sees only the top-level statements that hold edits: it is the slow part.

    Raises:
        NpufixError: an edit found no node at its place, or the result is not valid Python.
    """
    module = ast.parse(text)
    lines = split_lines(text, keepends=True)
    missing = missing_helpers(module, helpers)
    anchor = import_anchor(module) if missing else -1
    for first, last in reversed(_ranges(module)):
        inside = [edit for edit in edits if first <= edit.span.line <= last]
        if inside:
            lines[first - 1 : last] = [_rewrite_part(path, "".join(lines[first - 1 : last]), inside, first)]
        if first <= anchor <= last:
            lines[first - 1 : last] = ["".join(lines[first - 1 : last]), *_helper_import(missing, lines[first - 1])]
    if anchor == 0:
        lines[:0] = _helper_import(missing, lines[0] if lines else "")
    result = "".join(lines)
    try:
        ast.parse(result)
    except SyntaxError as error:
        raise NpufixError(f"{path}: the fixed file would not compile ({error}); nothing was written") from error
    return result


def _ranges(module: ast.Module) -> list[tuple[int, int]]:
    """First and last line of every top-level statement, decorators included; those that share a line are one."""
    ranges: list[tuple[int, int]] = []
    for node in module.body:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        last = node.end_lineno or node.lineno
        if ranges and first <= ranges[-1][1]:
            first = ranges.pop()[0]
        ranges.append((first, last))
    return ranges


def _helper_import(helpers: list[str], line: str) -> list[str]:
    end = line[len(line.rstrip("\r\n")) :] or "\n"
    return [f"from {HELPER_MODULE} import {', '.join(helpers)}{end}"]


def _rewrite_part(path: str, text: str, edits: Sequence[Edit], first: int) -> str:
    """Edit one top-level statement that starts at line `first` of its file."""
    shifted = {_shifted(edit, first - 1): edit for edit in edits}
    transformer = _Transformer(list(shifted))
    result = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True).visit(transformer).code
    left = [shifted[edit] for edit in transformer.left()]
    if left:
        places = ", ".join(f"line {edit.span.line} ({edit.op})" for edit in left)
        raise NpufixError(f"{path}: could not place the edit at {places}; nothing was written")
    return result


def _shifted(edit: Edit, lines: int) -> Edit:
    span = replace(edit.span, line=edit.span.line - lines, end_line=edit.span.end_line - lines)
    return replace(edit, span=span)


def missing_helpers(module: ast.Module, helpers: frozenset[str]) -> list[str]:
    """Helpers that the module does not import yet."""
    have: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(HELPER_MODULE.removeprefix("rlinf.")):
            have.update(alias.name for alias in node.names)
    return sorted(helpers - have)


def import_anchor(module: ast.Module) -> int:
    """Line of the top-level statement behind which the helper import goes; 0: at the top of the file.

    Behind the last import of rlinf in the leading part of the module (a script may have to extend sys.path first),
    else behind the last import, else behind the docstring.
    """
    imports, ours, docstring = 0, 0, 0
    for index, node in enumerate(module.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        if index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstring = node.lineno
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports = node.lineno
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "rlinf"):
                ours = node.lineno
    return ours or imports or docstring


class _Transformer(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, edits: Sequence[Edit]) -> None:
        super().__init__()
        self._expressions: dict[Span, list[Edit]] = defaultdict(list)
        self._statements: dict[Span, list[Edit]] = defaultdict(list)
        for edit in edits:
            table = self._expressions if edit.op in EXPRESSION_OPS else self._statements
            table[edit.span].append(edit)
        self._lines = {edit.span.line for edit in edits}
        self._done: set[Edit] = set()
        self._edits = edits

    def left(self) -> list[Edit]:
        """Edits that found no node."""
        return [edit for edit in self._edits if edit not in self._done]

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Skip statements without edits: visiting every node is what takes the time."""
        if isinstance(node, cst.BaseStatement):
            position = self._position(node)
            return any(position.start.line <= line <= position.end.line for line in self._lines)
        return super().on_visit(node)

    def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def]  # LibCST's own signature is as loose
        """Edit expressions by position, everything else by the leave_ methods."""
        updated: Any = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.BaseExpression) and self._expressions:
            for edit in self._expressions.get(self._span(original_node), ()):
                if edit in self._done or not _fits(edit, updated):
                    continue
                updated = _edit_expression(updated, edit)
                self._done.add(edit)
        return updated

    def leave_IndentedBlock(self, original_node, updated_node):  # type: ignore[no-untyped-def]
        body, comments = self._edit_block(original_node.body, updated_node.body)
        footer = [*_comment_lines(comments), *updated_node.footer]
        return updated_node.with_changes(body=body or [cst.parse_statement("pass")], footer=footer)

    def leave_Module(self, original_node, updated_node):  # type: ignore[no-untyped-def]
        body, comments = self._edit_block(original_node.body, updated_node.body)
        return updated_node.with_changes(body=body, footer=[*_comment_lines(comments), *updated_node.footer])

    def _edit_block(
        self, originals: Sequence[cst.BaseStatement], updated: Sequence[cst.BaseStatement]
    ) -> tuple[list[cst.BaseStatement], list[str]]:
        """Delete and insert statements; comments of deleted ones move in front of what follows (or are returned)."""
        body: list[cst.BaseStatement] = []
        comments: list[str] = []
        for original, node in zip(originals, updated, strict=True):
            kept: cst.BaseStatement | None = node
            for edit in self._statement_edits(original):
                self._done.add(edit)
                if edit.op is Op.DELETE:
                    kept = None
                    comments += [edit.text] if edit.text else []
                else:
                    first, *others = cst.parse_module(edit.text).body
                    body += [_with_leading(first, getattr(node, "leading_lines", ())), *others]
                    kept = _with_leading(node, ())
            if kept is not None:
                body.append(_with_leading(kept, [*_comment_lines(comments), *getattr(kept, "leading_lines", ())]))
                comments = []
        return body, comments

    def _statement_edits(self, node: cst.BaseStatement) -> list[Edit]:
        if not self._statements or not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
            return []
        return self._statements.get(self._span(node.body[0]), [])

    def _position(self, node: cst.CSTNode) -> CodeRange:
        position = self.get_metadata(PositionProvider, node)
        assert isinstance(position, CodeRange)
        return position

    def _span(self, node: cst.CSTNode) -> Span:
        position = self._position(node)
        return Span(position.start.line, position.start.column, position.end.line, position.end.column)


def _comment_lines(comments: Sequence[str]) -> list[cst.EmptyLine]:
    return [cst.EmptyLine(comment=cst.Comment(f"# {text}")) for text in comments]


def _with_leading(node: cst.BaseStatement, lines: Sequence[cst.EmptyLine]) -> cst.BaseStatement:
    return node.with_changes(leading_lines=lines) if hasattr(node, "leading_lines") else node


def _fits(edit: Edit, node: cst.BaseExpression) -> bool:
    """Whether this kind of node can take the edit (several nodes may share one place)."""
    wanted: dict[Op, type[cst.BaseExpression]] = {
        Op.FSTRING_HEAD: cst.FormattedString,
        Op.ADD_KEYWORD: cst.Call,
        Op.METHOD: cst.Call,
        Op.ADD_DICT_ITEM: cst.Dict,
    }
    return isinstance(node, wanted.get(edit.op, cst.BaseExpression))


def _edit_expression(node: cst.BaseExpression, edit: Edit) -> cst.BaseExpression:
    if edit.op is Op.REPLACE:
        return cst.parse_expression(edit.text)
    if isinstance(node, cst.FormattedString):
        return _fstring_head(node, edit.text)
    if isinstance(node, cst.Dict):
        item = cst.DictElement(cst.SimpleString(f'"{edit.name}"'), cst.parse_expression(edit.text))
        opening, closing = node.lbrace.whitespace_after, node.rbrace.whitespace_before
        elements, closing = _appended(node.elements, item, opening, closing)
        return node.with_changes(elements=elements, rbrace=node.rbrace.with_changes(whitespace_before=closing))
    assert isinstance(node, cst.Call)
    if edit.op is Op.METHOD:
        assert isinstance(node.func, cst.Attribute)
        device = cst.Arg(cst.parse_expression(edit.text), comma=cst.MaybeSentinel.DEFAULT)
        return node.with_changes(func=node.func.with_changes(attr=cst.Name("to")), args=[device, *node.args])
    arg = cst.Arg(
        cst.parse_expression(edit.text),
        keyword=cst.Name(edit.name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    args, _ = _appended(node.args, arg, node.whitespace_before_args)
    return node.with_changes(args=args)


def _fstring_head(node: cst.FormattedString, device: str) -> cst.FormattedString:
    head, *rest = node.parts
    assert isinstance(head, cst.FormattedStringText)
    tail = head.value.removeprefix("cuda")
    parts = [cst.FormattedStringExpression(cst.parse_expression(device)), cst.FormattedStringText(tail), *rest]
    return node.with_changes(parts=parts)


def _appended(items: Sequence, item, opening, closing=None):  # type: ignore[no-untyped-def, type-arg]
    """Append an Arg or a DictElement in the style of the list: one item a line, trailing comma, comments stay put.

    `opening` and `closing` are the white space behind the opening and before the closing bracket; calls keep the
    latter with their last argument.
    """
    if not items:
        return [item], closing
    last = items[-1]
    trailing = isinstance(last.comma, cst.Comma)
    own = closing is None
    if own:
        closing = last.comma.whitespace_after if trailing else last.whitespace_after_arg
    before = items[-2].comma.whitespace_after if len(items) > 1 else opening
    multiline = isinstance(closing, cst.ParenthesizedWhitespace) and isinstance(before, cst.ParenthesizedWhitespace)
    between = cst.SimpleWhitespace(" ")
    if multiline:
        between = before.with_changes(first_line=closing.first_line, empty_lines=closing.empty_lines)
        closing = closing.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=())
    moved = last.with_changes(comma=cst.Comma(whitespace_after=between))
    if trailing:
        item = item.with_changes(comma=last.comma.with_changes(whitespace_after=closing) if own else last.comma)
    elif own:
        moved = moved.with_changes(whitespace_after_arg=cst.SimpleWhitespace(""))
        item = item.with_changes(whitespace_after_arg=closing)
    return [*items[:-1], moved, item], closing
