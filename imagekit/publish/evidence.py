"""What a gate has seen, as a document that is attached to the image; and what may be concluded from it.

The verdict is never taken from the document: `complaints` works it out again from what is recorded.
"""

import datetime
import fnmatch
import hashlib
from typing import Literal

from pydantic import ValidationError

from imagekit.manifest import Manifest, Model, Sha256, Waiver
from imagekit.publish.junit import Outcome, outcomes
from imagekit.registry import Altered, Reference, canonical

FILE = "evidence.json"
VULNERABILITIES, NOT_CHECKED, BUDGET = "vulnerabilities", "vulnerabilities not checked", "budget"
Status = Literal["passed", "failed", "not checked"]


class SuiteRun(Model):
    """One run of pytest. `failures` are test ids; `junit` and `sha256` name the file with everything."""

    name: str
    passed: int
    skipped: int
    failures: list[str]
    seconds: float
    finished: datetime.datetime
    cached: bool
    junit: str
    sha256: Sha256


class Finding(Model):
    """One vulnerability. `allowed` is the reason of the list in images.toml, empty when it counts."""

    id: str
    package: str
    version: str
    severity: str
    fixed_in: str
    allowed: str


class Vulnerabilities(Model):
    """The report. `not checked` is not `passed`: nothing is known then. `scope` says what the tool looks at."""

    status: Status
    tool: str
    scope: str
    note: str
    findings: list[Finding]


class Budget(Model):
    """Bytes as transferred, against the last release's; 0 when there is none."""

    status: Status
    size: int
    last_size: int
    last_digest: str
    note: str
    difference: list[str]


class UsedWaiver(Model):
    """A waiver that covered something, and what."""

    test: str
    reason: str
    until: datetime.date
    covers: list[str]


class Evidence(Model):
    """Everything about one gating of one image. `sboms`: digest by media type of the lists attached beside it."""

    schema_version: Literal[1]
    project: str
    image: str
    digest: str
    content: Sha256
    platform: str
    revision: str
    simulated: bool
    labels: dict[str, str]
    suite: str
    suite_hash: Sha256
    started: datetime.datetime
    finished: datetime.datetime
    host: dict[str, str]
    versions: dict[str, str]
    runs: list[SuiteRun]
    sboms: dict[str, str]
    vulnerabilities: Vulnerabilities
    budget: Budget
    waivers: list[UsedWaiver]
    green: bool

    def raw(self) -> bytes:
        """The document's bytes: one form for one content, which a signature is made over."""
        return canonical(self.model_dump(mode="json"))


def failures(evidence: Evidence) -> list[str]:
    """What went wrong, waived or not: test ids, `vulnerabilities` (or that they were `not checked`), `budget`."""
    found = [failure for run in evidence.runs for failure in run.failures]
    found += {"passed": [], "not checked": [NOT_CHECKED]}.get(evidence.vulnerabilities.status, [VULNERABILITIES])
    found += [BUDGET] if evidence.budget.status != "passed" else []
    return found


def cover(
    failed: list[str], waivers: list[Waiver], today: datetime.date, simulated: bool
) -> tuple[list[str], list[UsedWaiver], list[str]]:
    """Split failures by the waivers of images.toml.

    Returns:
        What is not covered, the waivers that cover something, and a line on every expired one that would have.
    """
    left, used, late = list(failed), [], list[tuple[Waiver, list[str]]]()
    for waiver in waivers:
        covers = [name for name in failed if fnmatch.fnmatch(name, waiver.test)]
        if not covers or (waiver.simulated_only and not simulated):
            continue
        if waiver.until < today:
            late.append((waiver, covers))
            continue
        used.append(UsedWaiver(test=waiver.test, reason=waiver.reason, until=waiver.until, covers=covers))
        left = [name for name in left if name not in covers]
    missed = [waiver for waiver, covers in late if set(covers) & set(left)]
    return left, used, [f"the waiver for {w.test} ended on {w.until} ({w.reason})" for w in missed]


def complaints(evidence: Evidence, manifest: Manifest, today: datetime.date) -> list[str]:
    """Why an image with this evidence may not be published, in lines for a user; none when it may."""
    left, _, late = cover(failures(evidence), manifest.publish.waiver, today, evidence.simulated)
    said = [_say(name, evidence) for name in left] + late
    for run in evidence.runs:
        if not run.passed:
            said.append(f"{run.name}: no test has passed ({run.skipped} skipped): nothing was tested")
    if not evidence.runs:
        said.append("no suite was run")
    return said


def _say(name: str, evidence: Evidence) -> str:
    if name in (VULNERABILITIES, NOT_CHECKED):
        report = evidence.vulnerabilities
        counted = [f"{f.id} in {f.package} {f.version}" for f in report.findings if not f.allowed]
        shown = ", ".join(counted[:5]) + (f" and {len(counted) - 5} more" if len(counted) > 5 else "")
        return f"vulnerabilities {report.status}: {report.note or shown}"
    if name == BUDGET:
        return f"size: {evidence.budget.note}"
    return f"test failed: {name}"


def read(files: dict[str, bytes], image: Reference) -> Evidence:
    """Read an evidence artifact and check that it holds together and is about `image`.

    What it says of each run is counted again in the JUnit file, whose hash it holds.

    Raises:
        Altered: it was edited, belongs to another image, or is no evidence.
    """
    try:
        evidence = Evidence.model_validate_json(files[FILE])
    except KeyError:
        raise _forged(image, f"it has no {FILE}") from None
    except ValidationError as error:
        raise _forged(image, f"not evidence: {error.errors()[0]['loc']}") from None
    if evidence.digest != image.digest:
        raise _forged(image, f"it is about {evidence.digest}")
    for run in evidence.runs:
        data = files.get(run.junit, b"")
        if hashlib.sha256(data).hexdigest() != run.sha256:
            raise _forged(image, f"{run.junit} is not the file it names")
        if summary(outcomes(data)) != (run.passed, run.skipped, run.failures):
            raise _forged(image, f"what it says of {run.name} is not what {run.junit} says")
    return evidence


def summary(found: list[Outcome]) -> tuple[int, int, list[str]]:
    """Return (passed, skipped, ids of what failed)."""
    failed = sorted(o.test for o in found if o.result == "failed")
    return sum(o.result == "passed" for o in found), sum(o.result == "skipped" for o in found), failed


def _forged(image: Reference, why: str) -> Altered:
    return Altered(
        f"the evidence attached to {image} does not hold: {why}", "gate the image again: make gate IMAGE=..."
    )
