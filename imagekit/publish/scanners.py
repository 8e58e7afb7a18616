"""What knows vulnerabilities: trivy or grype on a bill of materials, else pip-audit on its Python packages."""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from imagekit.process import Finished, run
from imagekit.publish.sbom import Package

SECONDS = 900
OSV_URL = "OSV_URL"
EVERYTHING, PYTHON_ONLY = "all packages", "Python packages only"
SEVERITIES = ("unknown", "low", "medium", "high", "critical")
NOT_COVERED = "not-covered"  # id of a finding: the database does not know the package at all


@dataclass(frozen=True)
class Found:
    """One vulnerability as a scanner tells it; severity is `unknown` where it has none."""

    id: str
    package: str
    version: str
    severity: str = "unknown"
    fixed_in: str = ""


@dataclass(frozen=True)
class Scan:
    """What a scanner said. With an `error` nothing is known, whatever `found` holds."""

    tool: str
    scope: str
    found: list[Found]
    error: str = ""


def scan(cyclonedx: bytes, packages: list[Package], environ: Mapping[str, str] = os.environ) -> Scan:
    """Ask the best scanner that is here."""
    for name, ask in (("trivy", _trivy), ("grype", _grype)):
        if program := shutil.which(name, path=environ.get("PATH")):
            return ask(program, cyclonedx)
    return _pip_audit(packages, environ)


def _trivy(program: str, cyclonedx: bytes) -> Scan:
    with tempfile.TemporaryDirectory() as folder:
        path = _written(folder, cyclonedx)
        done = run([program, "sbom", "--quiet", "--format", "json", str(path)], seconds=SECONDS)
    return _parsed("trivy", done, read_trivy)


def _grype(program: str, cyclonedx: bytes) -> Scan:
    with tempfile.TemporaryDirectory() as folder:
        path = _written(folder, cyclonedx)
        done = run([program, f"sbom:{path}", "--quiet", "--output", "json"], seconds=SECONDS)
    return _parsed("grype", done, read_grype)


def read_trivy(document: Mapping[str, Any]) -> list[Found]:
    """trivy's JSON: Results[].Vulnerabilities[]."""
    return [
        Found(
            str(v["VulnerabilityID"]),
            str(v["PkgName"]),
            str(v["InstalledVersion"]),
            str(v.get("Severity", "unknown")).lower(),
            str(v.get("FixedVersion", "")),
        )
        for result in document["Results"] or []
        for v in result.get("Vulnerabilities") or []
    ]


def read_grype(document: Mapping[str, Any]) -> list[Found]:
    """grype's JSON: matches[]; its `negligible` is `low` here."""
    return [
        Found(
            str(match["vulnerability"]["id"]),
            str(match["artifact"]["name"]),
            str(match["artifact"]["version"]),
            str(match["vulnerability"].get("severity", "unknown")).lower().replace("negligible", "low"),
            ", ".join((match["vulnerability"].get("fix") or {}).get("versions") or []),
        )
        for match in document["matches"]
    ]


def _parsed(tool: str, done: Finished, read: Any) -> Scan:
    if not done.ok:
        return Scan(tool, EVERYTHING, [], done.last_line[:200])
    try:
        return Scan(tool, EVERYTHING, read(json.loads(done.out)))
    except (ValueError, KeyError, TypeError) as error:
        return Scan(tool, EVERYTHING, [], f"its answer cannot be read: {type(error).__name__}")


def _pip_audit(packages: list[Package], environ: Mapping[str, str]) -> Scan:
    """pip-audit asks PyPI, or OSV where OSV_URL is set. Both are asked package by package, by name and version."""
    whole = Scan("pip-audit", PYTHON_ONLY, [])
    known: list[Found] = []
    asked = rounds(packages)
    if not asked:
        return replace(whole, error="the image has no Python packages, and pip-audit sees no others")
    for pinned in asked:
        part = _pip_audit_once(pinned, environ)
        if part.error:
            return part
        known += part.found
    if all(found.id == NOT_COVERED for found in known) and len(known) >= sum(map(len, asked)):
        return replace(whole, error=f"the database knows none of the {len(known)} packages")
    return replace(whole, found=known)


def rounds(packages: list[Package]) -> list[list[str]]:
    """Return requirements in lists that name no package twice: pip-audit takes no others, and vendored copies exist."""
    versions: dict[str, list[str]] = {}
    for package in packages:
        listed = versions.setdefault(_normal(package.name), []) if package.kind == "pypi" else []
        version = package.version.partition("+")[0]  # what an index calls it
        listed += [version] if version not in listed else []
    most = max(map(len, versions.values()), default=0)
    return [[f"{name}=={v[turn]}" for name, v in sorted(versions.items()) if turn < len(v)] for turn in range(most)]


def _pip_audit_once(pinned: list[str], environ: Mapping[str, str]) -> Scan:
    with tempfile.TemporaryDirectory() as folder:
        listed, answer = Path(folder, "requirements.txt"), Path(folder, "answer.json")
        listed.write_text("\n".join(pinned) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip_audit", f"--requirement={listed}", "--no-deps", "--disable-pip"]
        command += ["--format=json", f"--output={answer}", "--progress-spinner=off", f"--cache-dir={folder}/cache"]
        if url := environ.get(OSV_URL):
            command += ["--vulnerability-service=osv", f"--osv-url={url}"]
        done = run(command, seconds=SECONDS)
        if not answer.is_file() or not answer.stat().st_size:
            return Scan("pip-audit", PYTHON_ONLY, [], _why(done))
        return Scan("pip-audit", PYTHON_ONLY, read_pip_audit(json.loads(answer.read_text(encoding="utf-8"))))


def read_pip_audit(document: Mapping[str, Any]) -> list[Found]:
    """pip-audit's JSON: dependencies[], each with vulns[] or a skip_reason."""
    found = []
    for entry in document["dependencies"]:
        name, version = str(entry["name"]), str(entry.get("version", ""))
        if "skip_reason" in entry:
            found.append(Found(NOT_COVERED, name, version or _version_in(entry["skip_reason"])))
        for vulnerability in entry.get("vulns") or []:
            fixed = ", ".join(vulnerability.get("fix_versions") or [])
            found.append(Found(str(vulnerability["id"]), name, version, fixed_in=fixed))
    return found


def _version_in(reason: str) -> str:
    match = re.search(r"\(([^()]*)\)", reason)
    return match[1] if match else ""


def _why(done: Finished) -> str:
    """The cause out of a traceback or a log line: what the last line says is long and mostly addresses."""
    for pattern, short in (
        (r"Failed to resolve|NameResolution|Name or service not known", "its name cannot be resolved"),
        (r"Connection refused", "it refuses the connection"),
        (r"timed out|Timeout", "it does not answer in time"),
        (r"CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted"),
    ):
        if re.search(pattern, done.out + done.err):
            return f"the vulnerability database is out of reach: {short}"
    return f"pip-audit failed: {done.last_line[:160]}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _written(folder: str, data: bytes) -> Path:
    path = Path(folder, "sbom.cyclonedx.json")
    path.write_bytes(data)
    return path
