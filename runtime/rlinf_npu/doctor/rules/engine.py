"""Docker and its plugins, on the host."""

from collections.abc import Iterator

from rlinf_npu.doctor import versions
from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import HOST, Hit
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.tables import limits

_INSTALL = "https://docs.docker.com/engine/install/"


@rule(
    "docker-missing",
    "Docker",
    where=HOST,
    needs=("engine-facts",),
    meaning="There is no docker command.",
    fix="make engine (Debian and Ubuntu, as root), or install Docker.",
    link=_INSTALL,
)
def docker_missing(ctx: Context) -> Iterator[Hit]:
    """The command on PATH."""
    if ctx.system.which("docker") is None:
        yield Hit("docker: not found on PATH")


@rule(
    "docker-unreachable",
    "Docker engine",
    where=HOST,
    needs=("docker",),
    meaning="The engine does not answer, or this user may not talk to it.",
    fix="Start it (make engine, systemctl start docker); join the docker group; check DOCKER_HOST and docker "
    "context ls.",
    link="https://docs.docker.com/engine/daemon/troubleshoot/",
)
def docker_unreachable(ctx: Context) -> Iterator[Hit]:
    """docker version asks the engine."""
    answer = ctx.system.run("docker", "version", "--format", "{{.Server.Version}}", seconds=limits().network_seconds)
    if answer.code != 0:
        yield Hit(answer.said())


@rule(
    "docker-old",
    "Docker's versions",
    where=HOST,
    needs=("docker", "engine-facts"),
    meaning="Too old for these builds and compose files.",
    fix="Install newer packages (make engine on Debian and Ubuntu).",
    link=_INSTALL,
)
def docker_old(ctx: Context) -> Iterator[Hit]:
    """Engine, buildx and compose against the manifest."""
    engine = ctx.facts.engine
    if engine is None:
        return
    asked = (
        ("engine", ("version", "--format", "{{.Server.Version}}"), engine.min_engine),
        ("buildx", ("buildx", "version"), engine.min_buildx),
        ("compose", ("compose", "version", "--short"), engine.min_compose),
    )
    for name, command, minimum in asked:
        answer = ctx.system.run("docker", *command, seconds=limits().network_seconds)
        found = versions.first_version(answer.out) if answer.code == 0 else None
        if found and not versions.at_least(found, minimum):
            yield Hit(f"{name} {found}, needed: {minimum}", kind=name)
        elif found is None and name != "engine":
            yield Hit(f"docker {name}: not installed, needed: {minimum}", kind=name)
