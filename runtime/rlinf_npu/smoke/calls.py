"""The simulated CANN's call log: proof that work went to a device, and over which collectives."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

VARIABLE = "CANNSIM_LOG"
CALL = re.compile(r"^(?:\[cannsim \d+\] )?(?:STUB )?(\w+)")
ALLOCATIONS = ("aclrtMalloc", "aclrtMallocAlign32", "aclrtMallocWithCfg", "aclrtMallocPhysical")
PROBE = "import acl; acl.init(); acl.rt.get_device_count()"


def simulated(folder: Path) -> bool:
    """Whether the CANN in this environment is the simulated one: only that writes a call log."""
    log = folder / "probe.log"
    env = {**os.environ, VARIABLE: str(log)}
    subprocess.run([sys.executable, "-c", PROBE], env=env, capture_output=True, timeout=60, check=False)
    found = log.is_file() and log.stat().st_size > 0
    log.unlink(missing_ok=True)
    return found


def count_calls(log: Path) -> Counter[str]:
    """Count the calls in a log by function."""
    counts: Counter[str] = Counter()
    if not log.is_file():
        return counts
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            match = CALL.match(line)
            if match:
                counts[match.group(1)] += 1
    return counts


def allocations(counts: Counter[str]) -> int:
    """Return how often device memory was taken."""
    return sum(counts[name] for name in ALLOCATIONS)
