"""A container under test: started detached, asked with a time limit, always removed."""

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import testinfra
from docker import DockerClient
from docker.errors import APIError, NotFound
from docker.models.containers import Container as DockerContainer
from testinfra.host import Host

from imagekit.engine import Engine
from imagekit.process import Finished, run
from tests.images.support.patience import patience, processor

PROBES = Path(__file__).resolve().parent.parent / "probes"
# Every container of this test run carries it: what a crash leaves behind is found and removed.
SESSION = {"rlinf-npu-images.test": uuid.uuid4().hex}
EXEC_SECONDS = 60.0


@dataclass(frozen=True)
class Container:
    """One container. Use it in a `with` statement, or as a fixture that closes it."""

    engine: Engine
    docker: DockerContainer = field(repr=False)

    @classmethod
    def start(cls, engine: Engine, client: DockerClient, image: str, command: list[str], **options: Any) -> "Container":
        """Start `command` in `image`, detached.

        Args:
            engine: of the client.
            client: the SDK.
            image: id or reference.
            command: through the image's entrypoint, unless `entrypoint` is given.
            options: of docker-py's `containers.run`: environment, devices, mounts, volumes, user, entrypoint, ...
                Without `network_mode` there is no network: what an image needs at run time must be in it.
        """
        options = {"network_mode": "none", "labels": SESSION, "detach": True} | options
        options["environment"] = processor() | options.get("environment", {})
        return cls(engine, client.containers.run(image, command, **options))  # type: ignore[call-overload]

    def __enter__(self) -> "Container":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def id(self) -> str:
        """The container's id."""
        return str(self.docker.id)

    @property
    def host(self) -> Host:
        """testinfra's view: files, users, processes, packages."""
        return testinfra.get_host(f"docker://{self.id}")

    def exec(
        self, command: list[str], *, seconds: float = EXEC_SECONDS, user: str = "", stdin: str | None = None, **how: Any
    ) -> Finished:
        """Run `command` the way Kubernetes and `docker exec` do: no entrypoint, no shell.

        The time limit is kept inside as well: a killed client alone would leave the command running.

        Args:
            command: argv.
            seconds: time limit on a machine that is not busy; exit code 124 when it is over.
            user: name or uid, the image's if empty.
            stdin: text for the command.
            how: `env` (added variables) and `workdir`.
        """
        limit = seconds * patience()
        argv = [*self.engine.docker, "exec", "-i"]
        for name, value in (how.get("env") or {}).items():
            argv += ["-e", f"{name}={value}"]
        argv += ["-w", how["workdir"]] if how.get("workdir") else []
        argv += ["-u", user] if user else []
        argv += [self.id, "timeout", "-k", "5", str(limit), *command]
        return run(argv, seconds=limit + 15, env=self.engine.env, stdin=stdin)

    def sh(self, script: str, **how: Any) -> Finished:
        """Run a line of shell."""
        return self.exec(["sh", "-c", script], **how)

    def python(self, code: str, *arguments: str, python: str = "python", **how: Any) -> Finished:
        """Run Python source; it reads its arguments from sys.argv[1:]."""
        return self.exec([python, "-", *arguments], stdin=code, **how)

    def probe(self, name: str, *arguments: str, **how: Any) -> Any:
        """Run probes/NAME.py inside and return the JSON document that its last line is.

        Raises:
            AssertionError: it failed; its last words are shown.
        """
        done = self.python((PROBES / f"{name}.py").read_text(encoding="utf-8"), *arguments, **how)
        assert done.ok, f"probe {name} ended with {done.code}:\n{done.out[-2000:]}\n{done.err[-3000:]}"
        return json.loads(done.out.strip().splitlines()[-1])

    def environment(self, command: list[str], **how: Any) -> dict[str, str]:
        """The variables that a process sees which is started by `command` (argv that ends in running `env -0`)."""
        done = self.exec(command, **how)
        assert done.ok, done.err
        return parse_environment(done.out)

    def logs(self) -> tuple[str, str]:
        """What the container has written so far: stdout, stderr."""
        return (
            self.docker.logs(stdout=True, stderr=False).decode(errors="replace"),
            self.docker.logs(stdout=False, stderr=True).decode(errors="replace"),
        )

    def wait(self, seconds: float) -> int:
        """Wait for the end; return the exit code."""
        return int(self.docker.wait(timeout=seconds * patience())["StatusCode"])

    @staticmethod
    def until(condition: Callable[[], bool], seconds: float = 20) -> None:
        """Wait for `condition`.

        Raises:
            AssertionError: it did not come true in time.
        """
        deadline = time.monotonic() + seconds * patience()
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds * patience():g} s"
            time.sleep(0.1)

    def state(self) -> dict[str, Any]:
        """What `docker inspect` says about its state, now."""
        self.docker.reload()
        state: dict[str, Any] = self.docker.attrs["State"]
        return state

    def remove(self) -> None:
        """Kill and remove it, with its anonymous volumes."""
        with contextlib.suppress(NotFound):
            self.docker.remove(force=True, v=True)


def parse_environment(text: str) -> dict[str, str]:
    """`env -0`'s output as a dictionary."""
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def remove_leftovers(client: DockerClient) -> None:
    """Remove whatever containers of this test run are still there."""
    label = "=".join(*SESSION.items())
    for container in client.containers.list(all=True, filters={"label": label}):
        with contextlib.suppress(NotFound, APIError):
            container.remove(force=True, v=True)


def workers() -> int:
    """Number of processes side by side, of probes and of tests: as many cores as this machine has, at most four."""
    return min(4, len(os.sched_getaffinity(0)))
