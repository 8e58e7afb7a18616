"""The whole pipeline on one machine: what the workflows do, against a registry on loopback."""

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from imagekit import lookup
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest
from imagekit.process import Finished, Say, follow
from imagekit.publish.push import BUILD
from imagekit.registry.server import LoopbackRegistry, loopback_registry

STEPS = ("lint", "image", "test", "push", "gate", "promote")
NAMESPACE = "ci-local"
LAST_LINES = 40


@dataclass(frozen=True)
class Row:
    """One step: passed, failed, or not reached."""

    step: str
    result: str
    seconds: float = 0.0
    note: str = ""


def run(manifest: Manifest, say: Say, start: str = STEPS[0], suite: str = "") -> list[Row]:
    """Run the steps from `start` on; the first that fails is the last that runs.

    Raises:
        Problem: no such step, or no registry to be had.
    """
    if start not in STEPS:
        raise Problem(f"no step {start!r}", f"one of {', '.join(STEPS)}", usage=True)
    with loopback_registry(say) as registry:
        say(f"registry on {registry.host} (TLS, login, loopback)")
        try:
            return _steps(manifest, registry, say, start, suite)
        finally:
            _pushed(manifest).unlink(missing_ok=True)  # it names what is gone with the registry


def _pushed(manifest: Manifest) -> Path:
    return BUILD / f"pushed-{lookup.pick_platform(manifest, '')[0].arch}.json"


def _steps(manifest: Manifest, registry: LoopbackRegistry, say: Say, start: str, suite: str) -> list[Row]:
    rows: list[Row] = []
    for step in STEPS[STEPS.index(start) :]:
        if any(row.result == "failed" for row in rows):
            rows.append(Row(step, "not reached"))
            continue
        begun = time.monotonic()
        say(f"--- {step}")
        note = _step(manifest, registry, say, step, suite)
        rows.append(Row(step, "failed" if note else "passed", time.monotonic() - begun, note))
    return rows


def _step(manifest: Manifest, registry: LoopbackRegistry, say: Say, step: str, suite: str) -> str:
    """Run one step; return why it failed, nothing when it did not."""
    env = dict(registry.environ) | {"REGISTRY": f"{registry.host}/{NAMESPACE}"}
    for command in _commands(manifest, step, suite):
        done = follow(command, lambda line: say(f"  {line.rstrip()}"), env=_wanted(env, step))
        if not done.ok:
            return why(done)
    return ""


def why(done: Finished) -> str:
    """Return the line that says why a step failed: our own `error:` or `red:`, else the last one."""
    lines = [line.strip() for line in done.out.splitlines()]
    return next((line for line in lines if line.startswith(("error: ", "red: "))), done.last_line)[:200]


def _commands(manifest: Manifest, step: str, suite: str) -> list[list[str]]:
    build = [sys.executable, str(ROOT / "build.py")]
    if step in ("lint", "image"):
        return [["make", "-C", str(ROOT), step]]
    if step == "test":
        return [["make", "-C", str(ROOT), target] for target in ("test-unit", "test-image")]
    if step == "push":
        return [[*build, "push"]]
    pushed = json.loads(_pushed(manifest).read_text(encoding="utf-8"))
    more = ["--suite", suite] if suite and step == "gate" else []
    return [[*build, step, "--image", entry["reference"], *more] for entry in pushed]


def _wanted(env: Mapping[str, str], step: str) -> dict[str, str]:
    """The login is for the steps that talk to the registry."""
    return dict(env) if step in ("push", "gate", "promote") else {"REGISTRY": os.environ.get("REGISTRY", "")}
