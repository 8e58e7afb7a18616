"""How many cards this process may use, and whether the batch sizes fit them. Asked before Ray starts."""

import os
import re
import subprocess
import sys
from pathlib import Path

from rlinf_npu.devices import DEV_DIR, VISIBLE, davinci_nodes, visible_count, visible_ids
from rlinf_npu.recap.config import Config
from rlinf_npu.recap.errors import UsageError

# As Ray counts: through pyACL. In a process of its own, because acl.init() must not precede a fork of ours.
PROBE = "import acl; acl.init(); print('CARDS', acl.rt.get_device_count()[0])"
PROBE_SECONDS = 30


def count_cards() -> int:
    """Return the number of visible cards; 0 where there is neither pyACL nor a device node."""
    try:
        result = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return count_nodes()
    found = re.search(r"CARDS (\d+)", result.stdout)
    return int(found.group(1)) if found else count_nodes()


def count_nodes() -> int:
    """Return the number of visible cards that have a usable device node."""
    usable, _ = davinci_nodes(Path(os.environ.get(DEV_DIR, "/dev")))
    return visible_count(usable, visible_ids(os.environ.get(VISIBLE)))


def resolve_cards(config: Config, available: int) -> int:
    """Return how many cards the run uses.

    Raises:
        UsageError: none is visible, or the configuration asks for more.
    """
    if available < 1:
        raise UsageError(
            "no NPU is visible in this container: check the devices given to it (`doctor` says what is missing)"
        )
    wanted = available if config.cards == "auto" else config.cards
    if wanted > available:
        raise UsageError(
            f"cards: {wanted} asked for, {available} visible; set cards to {available} or give more devices"
        )
    return wanted


def batch_problem(name: str, micro: int, global_batch: int, cards: int) -> str | None:
    """Say why a global batch does not fit, with the numbers; None when it does."""
    unit = micro * cards
    if global_batch % unit == 0:
        return None
    lower, upper = global_batch // unit * unit, (global_batch // unit + 1) * unit
    nearest = f"{lower} or {upper}" if lower else str(upper)
    return (
        f"{name}.global_batch {global_batch} is not a multiple of {name}.micro_batch {micro} x {cards} cards = {unit}; "
        f"use {nearest}"
    )


def refuse_bad_batches(config: Config, cards: int) -> None:
    """Raise a UsageError naming every training step whose batch sizes do not fit the cards (of one node)."""
    steps = (("value", config.value), ("policy", config.policy))
    problems = [batch_problem(name, s.micro_batch, s.global_batch, cards * config.nodes) for name, s in steps]
    found = [problem for problem in problems if problem]
    if found:
        raise UsageError("; ".join(found))
