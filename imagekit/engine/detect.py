"""Find the engine that answers. Changes nothing."""

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from imagekit.engine.model import Engine
from imagekit.errors import Problem
from imagekit.manifest import EngineSpec
from imagekit.process import Finished, run, version_tuple

ANSWER_SECONDS = 15.0  # a busy engine may take a while; a dead TCP endpoint would take minutes


@dataclasses.dataclass(frozen=True)
class Context:
    """Where the client is pointed: by DOCKER_HOST, DOCKER_CONTEXT or `docker context use`."""

    name: str
    endpoint: str
    tls: Path | None

    @property
    def chosen(self) -> bool:
        """The user picked it: an engine elsewhere must not take its place."""
        return self.name != "default" or bool(os.environ.get("DOCKER_HOST"))


def find_engine(env: dict[str, str] | None = None) -> Engine | None:
    """Return the engine that answers, or None when none does.

    Args:
        env: added to the environment of the client (DOCKER_HOST of an engine at a place of its own).

    Raises:
        Problem: an endpoint chosen by the user does not answer, or this user may not talk to the engine.
    """
    env = dict(env or {})
    if not shutil.which("docker"):
        if chosen := os.environ.get("DOCKER_HOST"):
            raise Problem(f"DOCKER_HOST is {chosen} but there is no docker client here", "install docker-cli")
        return None
    answer = run(("docker", "version", "--format", "{{json .}}"), seconds=ANSWER_SECONDS, env=env)
    server = _server(answer)
    context = _read_context(env)
    if server is None:
        _explain_silence(answer, context, bool(env))
        return None
    return Engine(
        docker=("docker",),
        # The docker driver's builder has the context's name. Another builder (buildx use) sees no local images.
        env={**env, "BUILDX_BUILDER": context.name},
        endpoint=context.endpoint,
        version=str(server.get("Version", "")),
        buildx=_plugin_version("buildx", "version"),
        compose=_plugin_version("compose", "version", "--short"),
        arch={"amd64": "x86_64", "arm64": "aarch64"}.get(str(server.get("Arch")), str(server.get("Arch"))),
        containerd_store=_uses_containerd_store(env),
        tls=context.tls,
    )


def check_engine(engine: Engine, spec: EngineSpec) -> None:
    """Compare what was found with what is needed.

    Raises:
        Problem: too old or absent, with both versions and the package that helps.
    """
    packages = ", ".join(spec.packages)
    for what, found, needed in (
        ("Docker engine", engine.version, spec.min_engine),
        ("docker buildx", engine.buildx, spec.min_buildx),
        ("docker compose", engine.compose, spec.min_compose),
    ):
        if not found:
            raise Problem(f"{what} is missing, {needed} or newer is needed", f"install it (Debian: {packages})")
        if version_tuple(found) < version_tuple(needed):
            fix = f"upgrade it (Debian {spec.debian_suite}: {packages})"
            raise Problem(f"{what} {found} is too old, {needed} or newer is needed", fix)


def _read_context(env: dict[str, str]) -> Context:
    shown = run(("docker", "context", "inspect"), seconds=ANSWER_SECONDS, env=env)
    if not shown.ok:
        raise Problem(f"the docker context cannot be read: {shown.last_line}", "see `docker context ls`")
    context: dict[str, Any] = json.loads(shown.out)[0]
    endpoint = str(context.get("Endpoints", {}).get("docker", {}).get("Host", ""))
    return Context(str(context.get("Name", "default")), endpoint, _tls_folder(context))


def _tls_folder(context: dict[str, Any]) -> Path | None:
    if context.get("TLSMaterial", {}).get("docker"):
        return Path(context["Storage"]["TLSPath"]) / "docker"
    if os.environ.get("DOCKER_HOST") and os.environ.get("DOCKER_TLS_VERIFY"):
        return Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
    return None


def _server(answer: Finished) -> dict[str, Any] | None:
    """The engine's half of `docker version`, None when only the client's half is there."""
    try:
        server = json.loads(answer.out).get("Server")
    except (ValueError, AttributeError):
        return None
    if not isinstance(server, dict) or not server.get("Version"):
        return None
    if any("podman" in str(part.get("Name", "")).lower() for part in server.get("Components") or []):
        raise Problem("what answers is Podman, which has no BuildKit", "point DOCKER_HOST at a Docker engine")
    return server


def _explain_silence(answer: Finished, context: Context, started_by_us: bool) -> None:
    if "permission denied" in answer.err:
        raise Problem(
            f"this user may not use the Docker engine at {context.endpoint}",
            "run as root (sudo), or join the docker group and log in again",
        )
    if context.chosen and not started_by_us:
        origin = "DOCKER_HOST" if os.environ.get("DOCKER_HOST") else f"docker context {context.name}"
        raise Problem(
            f"no Docker engine answers at {context.endpoint} ({origin})",
            "start it, or unset DOCKER_HOST / `docker context use default`",
        )


def _plugin_version(*command: str) -> str:
    shown = run(("docker", *command), seconds=ANSWER_SECONDS)
    found = re.search(r"\bv?(\d+\.\d+[\w.+~-]*)", shown.out) if shown.ok else None
    return found[1] if found else ""


def _uses_containerd_store(env: dict[str, str]) -> bool:
    shown = run(("docker", "info", "--format", "{{json .DriverStatus}}"), seconds=ANSWER_SECONDS, env=env)
    return "io.containerd.snapshotter" in shown.out
