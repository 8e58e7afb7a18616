"""A step's process tree: start it, find all of it, end all of it - Ray's daemons included, other people's Ray never."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from rlinf_npu.recap.environment import RUN_MARK

KILL_SECONDS = 5.0
SPY_SECONDS = 10.0


def start(command: list[str], env: dict[str, str], cwd: Path, log: Path) -> "subprocess.Popen[bytes]":
    """Start a command in a session of its own, its output appended to the log."""
    with log.open("ab") as out:
        out.write(f"\n$ {' '.join(command)}\n".encode())
        out.flush()
        return subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C must reach us, not the workers: we decide what they do
        )


def marked_processes(mark: str) -> list[psutil.Process]:
    """Return the run's processes: those with its mark in their environment, wherever they hang, and all below them.

    Below them, because a few of Ray's helpers overwrite their environment with a title.
    """
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(RUN_MARK) == mark:
                for member in (process, *process.children(recursive=True)):
                    found[member.pid] = member
        except (psutil.Error, OSError):
            continue  # gone, or not ours to read
    return list(found.values())


def end_all(mark: str, seconds: float | None = None) -> int:
    """End the run's processes: SIGTERM, then SIGKILL. Return how many there were."""
    found = marked_processes(mark)
    _signal(found, signal.SIGTERM)
    survivors = _wait(found, KILL_SECONDS if seconds is None else seconds) + marked_processes(mark)
    _signal(survivors, signal.SIGKILL)
    _wait(survivors, KILL_SECONDS)
    return len(found)


def _wait(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Return those that are still there after a while. psutil.wait_procs would take our child's exit code away."""
    deadline = time.monotonic() + seconds
    left = [process for process in processes if _alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [process for process in left if _alive(process)]
    return left


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue


def memory_mb(mark: str) -> int:
    """Return the proportional memory (PSS) of the run's processes in MB."""
    total = 0
    for process in marked_processes(mark):
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, OSError):
            continue
    return total >> 20


def dump_stacks(mark: str, target: Path, folder: Path, limit: int = 32) -> None:
    """Append the Python stacks of the run's processes to a file: by py-spy, else by the processes themselves.

    Those that listen for SIGUSR2 have a file <pid>.txt in `folder`; no other process gets that signal.
    """
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    with target.open("ab") as out:
        for process in marked_processes(mark)[:limit]:
            stacks = _from_outside(spy, process.pid) or _from_inside(process, folder / f"{process.pid}.txt")
            if stacks:
                out.write(f"\n=== {process.pid} {_title(process)}\n".encode() + stacks)


def _from_outside(spy: str | None, pid: int) -> bytes:
    if spy is None:
        return b""
    try:
        result = subprocess.run([spy, "dump", "--pid", str(pid)], capture_output=True, timeout=SPY_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return b""
    return result.stdout if result.returncode == 0 else b""


def _from_inside(process: psutil.Process, written: Path) -> bytes:
    if not written.is_file():
        return b""
    _signal([process], signal.SIGUSR2)
    deadline = time.monotonic() + SPY_SECONDS
    while written.stat().st_size == 0 and time.monotonic() < deadline and _alive(process):
        time.sleep(0.05)
    time.sleep(0.05)  # all threads, not only the first
    return written.read_bytes()


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "(gone)"
