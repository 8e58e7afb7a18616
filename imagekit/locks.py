"""The locked Python set: one file per platform, with hashes, resolved once and committed.

A lock begins with the hash of everything it was made from, so that drift is found without a network.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from imagekit.errors import Problem
from imagekit.files import write_changed
from imagekit.manifest import ROOT, Manifest, Platform

LOCKS = ROOT / "images" / "rlinf-npu" / "locks"
SIM_LOCKS = ROOT / "images" / "cann-sim" / "locks"
HOST_LOCK = ROOT / "requirements" / "host.txt"
# An override with a marker that never holds is uv's way to drop a package from the resolution.
NEVER = "sys_platform == 'never'"
STAMP = re.compile(r"^# inputs: sha256:([0-9a-f]{64})$", re.MULTILINE)


def lock_path(platform: Platform) -> Path:
    """Return the committed lock of a platform."""
    return LOCKS / f"{platform.machine}.txt"


def locked_versions(platform: Platform) -> dict[str, str]:
    """Return version by name of all that the committed lock of a platform holds."""
    return versions_in(lock_path(platform).read_text(encoding="utf-8"))


def versions_in(lock: str) -> dict[str, str]:
    """Return version by name of a lock's text."""
    return dict(re.findall(r"^([a-z0-9.-]+)==([^\s;]+)", lock, re.MULTILINE))


def sim_lock_path(platform: Platform) -> Path:
    """Return the committed lock of what the simulated base's Python holds."""
    return SIM_LOCKS / f"{platform.machine}.txt"


def sim_requirements_text(manifest: Manifest) -> str:
    """Return what the simulated base's Python holds, one a line."""
    return "".join(f"{name}\n" for name in ("pip", "setuptools", "wheel", *manifest.base.sim.preinstalled))


def requirements_text(manifest: Manifest) -> str:
    """Return the requirements to resolve, one a line."""
    return "".join(f"{manifest.fill(r)}\n" for r in [*manifest.python.requirements, *manifest.python.own])


def overrides_text(manifest: Manifest) -> str:
    """Return the overrides, exclusions included, each under its reason."""
    lines = [f"# {o.reason}\n{manifest.fill(o.requirement)}\n" for o in manifest.python.override]
    for exclude in manifest.python.exclude:
        lines += [f"# {exclude.reason}\n", *(f"{name}; {NEVER}\n" for name in exclude.names)]
    return "".join(lines)


def uv_options(manifest: Manifest, platform: Platform) -> list[str]:
    """Return the options of `uv pip compile` that shape the result."""
    options = sim_options(manifest, platform)
    options += [f"--no-binary={name}" for name in manifest.python.source_builds]
    return options + [f"--no-emit-package={name}" for name in manifest.python.not_installed]


def sim_options(manifest: Manifest, platform: Platform) -> list[str]:
    """Return the options for a set of wheels alone."""
    return [
        f"--python-platform={platform.python_platform}",
        f"--python-version={manifest.versions.python_series}",
        "--generate-hashes",
        "--no-annotate",
        "--no-header",
        "--only-binary=:all:",
    ]


def inputs_hash(manifest: Manifest, platform: Platform) -> str:
    """Return the hash of all that decides a lock's content, except the day it was made."""
    return _hash([requirements_text(manifest), overrides_text(manifest), uv_options(manifest, platform)])


def sim_inputs_hash(manifest: Manifest, platform: Platform) -> str:
    """Return the hash of all that decides the content of a simulated base's lock."""
    return _hash([sim_requirements_text(manifest), sim_options(manifest, platform)])


def _hash(inputs: list[object]) -> str:
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def host_inputs_hash() -> str:
    """Return the hash of what decides requirements/host.txt: the dependency tables of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return hashlib.sha256(text.partition("[tool.ruff]")[0].encode()).hexdigest()


def drift(manifest: Manifest) -> list[str]:
    """Return one line for each lock that no longer matches its inputs."""
    expected = {lock_path(p): inputs_hash(manifest, p) for p in manifest.platform} | {HOST_LOCK: host_inputs_hash()}
    expected |= {sim_lock_path(p): sim_inputs_hash(manifest, p) for p in manifest.platform}
    complaints = []
    for path, want in expected.items():
        stamp = STAMP.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        if stamp is None or stamp[1] != want:
            complaints.append(f"{path.relative_to(ROOT)} does not match its inputs; run `make lock`")
    return complaints


def _uv(arguments: list[str], env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "uv", *arguments]
    run = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, check=False)
    if run.returncode:
        raise Problem(f"uv could not resolve the set:\n{run.stderr.strip()}", "correct images.toml or the network")


def _write(path: Path, stamp: str, body: str) -> None:
    header = f"# Made by `make lock`; do not edit.\n# inputs: sha256:{stamp}\n"
    write_changed(path, header + body)  # unchanged, `make` does not install the host's tools again


def make_lock(manifest: Manifest, platform: Platform, env: dict[str, str], *, upgrade: bool) -> Path:
    """Resolve one platform's set and write its lock; versions of the present lock are kept unless `upgrade`.

    Raises:
        Problem: the set cannot be resolved; uv's explanation is passed on.
    """
    path, options = lock_path(platform), uv_options(manifest, platform)
    text = _compile(path, requirements_text(manifest), overrides_text(manifest), options, env, upgrade=upgrade)
    _write(path, inputs_hash(manifest, platform), text)
    return path


def make_sim_lock(manifest: Manifest, platform: Platform, env: dict[str, str], *, upgrade: bool) -> Path:
    """Resolve what the simulated base's Python holds, for one platform.

    Raises:
        Problem: the set cannot be resolved; uv's explanation is passed on.
    """
    path, options = sim_lock_path(platform), sim_options(manifest, platform)
    text = _compile(path, sim_requirements_text(manifest), "", options, env, upgrade=upgrade)
    _write(path, sim_inputs_hash(manifest, platform), text)
    return path


def _compile(
    lock: Path, requirements: str, overrides: str, options: list[str], env: dict[str, str], *, upgrade: bool
) -> str:
    """Return what uv resolves, without comments."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, forced, output = (Path(folder) / name for name in ("requirements.in", "overrides.txt", "lock.txt"))
        wanted.write_text(requirements, encoding="utf-8")
        forced.write_text(overrides, encoding="utf-8")
        if lock.is_file() and not upgrade:
            output.write_text(lock.read_text(encoding="utf-8"), encoding="utf-8")
        arguments = ["pip", "compile", "--quiet", "--system-certs", str(wanted), *options]
        _uv([*arguments, f"--override={forced}", f"--output-file={output}"], env)
        return _without_comments(output.read_text(encoding="utf-8"))


def resolve_one(manifest: Manifest, requirements: list[str], name: str, env: dict[str, str]) -> str:
    """Return the version of `name` that goes with `requirements`, on the first platform of the manifest.

    Raises:
        Problem: they cannot be resolved; uv's explanation is passed on.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted, output = Path(folder) / "requirements.in", Path(folder) / "lock.txt"
        wanted.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        options = [f"--python-platform={manifest.platform[0].python_platform}", "--no-annotate", "--no-header"]
        options += [f"--python-version={manifest.versions.python_series}", f"--output-file={output}"]
        _uv(["pip", "compile", "--quiet", "--system-certs", str(wanted), *options], env)
        found = re.search(rf"^{re.escape(name)}==(\S+)", output.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise Problem(f"no {name} among what {', '.join(requirements)} resolve to")
    return found[1]


def make_host_lock(env: dict[str, str], *, upgrade: bool) -> Path:
    """Resolve what the host's .venv needs (pyproject.toml and runtime/pyproject.toml), for every platform at once."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "host.txt"
        if HOST_LOCK.is_file() and not upgrade:
            output.write_text(HOST_LOCK.read_text(encoding="utf-8"), encoding="utf-8")
        _uv(
            [
                "pip",
                "compile",
                "--quiet",
                "--system-certs",
                "--universal",
                "--generate-hashes",
                "--no-annotate",
                "--no-header",
            ]
            + ["--python-version=3.11", "--group=pyproject.toml:dev", "pyproject.toml", "runtime/pyproject.toml"]
            + [f"--output-file={output}"],
            env,
        )
        _write(HOST_LOCK, host_inputs_hash(), _without_comments(output.read_text(encoding="utf-8")))
    return HOST_LOCK


def _without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def make_all(manifest: Manifest, env: dict[str, str], say: Callable[[str], None], *, upgrade: bool = False) -> None:
    """Write every lock."""
    for platform in manifest.platform:
        say(f"resolving {platform.name} ...")
        for make in (make_lock, make_sim_lock):
            path = make(manifest, platform, env, upgrade=upgrade)
            count = len(re.findall(r"^[a-z0-9][^=\s]*==", path.read_text(encoding="utf-8"), re.MULTILINE))
            say(f"{path.relative_to(ROOT)}: {count} packages")
    say("resolving the host's tools ...")
    say(str(make_host_lock(env, upgrade=upgrade).relative_to(ROOT)))
