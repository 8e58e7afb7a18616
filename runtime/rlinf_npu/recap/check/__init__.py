"""`recap check`: everything that can be known to go wrong, before anything is started."""

from collections.abc import Callable

from rlinf_npu.recap.check import datasets, host, models
from rlinf_npu.recap.check.finding import Finding
from rlinf_npu.recap.config import Config

Tell = Callable[[str, int, int], None]  # what is looked at, how many of it, of how many

__all__ = ["Finding", "errors_of", "run_checks"]


def run_checks(config: Config, full: bool, tell: Tell = lambda what, done, total: None) -> list[Finding]:
    """Look at models, datasets and the machine; `full` reads every file and every frame instead of a sample."""
    found = [*models.check_models(config)]
    for dataset in (*config.datasets.train, *config.datasets.eval):
        found += datasets.check_dataset(dataset, full, tell)
    return [*found, *host.check_host(config)]


def errors_of(findings: list[Finding]) -> list[Finding]:
    """Return those that would make a run fail."""
    return [finding for finding in findings if finding.level == "error"]
