"""Ask whether something is in reach, in parallel, each within a few seconds. No network never means a hang."""

import json
import math
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from imagekit.engine.model import Engine
from imagekit.errors import Problem
from imagekit.process import NOT_FOUND, TIMED_OUT, Finished, run

# Run in a process of its own because a name look-up cannot be interrupted. The URL comes on stdin: it may hold a
# password, and arguments are visible to every user. requests comes with the docker SDK.
ASK_INDEX = """
import sys, requests
answer = requests.get(sys.stdin.read().strip(), timeout=float(sys.argv[1]), stream=True)
print(f"HTTP {answer.status_code}")
sys.exit(answer.status_code >= 400)
"""


@dataclass(frozen=True)
class Probe:
    """A question: `name` is shown, `argv` asks; what it prints is not shown where it could hold a secret."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    stdin: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ProbeResult:
    """The answer: in reach or not, why not, and how long it took. `output` is what the program printed."""

    name: str
    ok: bool
    reason: str
    seconds: float
    output: str = field(default="", repr=False)

    @property
    def line(self) -> str:
        """One line for the user."""
        state = "in reach" if self.ok else f"not in reach: {self.reason}"
        return f"  probe {self.name}: {state} ({self.seconds:.1f} s)"


def probe_registry(engine: Engine, reference: str) -> Probe:
    """Ask the registry for an image's manifest and configuration, through the client's own login and mirrors."""
    argv = (*engine.docker, "buildx", "imagetools", "inspect", reference, "--format", "{{json .}}")
    return Probe(reference, argv, engine.env)


def probe_git(url: str, env: Mapping[str, str]) -> Probe:
    """Ask a git server for its HEAD. Never asks for a password."""
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS": "true", "GIT_SSH_COMMAND": _ssh()}
    return Probe(_public(url), ("git", "ls-remote", "--exit-code", url, "HEAD"), {**env, **quiet})


def probe_index(name: str, url: str, env: Mapping[str, str], seconds: float) -> Probe:
    """Ask a package index for a page."""
    return Probe(name, (sys.executable, "-c", ASK_INDEX, f"{seconds:g}"), env, stdin=url)


def ask(probes: Sequence[Probe], seconds: float) -> list[ProbeResult]:
    """Ask all at once; each has `seconds`. Results are in the order of the probes."""
    if not probes:
        return []
    with ThreadPoolExecutor(len(probes)) as pool:
        return list(pool.map(lambda probe: _ask_one(probe, seconds), probes))


class Prober:
    """Asks each question once; questions that are put together are asked at the same time.

    Attributes:
        seconds: how long one probe may take.
    """

    def __init__(self, seconds: float) -> None:
        """Begin with nothing known."""
        self.seconds = seconds
        self._known: dict[tuple[tuple[str, ...], str | None], ProbeResult] = {}

    def ask(self, probes: Sequence[Probe]) -> list[ProbeResult]:
        """Return the answers in the order of the probes; those not known yet are asked at once."""
        new = {(probe.argv, probe.stdin): probe for probe in probes if (probe.argv, probe.stdin) not in self._known}
        self._known.update(zip(new, ask(list(new.values()), self.seconds), strict=True))
        return [self._known[probe.argv, probe.stdin] for probe in probes]


def probe_seconds(default: float, environ: Mapping[str, str] = os.environ) -> float:
    """Return how long a probe may take: PROBE_SECONDS, else the manifest's.

    Raises:
        Problem: PROBE_SECONDS is not a number of seconds.
    """
    text = environ.get("PROBE_SECONDS", "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 600:
        raise Problem(f"PROBE_SECONDS={text} is not a number of seconds", "use e.g. PROBE_SECONDS=10", usage=True)
    return value


def manifest_of(result: ProbeResult) -> dict[str, Any]:
    """Return what a registry probe found: `digest`, and `manifests` with a `platform` each for an index."""
    return _part(result, "manifest")


def labels_of(result: ProbeResult, platform: str) -> dict[str, str]:
    """Return the labels of what a registry probe found for `platform` (`linux/arm64`); none where it does not say.

    buildx shows the configuration of a single image, and those of an index by their platforms.
    """
    image = _part(result, "image")
    own = next(
        (found for name, found in image.items() if f"{name}/".startswith(f"{platform}/")), None
    )  # linux/arm64/v8
    config = (own or image).get("config") or {}
    return dict(config.get("Labels") or {})


def _part(result: ProbeResult, name: str) -> dict[str, Any]:
    try:
        part = json.loads(result.output)[name]
    except (ValueError, KeyError, TypeError):
        return {}
    return part if isinstance(part, dict) else {}


def _ask_one(probe: Probe, seconds: float) -> ProbeResult:
    begun = time.monotonic()
    done = run(probe.argv, seconds=seconds, env=probe.env, stdin=probe.stdin)
    reason = "" if done.ok else _reason(done, probe)
    return ProbeResult(probe.name, done.ok, reason, time.monotonic() - begun, done.out)


def _reason(done: Finished, probe: Probe) -> str:
    """The cause alone: Go puts it last, git behind the URL. Where the URL is a secret, only the kind of error."""
    line = done.last_line
    if done.code in (TIMED_OUT, NOT_FOUND):
        return line
    if probe.stdin:
        return done.out.strip() or line.partition(":")[0].rpartition(".")[2]
    if probe.argv[0] == "git":
        return re.sub(r"^fatal: (unable to access '[^']*': )?", "", line)
    return line.rpartition(": ")[2]


def _ssh() -> str:
    return f"{os.environ.get('GIT_SSH_COMMAND') or 'ssh'} -o BatchMode=yes -o ConnectTimeout=5"


def _public(url: str) -> str:
    """Drop user and password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else url
