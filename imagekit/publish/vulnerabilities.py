"""The vulnerability report: what a scanner found, against the list of known ones in images.toml."""

import datetime
import fnmatch

from imagekit.manifest import KnownVulnerability, Publish
from imagekit.publish.evidence import Finding, Status, Vulnerabilities
from imagekit.publish.scanners import PYTHON_ONLY, SEVERITIES, Found, Scan


def report(scan: Scan, publish: Publish, today: datetime.date) -> Vulnerabilities:
    """Judge a scan. Nothing known is `not checked`, never `passed`; an expired entry of the list allows nothing."""
    findings, late = [], []
    for found in scan.found:
        entry = next((k for k in publish.vulnerability if _names(k, found)), None)
        if entry and entry.review_by < today:
            late.append(f"{entry.id} was to be reviewed by {entry.review_by}")
        allowed = entry.reason if entry and entry.review_by >= today else _too_low(found, scan, publish)
        findings.append(
            Finding(
                id=found.id,
                package=found.package,
                version=found.version,
                severity=found.severity,
                fixed_in=found.fixed_in,
                allowed=allowed,
            )
        )
    status: Status = "not checked" if scan.error else "failed" if any(not f.allowed for f in findings) else "passed"
    note = scan.error if scan.error else "; ".join(sorted(set(late)))
    return Vulnerabilities(status=status, tool=scan.tool, scope=scan.scope, note=note, findings=findings)


def _names(entry: KnownVulnerability, found: Found) -> bool:
    return entry.id == found.id and fnmatch.fnmatch(found.package, entry.package)


def _too_low(found: Found, scan: Scan, publish: Publish) -> str:
    """Severities count only where the scanner has them; `unknown` always counts."""
    if scan.scope == PYTHON_ONLY or found.severity not in SEVERITIES or found.severity == "unknown":
        return ""
    below = SEVERITIES.index(found.severity) < SEVERITIES.index(publish.fail_severity)
    return f"below {publish.fail_severity}" if below else ""
