"""What a run found out, as a table, as JSON, as Markdown."""

import json
from collections import Counter
from pathlib import PurePosixPath
from typing import Any

from rlinf_npu.npufix.catalogue import FIXES
from rlinf_npu.npufix.model import FixResult, Report, Use

# Parts of RLinf that the images do not run on NPUs. Everything else counts: unknown code is on the paths.
OFF_PATHS = {
    "examples/agent/": "agent",
    "examples/reasoning/": "reasoning",
    "examples/diffusion/": "diffusion",
    "rlinf/agents/": "agent",
    "rlinf/models/diffusion/": "diffusion",
    "rlinf/data/datasets/diffusion/": "diffusion",
}
EXAMPLES = {"offline_rl": "offline-rl", "sft": "sft", "embodiment": "embodied", "reward": "embodied"}


def area(path: str) -> str:
    """Path that a file belongs to: offline-rl, sft, embodied, core (shared), or one that is not run on NPUs."""
    for folder, name in OFF_PATHS.items():
        if path.startswith(folder):
            return name
    parts = PurePosixPath(path).parts
    return EXAMPLES.get(parts[1], "core") if parts[0] == "examples" and len(parts) > 1 else "core"


def on_paths(use: Use) -> bool:
    """Whether a use lies on the offline-RL, SFT or embodied path (or in code that they share)."""
    return area(use.path) in {"offline-rl", "sft", "embodied", "core"}


def open_on_paths(report: Report) -> list[Use]:
    """Uses of CUDA on the three paths that are neither fixed nor safe."""
    return [use for use in report.uses if use.status == "open" and on_paths(use)]


def summary(report: Report) -> dict[str, Any]:
    """Counts: fixes by status, uses by status, open uses by area."""
    return {
        "fixes": dict(Counter(str(result.status) for result in report.results)),
        "uses": dict(Counter(use.status for use in report.uses)),
        "open_on_paths": len(open_on_paths(report)),
        "open_by_area": dict(Counter(area(use.path) for use in report.uses if use.status == "open")),
        "files_changed": len(report.changed),
    }


def as_json(report: Report) -> str:
    """The report as JSON text (the image keeps it as npufix.json)."""
    document = {
        "summary": summary(report),
        "fixes": [_fix_dict(result) for result in report.results],
        "uses": [_use_dict(use) for use in sorted(report.uses, key=lambda use: (use.path, use.line))],
    }
    return json.dumps(document, indent=1) + "\n"


def _fix_dict(result: FixResult) -> dict[str, Any]:
    return {
        "id": result.fix.id,
        "title": result.fix.title,
        "status": str(result.status),
        "sites": [{"path": site.path, "line": site.line, "code": site.code} for site in result.sites],
        "notes": result.notes,
    }


def _use_dict(use: Use) -> dict[str, Any]:
    entry = {"path": use.path, "line": use.line, "kind": use.kind, "code": use.code, "area": area(use.path)}
    return {**entry, "status": use.status, "fix": use.fix, "reason": use.reason}


def catalogue_json() -> str:
    """The catalogue as JSON text."""
    fields = ("id", "title", "symptom", "why", "seen", "kind")
    return json.dumps([{name: getattr(fix, name) for name in fields} for fix in FIXES], indent=1) + "\n"


def catalogue_markdown() -> str:
    """The catalogue as a Markdown table (docs/npufix.md holds exactly this)."""
    rows = ["| Fix | What it does | Symptom it cures | Why | Seen in |", "|---|---|---|---|---|"]
    for fix in FIXES:
        cells = [f"`{fix.id}`", fix.title, fix.symptom, fix.why, fix.seen]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"
