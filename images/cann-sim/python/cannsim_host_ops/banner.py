"""One line on stderr that says what this is; once per tree of processes."""

import os
import sys

_SHOWN = "CANNSIM_BANNER_SHOWN"  # also set by the toolkit's set_env.sh when it has printed the banner
TEXT = "simulated NPU: CANN stand-in, operators run on the CPU; nothing here comes from Ascend hardware or software"


def show() -> None:
    """Print the banner unless a parent process did, or CANNSIM_QUIET is set. Children inherit the mark."""
    if os.environ.get("CANNSIM_QUIET", "0") not in ("", "0") or os.environ.get(_SHOWN):
        return
    os.environ[_SHOWN] = "1"
    print(TEXT, file=sys.stderr)
