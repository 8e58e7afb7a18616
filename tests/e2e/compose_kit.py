"""A project of Compose of its own, in a copy of what a user has: compose.yaml, .env, the build record, the driver."""

import functools
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from imagekit import lookup
from imagekit.compose import generate
from imagekit.compose.settings import NAMES, Settings
from imagekit.manifest import ROOT, Manifest, load_manifest
from imagekit.planner import SIM_DRIVER
from tests.e2e.commands import run_merged

OTHER_SETTINGS = {"COMPOSE_PROFILES", "COMPOSE_FILE"}
RUN = "/workspace/tiny"  # of the fixtures' recap.yaml


class Failed(AssertionError):
    """A command did not do what the test needs; with what it said."""


@functools.cache
def manifest() -> Manifest:
    """images.toml as it was when the tests began."""
    return load_manifest()


@functools.cache
def arch() -> str:
    """This machine's architecture in Docker's words."""
    return lookup.pick_platform(manifest(), "")[0].arch


def why_not() -> str:
    """Why there can be no such project here; empty when there can."""
    if not shutil.which("docker"):
        return "no docker command here"
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        return "no Docker engine answers: make engine"
    if not (ROOT / f"build/built-{arch()}-sim.json").is_file():
        return "the simulated image has not been built: make image BASE=sim"
    return ""


class Project:
    """One project. E2E_COMPOSE_FILE adds a file to Compose's own two, to try a runtime that is in no image yet."""

    def __init__(self, folder: Path) -> None:
        """Lay out the copy; nothing is started."""
        self.folder, self.name = folder, f"e2e-{uuid.uuid4().hex[:8]}"
        (folder / "build").mkdir()
        for name in ("compose.yaml", "recap.yaml"):
            shutil.copy(ROOT / name, folder)
        shutil.copy(ROOT / ".env.example", folder / ".env")
        for record in (ROOT / "build").glob("built-*.json"):
            shutil.copy(record, folder / "build")
        shutil.copytree(ROOT / "build" / SIM_DRIVER, folder / "build" / SIM_DRIVER, symlinks=True)
        ours = OTHER_SETTINGS | set(NAMES.values())
        self.env = {name: value for name, value in os.environ.items() if name not in ours}
        self.env["COMPOSE_PROJECT_NAME"] = self.name
        self.files = ["compose.yaml", "compose.override.yaml"]
        if extra := os.environ.get("E2E_COMPOSE_FILE"):
            self.files.append(extra)

    def generate(self, root: Path = Path("/"), **settings: str) -> list[str]:
        """What `make compose` does; returns what it says."""
        said: list[str] = []
        generate(manifest(), arch(), said.append, folder=self.folder, root=root, settings=Settings(**settings))
        return said

    def simulated(self) -> "Project":
        """With COMPOSE_PROFILES=sim from now on."""
        self.env["COMPOSE_PROFILES"] = "sim"
        return self

    def compose(self, *arguments: str, seconds: float = 300, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `docker compose ARGUMENTS`; both streams in stdout."""
        files = [part for name in self.files if (self.folder / name).exists() for part in ("-f", name)]
        return run_merged(["docker", "compose", *files, *arguments], self.env | environment, self.folder, seconds)

    def run(self, service: str, *command: str, seconds: float = 300) -> str:
        """`docker compose run` without dependencies; returns its output.

        Raises:
            Failed: exit code other than 0.
        """
        done = self.compose("run", "--rm", "-T", "--no-deps", service, *command, seconds=seconds)
        if done.returncode:
            raise Failed(f"{service} {' '.join(command)[:200]} ended with {done.returncode}:\n{done.stdout[-3000:]}")
        return done.stdout

    def python(self, code: str) -> Any:
        """Run Python in the image on the project's data; returns the JSON document that it prints last."""
        return json.loads(self.run("shell", "python", "-c", code).strip().splitlines()[-1])

    def container(self, service: str) -> dict[str, Any]:
        """What `docker inspect` says of a service's container.

        Raises:
            Failed: there is none.
        """
        found = self.compose("ps", "-a", "-q", service).stdout.split()
        if not found:
            raise Failed(f"no container of {service}")
        shown = subprocess.run(["docker", "inspect", found[0]], capture_output=True, text=True, check=True)
        return dict(json.loads(shown.stdout)[0])

    def exit_code(self, service: str) -> int:
        """Of a container that has ended."""
        return int(self.container(service)["State"]["ExitCode"])

    def logs(self, service: str) -> str:
        """All that a service has written."""
        return self.compose("logs", "--no-log-prefix", service).stdout

    def until(self, condition: Callable[[], bool], seconds: float, service: str) -> None:
        """Wait for `condition` while `service` runs.

        Raises:
            Failed: too late, or the service has ended; with its log.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or not self.container(service)["State"]["Running"]:
                raise Failed(f"{service} did not get there within {seconds:g} s:\n{self.logs(service)[-3000:]}")
            time.sleep(0.5)

    def ended(self, service: str, seconds: float) -> None:
        """Wait until a service has ended.

        Raises:
            Failed: it still runs.
        """
        deadline = time.monotonic() + seconds
        while self.container(service)["State"]["Running"]:
            if time.monotonic() > deadline:
                raise Failed(f"{service} still runs after {seconds:g} s:\n{self.logs(service)[-3000:]}")
            time.sleep(0.2)

    def remove(self) -> None:
        """Everything of this project: containers, volumes, network."""
        self.compose("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "5")
