"""Judge a tree after apply."""

import ast

from rlinf_npu.npufix import plan, report
from rlinf_npu.npufix.model import HELPER_PATH, NpufixError, Report, Status


def problems(found: Report) -> list[str]:
    """One line for everything that is wrong with a tree that should be fixed; empty when it is fine."""
    lines = []
    for result in found.results:
        if result.status is Status.PENDING:
            places = ", ".join(f"{site.path}:{site.line}" for site in result.sites[:3])
            lines.append(f"{result.fix.id}: {len(result.sites)} places still have the fault ({places})")
        if result.status is Status.VANISHED:
            lines += [f"{result.fix.id}: {note}" for note in result.notes]
    for use in report.open_on_paths(found):
        if not use.fix:
            lines.append(f"{use.path}:{use.line}: open use of {use.kind}: {use.code}")
    return [*lines, *_broken_files(found)]


def _broken_files(found: Report) -> list[str]:
    """Files that a run changed and that do not compile, and a helper that is missing or another one."""
    tree = found.tree
    lines = []
    for path in sorted({path for paths in tree.record.values() for path in paths}):
        if not tree.exists(path):
            continue  # the user's own later change; the detectors have judged the tree as it is
        try:
            if path.endswith(".py"):
                ast.parse(tree.text(path), filename=path)
            elif path.endswith(".sh"):
                plan.check_shell(path, tree.text(path))
        except SyntaxError as error:
            lines.append(f"{path}:{error.lineno}: does not compile ({error.msg})")
        except NpufixError as error:
            lines.append(str(error))
    if tree.record and (not tree.exists(HELPER_PATH) or tree.text(HELPER_PATH) != plan.helper_text()):
        lines.append(f"{HELPER_PATH} is missing or was changed; run npufix apply again")
    return lines
