"""The support bundle: what somebody else needs to help, without secrets."""

import io
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rlinf_npu.doctor.cannlogs import newest_logs
from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import Report
from rlinf_npu.doctor.redact import Redactor
from rlinf_npu.doctor.tables import limits

FILES = (
    "/etc/os-release", "/etc/ascend_install.info", "/etc/hccn.conf", "/proc/meminfo", "/proc/self/status",
    "/proc/self/limits", "/proc/self/mountinfo", "/proc/self/cgroup", "/proc/1/comm", "/proc/version", "/proc/loadavg",
    "/proc/net/tcp", "/proc/net/dev", "/usr/share/rlinf-npu/facts.json", "/usr/share/rlinf-npu/npufix.json",
)  # fmt: skip
_LARGEST = 1 << 20  # of a file; cut at a line's end, since half a secret would not be recognised
COMMANDS = (
    ("npu-smi", "info"), ("npu-smi", "info", "-l"), ("docker", "version"), ("docker", "buildx", "version"),
    ("docker", "compose", "version"), ("df", "-h"), ("df", "-i"), ("ip", "-brief", "address"), ("ls", "-ln", "/dev"),
)  # fmt: skip


def collect(ctx: Context, report: Report, target: Path) -> Path:
    """Write a tar.gz with everything redacted; beside it first, then renamed, readable by its owner only.

    Raises:
        OSError: the target cannot be written.
    """
    redactor = Redactor(ctx.system.env)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as bundle:
            for inside, text in _contents(ctx, report, redactor):
                _add(bundle, f"doctor-bundle/{redactor.text(inside)}", redactor.text(text))
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def _add(bundle: tarfile.TarFile, name: str, text: str) -> None:
    body = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(body), int(time.time()), 0o644
    bundle.addfile(entry, io.BytesIO(body))


def _contents(ctx: Context, report: Report, redactor: Redactor) -> Iterator[tuple[str, str]]:
    yield "report.json", json.dumps(report.as_dict(), indent=2)
    yield "environment.txt", redactor.environment(ctx.system.env)
    yield "python-packages.txt", "\n".join(f"{name}=={version}" for name, version in sorted(ctx.distributions.items()))
    for path in [*FILES, *_version_files(ctx)]:
        text = ctx.system.read(path, _LARGEST + 1)
        if text is not None:
            yield "files" + path, text if len(text) <= _LARGEST else text[:_LARGEST].rpartition("\n")[0] + "\n[cut]\n"
    for command in COMMANDS:
        answer = ctx.system.run(*command, seconds=limits().command_seconds)
        if answer.code is not None:
            yield f"commands/{'_'.join(command).replace('/', '-')}.txt", f"exit {answer.code}\n{answer.out}{answer.err}"
    for path, text in newest_logs(ctx):
        yield "logs" + path, text


def _version_files(ctx: Context) -> list[str]:
    paths = [f"{ctx.facts.devices.driver}/version.info"]
    if ctx.toolkit:
        paths += ctx.system.glob(f"{ctx.toolkit}/*/ascend_toolkit_install.info")
    return paths
