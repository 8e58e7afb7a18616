"""The one view through which rules see a machine: files below a root, environment, commands, file systems, network.

Tests build a broken host in a folder and pass that folder as root; no rule knows the difference.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path

CAP_DAC_OVERRIDE = 1  # bit numbers: linux/capability.h
READ, WRITE = 4, 2


@dataclass(frozen=True)
class Completed:
    """A command's outcome. `code` is None when it was not found or ran into its time limit (see `error`)."""

    code: int | None
    out: str = ""
    err: str = ""
    error: str = ""

    def said(self) -> str:
        """Its last line (standard error first), or why there is none."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return self.error or (lines[-1] if lines else "no output")


@dataclass(frozen=True)
class FsUsage:
    """Size and free space of a file system in bytes, and its inodes (0 of 0 when it does not count them)."""

    size: int
    free: int
    inodes: int
    inodes_free: int


@dataclass(frozen=True)
class HttpAnswer:
    """Whether a URL answered, its clock (POSIX seconds, None without a Date header), and the error otherwise."""

    reached: bool
    date: float | None = None
    error: str = ""


@dataclass(frozen=True)
class Identity:
    """Who this process is to the kernel."""

    uid: int
    gids: frozenset[int]
    capabilities: int

    def may(self, status: os.stat_result, want: int = READ | WRITE) -> bool:
        """Whether the permission bits (0-7) in `want` are granted on a file; only capabilities make root special."""
        if self.capabilities >> CAP_DAC_OVERRIDE & 1:
            return True
        if status.st_uid == self.uid:
            granted = status.st_mode >> 6
        elif status.st_gid in self.gids:
            granted = status.st_mode >> 3
        else:
            granted = status.st_mode
        return granted & want == want


def filesystem_usage(path: Path) -> FsUsage:
    """Ask the kernel (statvfs)."""
    answer = os.statvfs(path)
    return FsUsage(
        answer.f_blocks * answer.f_frsize, answer.f_bavail * answer.f_frsize, answer.f_files, answer.f_favail
    )


def proxy_of(scheme: str, env: Mapping[str, str]) -> str:
    """The proxy for a scheme; the lower-case variable wins, as in curl. Empty when there is none."""
    return env.get(f"{scheme}_proxy") or env.get(f"{scheme.upper()}_PROXY") or ""


def http_answer(url: str, seconds: float, env: Mapping[str, str]) -> HttpAnswer:
    """Ask for a URL's headers with the environment's proxies. Any HTTP status counts as reached."""
    proxies = {scheme: proxy for scheme in ("http", "https") if (proxy := proxy_of(scheme, env))}
    context = ssl.create_default_context(cafile=env.get("SSL_CERT_FILE"))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=context)
    )
    request = urllib.request.Request(url, method="HEAD", headers={"User-Agent": "rlinf-npu-doctor"})  # noqa: S310
    try:
        with opener.open(request, timeout=seconds) as answer:
            return HttpAnswer(True, _date(answer.headers.get("Date")))
    except urllib.error.HTTPError as error:  # 403, 404, 405: somebody is there
        return HttpAnswer(True, _date(error.headers.get("Date")))
    except (OSError, ValueError) as error:
        return HttpAnswer(False, error=str(getattr(error, "reason", error)))


def _date(header: str | None) -> float | None:
    try:
        return parsedate_to_datetime(header).timestamp() if header else None
    except ValueError:
        return None


@dataclass
class System:
    """A machine as the rules see it."""

    root: Path = Path("/")
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    usage_of: Callable[[Path], FsUsage] = filesystem_usage
    now: Callable[[], float] = time.time

    def path(self, inside: str | Path) -> Path:
        """Where an absolute path of the machine really is."""
        return self.root / str(inside).lstrip("/")

    def exists(self, inside: str | Path) -> bool:
        """Whether the path exists; a dangling symbolic link does not."""
        return self.path(inside).exists()

    def is_dir(self, inside: str | Path) -> bool:
        """Whether the path is a folder."""
        return self.path(inside).is_dir()

    def stat(self, inside: str | Path) -> os.stat_result | None:
        """The file's status, None when it is not there."""
        try:
            return self.path(inside).stat()
        except OSError:
            return None

    def read(self, inside: str | Path, limit: int = 1 << 20) -> str | None:
        """Text of a file (at most `limit` bytes), None when it is absent or unreadable."""
        try:
            with self.path(inside).open("rb") as stream:
                return stream.read(limit).decode("utf-8", "replace")
        except OSError:
            return None

    def glob(self, pattern: str) -> Iterator[str]:
        """Absolute paths (of the machine) that match, sorted."""
        for found in sorted(self.root.glob(pattern.lstrip("/"))):
            yield "/" + str(found.relative_to(self.root))

    def usage(self, inside: str | Path) -> FsUsage | None:
        """The file system that holds the path, None when the path does not exist."""
        try:
            return self.usage_of(self.path(inside))
        except OSError:
            return None

    def which(self, name: str) -> str | None:
        """A command on this machine's PATH, or an absolute path of it, as a path that can be executed."""
        if "/" in name:
            return shutil.which(str(self.path(name)))
        folders = [str(self.path(folder)) for folder in self.env.get("PATH", os.defpath).split(":") if folder]
        return shutil.which(name, path=":".join(folders))

    def run(self, *command: str, seconds: float = 10, env: Mapping[str, str] | None = None) -> Completed:
        """Run a command of this machine; never raises."""
        program = self.which(command[0])
        if program is None:
            return Completed(None, error=f"{command[0]}: not found on PATH")
        try:
            done = subprocess.run(
                [program, *command[1:]],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=seconds,
                env=dict(self.env if env is None else env),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Completed(None, error=f"{command[0]}: no answer within {seconds:g} s")
        except OSError as error:
            return Completed(None, error=f"{command[0]}: {error}")
        return Completed(
            done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        )

    def http(self, url: str, seconds: float) -> HttpAnswer:
        """Whether a URL answers from here."""
        return http_answer(url, seconds, self.env)

    def identity(self) -> Identity:
        """Effective uid, all groups and effective capabilities of this process, from /proc/self/status."""
        fields = dict(line.split(":", 1) for line in (self.read("/proc/self/status") or "").splitlines() if ":" in line)
        uids, gids = fields.get("Uid", "").split(), fields.get("Gid", "").split()
        groups = {int(gid) for gid in [*gids[1:2], *fields.get("Groups", "").split()]}
        uid = int(uids[1]) if len(uids) > 1 else os.geteuid()
        return Identity(uid, frozenset(groups), int(fields.get("CapEff", "0").strip() or "0", 16))
