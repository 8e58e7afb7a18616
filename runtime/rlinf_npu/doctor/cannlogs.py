"""The newest log files of CANN, each cut to its end.

Where CANN writes them: ASCEND_PROCESS_LOG_PATH, else ASCEND_WORK_PATH/log, else ~/ascend/log; all three are looked at,
because a run and this shell may differ. Below are debug/plog, run/plog, debug/device-<n> and others.
https://www.hiascend.com/document/detail/en/canncommercial/850/maintenref/envvar/envref_07_0007.html
"""

import heapq
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rlinf_npu.doctor.context import Context

NEWEST, TAIL = 8, 256 * 1024  # files, bytes of each
_LOOKED_AT = 100_000  # files: a folder of years must not hold the bundle up


def newest_logs(ctx: Context) -> Iterator[tuple[str, str]]:
    """Path on the machine, and text from the end of the file; a file that cannot be read says so."""
    found = {path.resolve(): at for folder in _folders(ctx) for path, at in _logs(ctx.system.path(folder))}
    for path in heapq.nlargest(NEWEST, found, key=lambda path: found[path]):
        inside = "/" + str(path.relative_to(ctx.system.root.resolve()))
        try:
            yield inside, tail(path)
        except OSError as error:
            yield inside, f"cannot be read: {error}\n"


def _folders(ctx: Context) -> list[str]:
    env = ctx.system.env
    named = [
        env.get("ASCEND_PROCESS_LOG_PATH", ""),
        env.get("ASCEND_WORK_PATH", "") and env["ASCEND_WORK_PATH"] + "/log",
    ]
    return [folder for folder in [*named, env.get("HOME", "/root") + "/ascend/log"] if folder.startswith("/")]


def _logs(folder: Path) -> Iterator[tuple[Path, float]]:
    """Regular files named *.log below a folder with their times; links are not followed, they may lead anywhere."""
    seen = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            seen += 1
            if seen > _LOOKED_AT:
                return
            try:
                status = os.lstat(Path(parent, name))
            except OSError:  # rotated away meanwhile
                continue
            if name.endswith(".log") and stat.S_ISREG(status.st_mode):
                yield Path(parent, name), status.st_mtime


def tail(path: Path) -> str:
    """The last TAIL bytes as text, from the beginning of a line on: half a line may be half a secret."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - TAIL))
        data = stream.read(TAIL)
    if size > TAIL:
        data = f"[the first {size - TAIL} bytes are left out]\n".encode() + data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")
