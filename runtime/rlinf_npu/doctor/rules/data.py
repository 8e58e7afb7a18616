"""Data layout and fixes: asked from the tools that know them, as commands."""

import json
from collections.abc import Iterator
from typing import Any

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import CONTAINER, Hit, Severity
from rlinf_npu.doctor.registry import rule

_RECAP_SECONDS = 120
_FIX_REPORT = "/usr/share/rlinf-npu/npufix.json"
_SEVERITIES = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE, "info": Severity.NOTE}


@rule(
    "recap-check",
    "Data and settings",
    needs=("recap",),
    meaning="`recap check` finds a fault in models, data or settings.",
    fix="See `recap check`.",
    link="https://github.com/RLinf/RLinf",
)
def recap_check(ctx: Context) -> Iterator[Hit]:
    """Each finding of `recap check --json <file>`."""
    answer = ctx.system.run("recap", "check", "--json", str(ctx.recap_file), seconds=_RECAP_SECONDS)
    try:
        document: Any = json.loads(answer.out)
    except ValueError:
        yield Hit(f"recap check did not answer in JSON: {answer.said()}", severity=Severity.WARNING)
        return
    for finding in document.get("findings", []) if isinstance(document, dict) else document:
        yield Hit(
            ": ".join(str(finding[key]) for key in ("where", "what") if finding.get(key)) or str(finding),
            severity=_SEVERITIES.get(
                str(finding.get("severity", finding.get("level", "error"))).lower(), Severity.ERROR
            ),
            fix=finding.get("fix"),
        )


@rule(
    "fixes-open",
    "NPU fixes",
    where=CONTAINER,
    severity=Severity.WARNING,
    meaning="RLinf's code still has places that use CUDA or NCCL where an NPU runs them, or the image was built "
    "without the fixes.",
    fix="npufix scan names them; npufix apply cures the known kinds.",
    link="https://github.com/RLinf/RLinf",
)
def fixes_open(ctx: Context) -> Iterator[Hit]:
    """The image's own report of npufix, and whether the image was built with the fixes at all."""
    if not ctx.facts.fixes:
        yield Hit("facts.json: fixes = false; this image was built without them", severity=Severity.ERROR)
        return
    try:
        report = json.loads(ctx.system.read(_FIX_REPORT) or "{}")
        count = report.get("summary", {}).get("open_on_paths", 0)
    except (ValueError, AttributeError) as error:
        yield Hit(f"{_FIX_REPORT} is not a report of npufix: {error}")
        return
    if count:
        yield Hit(f"{_FIX_REPORT}: {count} open on the paths that are run")
