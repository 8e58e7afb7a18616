"""Start a dockerd and stop that very one again."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagekit.errors import Problem
from imagekit.process import Say, end_group, run

WAIT_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.1
CONFIG = {"features": {"containerd-snapshotter": True}}  # multi-platform builds, OCI export; Docker 29's default
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
# What a daemon needs of our environment: not index URLs or tokens that happen to be set in this shell.
KEPT = ("PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True)
class Daemon:
    """Where a dockerd keeps its things; the defaults are dockerd's own."""

    state: Path = Path("/var/lib/rlinf-npu/engine")
    log: Path = Path("/var/log/rlinf-npu/dockerd.log")
    socket: Path = Path("/var/run/docker.sock")
    pidfile: Path = Path("/var/run/docker.pid")
    data_root: Path = Path("/var/lib/docker")
    system_config: Path = Path("/etc/docker/daemon.json")
    systemd: Path = Path("/run/systemd/system")  # exists when systemd is pid 1 (sd_booted(3))
    options: tuple[str, ...] = ()

    @property
    def record(self) -> Path:
        """What we started: how, pid, start time, boot."""
        return self.state / "started.json"

    @property
    def env(self) -> dict[str, str]:
        """DOCKER_HOST for a socket of its own, nothing for the default one."""
        usual = self.socket == Daemon.socket
        return {} if usual else {"DOCKER_HOST": f"unix://{self.socket}"}

    @property
    def under_systemd(self) -> bool:
        """True when systemd is there to start and stop it."""
        return self.systemd.is_dir() and bool(shutil.which("systemctl"))

    def is_ours(self) -> bool:
        """True when the dockerd that we started is still that same process."""
        started = self._read_record()
        return started is not None and started["process"] == identify(started["process"]["pid"])

    def start(self, answers: Callable[[], bool], say: Say) -> None:
        """Start dockerd and wait until it answers.

        Args:
            answers: asks the engine.
            say: gets a line every few seconds.

        Raises:
            Problem: it ended, or did not answer in time; its last words are shown.
        """
        if self.under_systemd:
            self._start_by_systemd()
            self._wait(answers, None, say)
            self._write_record("systemd", systemd_pid())
            return
        self._clear_stale_pidfile()
        process = self._spawn()
        try:
            self._wait(answers, process, say)
        except BaseException:
            end_group(process, STOP_SECONDS)
            raise
        self._write_record("process", process.pid)

    def stop(self, say: Say) -> None:
        """Stop the dockerd that we started; say so when there is none.

        Raises:
            Problem: it does not end, or this user may not end it.
        """
        if not self.is_ours():
            say("No engine of ours is running; nothing to stop.")
            return
        if os.geteuid() != 0:
            raise Problem("the engine was started by root", "stop it as root (sudo)")
        started = self._read_record() or {}
        pid = started["process"]["pid"]
        if started["how"] == "systemd":
            run(("systemctl", "stop", "docker.socket", "docker.service"), seconds=STOP_SECONDS * 2)
        else:
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        while identify(pid) == started["process"]:
            if time.monotonic() > until:
                raise Problem(f"dockerd (pid {pid}) does not end", "stop its containers first (docker ps)")
            time.sleep(POLL_SECONDS)
        self.record.unlink(missing_ok=True)
        say(f"Docker engine (pid {pid}) stopped.")

    def write_system_config(self) -> None:
        """Choose the image store before systemd starts a fresh engine; a configuration of the user's stays."""
        if not self.system_config.exists():
            self.system_config.parent.mkdir(parents=True, exist_ok=True)
            self.system_config.write_text(json.dumps(CONFIG) + "\n", encoding="utf-8")

    def command(self) -> list[str]:
        """The command line. Only what differs from dockerd's defaults: a flag that daemon.json sets too is an error."""
        usual = Daemon()
        flags = [
            ("--host", f"unix://{self.socket}", self.socket != usual.socket),
            ("--pidfile", str(self.pidfile), self.pidfile != usual.pidfile),
            ("--data-root", str(self.data_root), self.data_root != usual.data_root),
            ("--config-file", str(self.state / "daemon.json"), self._config_is_ours()),
        ]
        return [
            find_dockerd() or "dockerd",
            *(f"{flag}={value}" for flag, value, wanted in flags if wanted),
            *self.options,
        ]

    def _config_is_ours(self) -> bool:
        """Images in the old store would vanish from sight if we switched the store under them."""
        return not self.system_config.exists() and not _has_old_images(self.data_root)

    @staticmethod
    def _start_by_systemd() -> None:
        started = run(("systemctl", "start", "docker.service"), seconds=WAIT_SECONDS)
        if not started.ok:
            raise Problem(f"systemctl start docker: {started.last_line}", "see `journalctl -u docker`")

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self.state.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        (self.state / "daemon.json").write_text(json.dumps(CONFIG) + "\n", encoding="utf-8")
        env = {k: v for k, v in os.environ.items() if k.upper() in KEPT}
        env["PATH"] = search_path()
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command(),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )

    def _wait(self, answers: Callable[[], bool], process: "subprocess.Popen[bytes] | None", say: Say) -> None:
        begun = said = time.monotonic()
        while not answers():
            now = time.monotonic()
            if process and process.poll() is not None:
                raise Problem(f"dockerd ended at once: {self._last_words()}", f"its log is {self.log}")
            if now - begun > WAIT_SECONDS:
                raise Problem(f"dockerd did not answer within {WAIT_SECONDS:.0f} s", f"its log is {self.log}")
            if now - said > 5:
                said = now
                say(f"  waiting for dockerd to answer ({now - begun:.0f} s)")
            time.sleep(POLL_SECONDS)

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        failed = [line for line in lines[-20:] if "failed to start" in line or "level=fatal" in line]
        return (failed or lines or ["no output"])[-1][:300]

    def _clear_stale_pidfile(self) -> None:
        """dockerd refuses to start when *any* process has the pid that a crashed one left in its file."""
        try:
            pid = int(self.pidfile.read_text(encoding="ascii"))
        except (OSError, ValueError):
            self.pidfile.unlink(missing_ok=True)
            return
        found = identify(pid)
        if found and found["name"] == "dockerd":
            raise Problem(
                f"dockerd (pid {pid}) is running but does not answer at {self.socket}",
                "look at its log, or end it and try again",
            )
        self.pidfile.unlink(missing_ok=True)

    def _read_record(self) -> dict[str, Any] | None:
        try:
            record = json.loads(self.record.read_text(encoding="utf-8"))
            return record if isinstance(record["process"]["pid"], int) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write_record(self, how: str, pid: int) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        self.record.write_text(json.dumps({"how": how, "process": identify(pid)}) + "\n", encoding="utf-8")


def search_path() -> str:
    """PATH with the administrator's folders: dockerd itself, and the iptables and containerd that it calls."""
    return f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SBIN}"


def find_dockerd() -> str | None:
    """Where dockerd is, None when it is not installed."""
    return shutil.which("dockerd", path=search_path())


def identify(pid: int, proc: Path = Path("/proc")) -> dict[str, Any] | None:
    """Tell a process from a later one with the same pid: name, start time and boot. None when it has ended."""
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()  # proc(5): state is field 3, starttime field 22
    if fields[0] in "ZX":
        return None
    return {"pid": pid, "name": name, "started": int(fields[19]), "boot": boot}


def systemd_pid() -> int:
    """Pid of docker.service, 0 when it has none."""
    shown = run(("systemctl", "show", "-p", "MainPID", "--value", "docker.service"), seconds=10)
    return int(shown.out.strip()) if shown.out.strip().isdigit() else 0


def _has_old_images(data_root: Path) -> bool:
    try:
        known = json.loads((data_root / "image/overlay2/repositories.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(known.get("Repositories"))
