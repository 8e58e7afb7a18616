"""Which images may travel: ours, fixed, and simulated ones only under names that say so."""

from collections.abc import Mapping, Sequence

from imagekit.errors import Problem
from imagekit.tags import SIM, UNFIXED


def check_carriable(reference: str, names: Sequence[str], labels: Mapping[str, str], prefix: str) -> bool:
    """Return whether the image is a simulated one.

    Args:
        reference: for messages.
        names: every name it would travel under.
        labels: the image's.
        prefix: of our own labels.

    Raises:
        Problem: not an image of this project, one without the fixes, or a name that hides or feigns a simulation.
    """
    simulated = labels.get(f"{prefix}.simulated")
    if simulated not in ("true", "false"):
        raise Problem(f"{reference} is not an image of this project: it has no label {prefix}.simulated", "make image")
    if labels.get(f"{prefix}.fixes") == "none" or any(UNFIXED in name for name in names):
        raise Problem(f"{reference} has no NPU fixes and never leaves the machine it was built on", "make image")
    for name in names:
        if name.endswith(SIM) != (simulated == "true"):
            what = (
                "is simulated, but its name does not" if simulated == "true" else "is not simulated, but its name does"
            )
            raise Problem(f"{name} {what} end in {SIM}", "make image names it rightly")
    return simulated == "true"
