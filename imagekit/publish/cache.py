"""Green results by (image content, suite): what has been tested is not tested again. Red ones are never kept."""

import shutil
from pathlib import Path

from pydantic import ValidationError

from imagekit.publish.evidence import SuiteRun
from imagekit.publish.suites import Job

RECORD = "run.json"


def place(root: Path, content: str, suite_hash: str, job: Job) -> Path:
    """Return the folder of one result."""
    return root / f"{content[:32]}-{suite_hash[:32]}-{job.name}"


def find(folder: Path, into: Path) -> SuiteRun | None:
    """Return a kept result, its JUnit file copied to `into`; None when there is none that can be read."""
    try:
        kept = SuiteRun.model_validate_json((folder / RECORD).read_text(encoding="utf-8"))
        into.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / kept.junit, into / kept.junit)
    except (OSError, ValidationError):
        return None
    return kept.model_copy(update={"cached": True})


def keep(folder: Path, run: SuiteRun, reports: Path) -> None:
    """Keep a green result."""
    if run.failures or not run.passed:
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(reports / run.junit, folder / run.junit)
    (folder / RECORD).write_text(run.model_dump_json(indent=1) + "\n", encoding="utf-8")
