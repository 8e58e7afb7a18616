"""Time limits end a hang; how long something may take is a matter for the bench. So they fit the machine."""

import os
from functools import cache

from imagekit import lookup
from imagekit.manifest import load_manifest

# qemu against this machine's own programs: `import torch` 4 s and 70 s, and a core or two are no more than before.
EMULATED = 20.0


@cache
def patience() -> float:
    """What time limits are multiplied by: PATIENCE, else 1, and EMULATED for an image of another architecture."""
    if given := os.environ.get("PATIENCE"):
        return float(given)
    _, native = lookup.pick_platform(load_manifest(), os.environ.get("PLATFORM", ""))
    return 1.0 if native else EMULATED
