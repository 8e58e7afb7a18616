"""Run the image tests against one image, and know a suite by its content."""

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest, Suite
from imagekit.process import Pulse, Say, follow
from imagekit.publish.evidence import SuiteRun, summary
from imagekit.publish.identity import Identity
from imagekit.publish.junit import outcomes
from imagekit.registry import canonical

ALWAYS = "always"
# Everything that decides what a suite finds, beside its own files and images.toml.
INPUTS = (
    "pyproject.toml",
    "pytest.ini",
    "tox.ini",
    "setup.cfg",
    "conftest.py",
    "tests/*.py",
    "tests/images/**/*",
    "imagekit/*.py",
    "imagekit/compose/record.py",
    "imagekit/engine/*.py",
    "imagekit/publish/*.py",
    "images/*/locks/*",
)
TESTS_FAILED = 1  # pytest's exit code


@dataclass(frozen=True)
class Job:
    """One call of pytest: a name and what to select."""

    name: str
    suite: Suite


def jobs(manifest: Manifest, suite: str) -> list[Job]:
    """Return what a gate runs: the suite without what is run at every gate, and that.

    Raises:
        Problem: no such suite in images.toml.
    """
    publish = manifest.publish
    if suite not in publish.suites:
        raise Problem(f"no suite {suite!r}", f"images.toml has {', '.join(publish.suites)}", usage=True)
    chosen = publish.suites[suite]
    rest = chosen.model_copy(update={"ignore": [*chosen.ignore, *publish.always]})
    return [Job(suite, rest), Job(ALWAYS, Suite(tests=publish.always))]


def suite_hash(manifest: Manifest, suite: str, root: Path = ROOT) -> str:
    """Hash the tests, what they use, and images.toml but for its list of waivers and known vulnerabilities.

    Raises:
        Problem: no such suite.
    """
    whole = hashlib.sha256()
    said = manifest.model_dump(mode="json", exclude={"publish": {"waiver", "vulnerability", "registry"}})
    whole.update(canonical([suite, [(job.name, job.suite.model_dump()) for job in jobs(manifest, suite)], said]))
    for path in sorted(set(_files(manifest, suite, root))):
        whole.update(f"\0{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def _files(manifest: Manifest, suite: str, root: Path) -> Iterator[Path]:
    for pattern in INPUTS:
        yield from (path for path in root.glob(pattern) if _counts(path))
    for job in jobs(manifest, suite):
        for name in job.suite.tests:
            place = root / name.partition("::")[0]
            yield from (path for path in ([place] if place.is_file() else place.rglob("*")) if _counts(path))


def _counts(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def run(job: Job, identity: Identity, image: str, folder: Path, say: Say) -> SuiteRun:
    """Run pytest against `image` (a reference or id that the engine has); its JUnit file is left in `folder`.

    Raises:
        Problem: pytest could not run: wrong selection, crash. Failing tests are a result, not a problem.
    """
    folder.mkdir(parents=True, exist_ok=True)
    junit = folder / f"{job.name}.xml"
    junit.unlink(missing_ok=True)
    tests = [str(ROOT / test) for test in job.suite.tests]
    command = [sys.executable, "-m", "pytest", *tests, "--numprocesses=auto", "-v", "--tb=short", f"--junitxml={junit}"]
    # Names of this checkout's own build do not matter here; a plugin's random order or a cache would.
    command += [f"--ignore={ROOT / path}" for path in job.suite.ignore] + [
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(ROOT),
    ]
    command += ["-m", job.suite.markers] if job.suite.markers else []
    env = {"IMAGE": f"{identity.name}={image}", "BASE": identity.flavour.base, "PLATFORM": identity.arch}
    env |= {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}  # nothing that stays off the record
    pulse = Pulse(say, f"suite {job.name}")
    done = follow(command, pulse, env=env)
    if done.code not in (0, TESTS_FAILED) or not junit.is_file():
        raise Problem(f"suite {job.name} could not run: {done.last_line}", f"try it: {' '.join(command[1:])}")
    if not done.ok:
        say("\n".join(f"  | {line}" for line in done.out.splitlines()[-40:]))
    return recorded(job.name, junit, pulse.seconds)


def recorded(name: str, junit: Path, seconds: float) -> SuiteRun:
    """Summarise a JUnit file."""
    data = junit.read_bytes()
    passed, skipped, failed = summary(outcomes(data))
    return SuiteRun(
        name=name,
        passed=passed,
        skipped=skipped,
        failures=failed,
        seconds=round(seconds, 1),
        finished=datetime.now(UTC),
        cached=False,
        junit=junit.name,
        sha256=hashlib.sha256(data).hexdigest(),
    )
