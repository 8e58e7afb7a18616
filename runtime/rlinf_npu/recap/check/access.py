"""What cannot be read becomes a finding: which folder bars the way, for whom, and what to do."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlinf_npu.recap.check.finding import Finding, error


def guarded(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Pass findings on; where looking fails, end with a finding that says so."""
    try:
        yield from findings
    except OSError as problem:
        yield unreadable(problem)


def unreadable(problem: OSError) -> Finding:
    """Say what the system refused. The same folder gives the same finding, whatever was looked for below it."""
    path = Path(problem.filename or "?")
    if not isinstance(problem, PermissionError):
        return error(path, problem.strerror or str(problem), "is the disk mounted, and in order?")
    barrier = _barrier(path)
    state = barrier.stat()
    uid, gid = os.geteuid(), os.getegid()
    given = f"chown -R {uid}:{gid}, or RUN_AS={state.st_uid}:{state.st_gid} in .env"
    return error(
        barrier,
        f"uid {uid} may not read it: it belongs to {state.st_uid}:{state.st_gid}, mode {state.st_mode & 0o777:o}",
        f"on the host: {'chmod -R u+rX' if uid == state.st_uid else given}",
    )


def _barrier(path: Path) -> Path:
    """The first folder on the way that may not be entered, else the path itself."""
    folders = reversed(path.parents)
    return next((folder for folder in folders if not os.access(folder, os.X_OK, effective_ids=True)), path)
