"""Make sure that an engine answers, installing and starting one where that is ours to do."""

import dataclasses

from imagekit import apt
from imagekit.engine.daemon import Daemon, find_dockerd
from imagekit.engine.detect import check_engine, find_engine
from imagekit.engine.model import Engine
from imagekit.errors import Problem
from imagekit.manifest import EngineSpec, Manifest, Mirror
from imagekit.process import Say, run, version_tuple

# Ubuntu has the same software under these names; docker-cli is inside its docker.io.
UBUNTU_NAMES = {"docker-compose": "docker-compose-v2", "docker-cli": None}


def ensure_engine(
    manifest: Manifest,
    say: Say,
    *,
    mirror: Mirror | None = None,
    daemon: Daemon | None = None,
    system: apt.System | None = None,
) -> Engine:
    """Return an engine that answers and is new enough; install and start one when there is none and we may.

    Raises:
        Problem: none answers and we may not or cannot provide one; or it is too old.
    """
    daemon = daemon or Daemon()
    engine = find_engine(daemon.env)
    if engine is None:
        engine = _bring_up(manifest, daemon, system or apt.read_system(), mirror, say)
    check_engine(engine, manifest.engine)
    if not engine.containerd_store:
        say("Note: this engine keeps images in its old store: one platform per build, no OCI export.")
        say('      To change that: {"features": {"containerd-snapshotter": true}} in daemon.json, then restart it.')
    return dataclasses.replace(engine, ours=daemon.is_ours())


def stop_engine(say: Say, *, daemon: Daemon | None = None) -> None:
    """Stop the engine that we started, and no other.

    Raises:
        Problem: it does not end.
    """
    (daemon or Daemon()).stop(say)


def _bring_up(manifest: Manifest, daemon: Daemon, system: apt.System, mirror: Mirror | None, say: Say) -> Engine:
    spec = manifest.engine
    if _missing_parts():
        _refuse_install(spec, system)
        _install(manifest, system, mirror, daemon, say)
    else:
        _refuse_start(system)
        say("A Docker engine is installed but not running: starting it.")
    _refuse_old_dockerd(spec)
    daemon.start(lambda: find_engine(daemon.env) is not None, say)
    engine = find_engine(daemon.env)
    if engine is None:
        raise Problem("dockerd has started but answers no longer", f"its log is {daemon.log}")
    say(f"Docker engine {engine.version} answers.")
    return engine


def _missing_parts() -> str:
    """What is not here: dockerd, or Debian's plugins beside Debian's dockerd. Another vendor's packages stay alone."""
    if not find_dockerd():
        return "No Docker engine on this machine"
    debians = apt.is_installed("docker.io")
    for plugin in ("buildx", "compose"):
        if debians and not run(("docker", plugin, "version"), seconds=10).ok:
            return f"docker {plugin} is missing"
    return ""


def _install(manifest: Manifest, system: apt.System, mirror: Mirror | None, daemon: Daemon, say: Say) -> None:
    spec = manifest.engine
    packages = names_for(spec, system)
    origin = f" from Debian {spec.debian_suite} (nothing else comes from there)" if system.takes_from_newer else ""
    say(f"{_missing_parts()}: installing {', '.join(packages)}{origin}, then starting dockerd.")
    if system.takes_from_newer:
        apt.pin_suite(spec.debian_suite, packages, manifest.base.sim.archive, mirror.apt if mirror else "")
    if daemon.under_systemd:  # there the package starts it, before we could hand it a configuration of our own
        daemon.write_system_config()
    # without the CA certificates the engine trusts no registry; on a minimal system nothing else brings them
    apt.install([*packages, "ca-certificates"], say, start_services=daemon.under_systemd)


def names_for(spec: EngineSpec, system: apt.System) -> list[str]:
    """Package names of the engine on this system.

    Raises:
        Problem: a release too old for the packages.
    """
    oldest = {"debian": (12,), "ubuntu": (22, 4)}[system.id]
    if system.version and system.version < oldest:
        raise Problem(f"{system} is too old for an engine with BuildKit", "use Debian 12, Ubuntu 22.04 or newer")
    if system.id == "debian":
        return list(spec.packages)
    return [name for package in spec.packages if (name := UBUNTU_NAMES.get(package, package))]


def _needs(spec: EngineSpec) -> str:
    return f"engine >= {spec.min_engine}, buildx >= {spec.min_buildx}, compose >= {spec.min_compose}"


def _refuse_install(spec: EngineSpec, system: apt.System) -> None:
    if not system.has_apt:
        names = ", ".join(spec.packages)
        raise Problem(
            f"no Docker engine, and {system} is not Debian or Ubuntu", f"install {_needs(spec)} (as in {names})"
        )
    if not system.root:
        names = ", ".join(names_for(spec, system))
        raise Problem(
            "no Docker engine, and this user is not root", f"run as root, or install {names} ({_needs(spec)})"
        )


def _refuse_start(system: apt.System) -> None:
    if not system.root:
        raise Problem(
            "a Docker engine is installed but not running, and this user is not root",
            "run as root, or start it: sudo systemctl start docker",
        )


def _refuse_old_dockerd(spec: EngineSpec) -> None:
    shown = run((find_dockerd() or "dockerd", "--version"), seconds=10)
    found = shown.out.partition("version ")[2].partition(",")[0]
    if found and version_tuple(found) < version_tuple(spec.min_engine):
        raise Problem(f"dockerd {found} is too old, {spec.min_engine} or newer is needed", "upgrade it (docker.io)")
