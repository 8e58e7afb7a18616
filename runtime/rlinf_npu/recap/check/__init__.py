"""`recap check`: everything that can be known to go wrong, before anything is started."""

from collections.abc import Callable

from rlinf_npu.recap.cards import count_cards
from rlinf_npu.recap.check import datasets, host, models
from rlinf_npu.recap.check.access import guarded
from rlinf_npu.recap.check.finding import Finding
from rlinf_npu.recap.config import Config

Tell = Callable[[str, int, int], None]  # what is looked at, how many of it, of how many

__all__ = ["Finding", "errors_of", "run_checks"]


def run_checks(
    config: Config, full: bool, tell: Tell = lambda what, done, total: None, cards: int | None = None
) -> list[Finding]:
    """Look at models, datasets and the machine.

    Args:
        config: the run.
        full: read every file and every frame instead of a sample.
        tell: gets what is being looked at.
        cards: that are visible; None counts them.
    """
    parts = [
        *models.check_models(config),
        *(datasets.check_dataset(dataset, full, tell) for dataset in (*config.datasets.train, *config.datasets.eval)),
        host.check_disk(config),
        host.check_shm(host.SHM),
        host.check_cards(config, count_cards() if cards is None else cards),
    ]
    # One folder that may not be entered is one finding, whatever was looked for in it.
    return list(dict.fromkeys(finding for part in parts for finding in guarded(part)))


def errors_of(findings: list[Finding]) -> list[Finding]:
    """Return those that would make a run fail."""
    return [finding for finding in findings if finding.level == "error"]
