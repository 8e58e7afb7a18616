"""`recap node`: a run over several machines. Each starts its part of one Ray; machine 0 then runs the steps on it.

Steps 2 and 4 use the cards of all machines. Steps 1 and 3 run on machine 0: they take minutes.
All machines see the same data and the same run folder, on a file system that they share.
"""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType

from rlinf_npu.recap import process
from rlinf_npu.recap.config import Config
from rlinf_npu.recap.environment import RUN_MARK, ray_dir, run_mark, step_environment
from rlinf_npu.recap.errors import RecapError, Stopped, UsageError
from rlinf_npu.recap.layout import Run
from rlinf_npu.recap.source import find_source

PROBE_SECONDS = 2.0
TELL_SECONDS = 60.0
MISSES = 5  # probes in a row without an answer that mean the head is gone; one alone means a busy machine


@dataclass(frozen=True)
class Node:
    """This machine's part. `wait`: seconds for the others to come.

    Raises:
        UsageError: a rank beyond the number of machines.
    """

    config: Config
    rank: int
    master: str
    port: int
    wait: float

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.config.nodes < 2:
            raise UsageError("nodes is 1: set nodes in recap.yaml (NNODES in .env), or use `recap run`")
        if self.rank >= self.config.nodes:
            raise UsageError(
                f"NODE_RANK {self.rank}: with {self.config.nodes} nodes ranks are 0-{self.config.nodes - 1}"
            )
        if not self.master:
            raise UsageError("MASTER_ADDR is not set: the address of machine 0 on the network between the machines")

    @cached_property
    def address(self) -> str:
        """Where Ray's head listens: ip:port, as Ray takes no names.

        Raises:
            UsageError: nobody knows that name.
        """
        try:
            return f"{socket.gethostbyname(self.master)}:{self.port}"
        except OSError as error:
            raise UsageError(f"MASTER_ADDR {self.master}: {error.strerror}; give machine 0's address") from error

    @property
    def ip(self) -> str:
        """Address of machine 0."""
        return self.address.partition(":")[0]

    @property
    def mark(self) -> str:
        """Mark of this Ray's processes; another one than the run's, whose processes end with every step."""
        return f"{run_mark(self._run)}-node{self.rank}"

    @property
    def _run(self) -> Run:
        return Run(self.config.run_dir)

    @contextlib.contextmanager
    def lead(self) -> Iterator[Config]:
        """Start Ray's head, wait for the other machines; give the configuration for a run on all of them.

        Raises:
            RecapError: Ray does not start, or machines are missing.
        """
        process.end_all(self.mark)
        try:
            self._ray("--head", f"--node-ip-address={self.ip}", f"--port={self.port}")
            self._await_nodes()
            yield self.config.model_copy(update={"ray_address": self.address})
        finally:
            process.end_all(self.mark)

    def serve(self) -> None:
        """Join machine 0's Ray and stay as long as it does.

        Raises:
            RecapError: machine 0 does not answer.
            Stopped: a signal came.
        """
        previous = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGINT)}
        process.end_all(self.mark)
        try:
            self._await_head()
            self._ray(f"--address={self.address}")
            say(f"node {self.rank}: joined {self.address}; serves until machine 0 ends")
            missed = 0
            while process.marked_processes(self.mark) and missed < MISSES:
                time.sleep(PROBE_SECONDS)
                missed = 0 if self._head_answers() else missed + 1
        finally:
            process.end_all(self.mark)
            for number, handler in previous.items():
                signal.signal(number, handler)
        say(f"node {self.rank}: machine 0 has ended; its log says how")

    def _environment(self) -> dict[str, str]:
        folder = ray_dir(self._run)
        env = step_environment(self.config, self._run, find_source(self.config.rlinf_home))
        env.pop("RAY_ADDRESS", None)
        env["RAY_TMPDIR"] = str(folder.with_name(f"{folder.name}-node{self.rank}"))
        return env | {RUN_MARK: self.mark, "RLINF_NODE_RANK": str(self.rank)}

    def _ray(self, *arguments: str) -> None:
        env = self._environment()
        Path(env["RAY_TMPDIR"]).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats", *arguments]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise RecapError(f"node {self.rank}: Ray did not start: {said[-1] if said else 'without a word'}")

    def _await_nodes(self) -> None:
        """In a process of its own: ours must not be a driver of Ray."""
        say(f"node 0: waiting for {self.config.nodes} nodes at {self.address}")
        arguments = [self.address, str(self.config.nodes), str(self.wait)]
        command = [sys.executable, "-m", "rlinf_npu.recap.drivers.await_nodes", *arguments]
        if subprocess.run(command, env=self._environment(), check=False).returncode:
            fix = "look at `docker compose logs node` there, at MASTER_ADDR, and at the firewall"
            raise RecapError(f"not all of {self.config.nodes} nodes came within {self.wait:.0f} s: {fix}")

    def _await_head(self) -> None:
        deadline, told = time.monotonic() + self.wait, 0.0
        while not self._head_answers():
            if time.monotonic() > deadline:
                raise RecapError(f"{self.address} does not answer: is machine 0 up, MASTER_ADDR right, the port open?")
            if time.monotonic() - told >= TELL_SECONDS:
                told = time.monotonic()
                say(f"node {self.rank}: waiting for machine 0 at {self.address}")
            time.sleep(PROBE_SECONDS)

    def _head_answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.ip, self.port), PROBE_SECONDS):
            return True
        return False


def say(text: str) -> None:
    """Print one line with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(f"stopped by {signal.Signals(number).name}; the run goes on when all nodes are up again")
