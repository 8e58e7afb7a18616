"""Time limits end a hang; how long something may take is a matter for the bench. So they fit the machine."""

import os
from functools import cache

from imagekit import lookup
from imagekit.manifest import load_manifest

# qemu takes nine times as long for `import torch` (1.3 s and 12.5 s on two cores); twice that leaves room for Ray.
EMULATED = 20.0


@cache
def patience() -> float:
    """What time limits are multiplied by: PATIENCE, else 1, and EMULATED for an image of another architecture."""
    if given := os.environ.get("PATIENCE"):
        return float(given)
    _, native = lookup.pick_platform(load_manifest(), os.environ.get("PLATFORM", ""))
    return 1.0 if native else EMULATED
