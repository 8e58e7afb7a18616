"""`recap health`: for a container's health check. Training is healthy, hung is not."""

import time

from rlinf_npu.recap import lock
from rlinf_npu.recap.layout import LOG_NAMES, STEPS, TITLES, Run
from rlinf_npu.recap.progress import duration
from rlinf_npu.recap.state import load_state
from rlinf_npu.recap.watchdog import signs_of_life


def health(run: Run, silence: float) -> tuple[bool, str]:
    """Return whether the run is well, and one line why. Idle and finished are well."""
    for name in STEPS:
        state = load_state(run.state_file(name), name)
        if state.status != "running" or state.log_dir is None:
            continue
        if not lock.held(run.root):
            return False, f"{TITLES[name]} was killed: `recap run` goes on"
        files = signs_of_life(state.log_dir / LOG_NAMES[name], state.log_dir)
        newest = max((path.stat().st_mtime for path in files), default=state.started or 0.0)
        quiet = time.time() - newest
        if quiet > silence:
            return False, f"{TITLES[name]}: nothing happened for {duration(quiet)}"
        return True, f"{TITLES[name]}: last sign of life {duration(max(0.0, quiet))} ago"
    return True, "no step is running"
