"""What differs for an image of another architecture: qemu runs it, slowly, as a processor of the servers' kind.

Time limits end a hang; how long something may take is a matter for the bench. So they fit the machine.
"""

import os
from functools import cache

from imagekit import lookup
from imagekit.manifest import Platform, load_manifest

# qemu takes nine times as long for `import torch` (1.3 s and 12.5 s on two cores); twice that leaves room for Ray.
EMULATED = 20.0
# The servers' Kunpeng 920 is an Armv8.2 processor with atomics and without SVE; so is this one. qemu's default has
# everything, and signs and checks each return address, which makes Python a third slower.
PROCESSORS = {"arm64": "neoverse-n1"}


@cache
def patience() -> float:
    """What time limits are multiplied by: PATIENCE, else 1, and EMULATED for an image of another architecture."""
    if given := os.environ.get("PATIENCE"):
        return float(given)
    return 1.0 if _under_test()[1] else EMULATED


@cache
def processor() -> dict[str, str]:
    """Variables for a container that choose which processor qemu shows it; none on a machine of its architecture."""
    platform, native = _under_test()
    return {} if native or platform.arch not in PROCESSORS else {"QEMU_CPU": PROCESSORS[platform.arch]}


def _under_test() -> tuple[Platform, bool]:
    return lookup.pick_platform(load_manifest(), os.environ.get("PLATFORM", ""))
