"""Which chip this host has: what npu-smi says, else what its user says."""

import re
import shutil
import sys
from collections.abc import Callable, Sequence

from imagekit.errors import Problem
from imagekit.manifest import Manifest
from imagekit.process import run

CARD = re.compile(r"^\|\s*\d+\s+(\S*[A-Za-z]\S*)\s*\|")  # | 0     910B3               | OK            | ...
SECONDS = 30.0  # npu-smi asks every card, and a sick one takes its time
NPU_SMI = ("npu-smi", "/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi")

Ask = Callable[[Sequence[str]], str]


def cards_of(table: str) -> list[str]:
    """Return the cards' names in what `npu-smi info` prints."""
    return [match[1] for line in table.splitlines() if (match := CARD.match(line))]


def find_chip(manifest: Manifest, given: str, published: Sequence[str], ask: Ask | None = None) -> str:
    """Return the chip, as the tags name it.

    Args:
        manifest: images.toml.
        given: CHIP, goes before everything.
        published: chips that there are releases for.
        ask: asks the user to pick one of them; by default on a terminal only.

    Raises:
        Problem: CHIP is unknown, the cards are unknown or of two kinds, or there is nobody to ask.
    """
    known = {chip.tag: chip.names for chip in manifest.chip}
    if given:
        if given not in known:
            raise Problem(f"CHIP={given} is not a chip", f"known: {', '.join(known)}", usage=True)
        return given
    names = sorted(set(cards_of(_npu_smi())))
    chips = {_chip_of(name, known) for name in names}
    if len(chips) == 1:
        return chips.pop()
    if chips:
        raise Problem(f"this host has cards of several kinds: {', '.join(names)}", "say which: CHIP=", usage=True)
    ask = ask or (_ask if sys.stdin.isatty() else None)
    if ask is None:
        raise Problem("npu-smi shows no card here, so the chip is unknown", f"CHIP={'|'.join(published)}", usage=True)
    return find_chip(manifest, ask(published), published)


def _chip_of(name: str, known: dict[str, str]) -> str:
    for chip, pattern in known.items():
        if re.match(pattern, name):
            return chip
    raise Problem(f"npu-smi calls the cards {name}, which no chip of images.toml is called", "CHIP=", usage=True)


def _npu_smi() -> str:
    program = next((found for name in NPU_SMI if (found := shutil.which(name))), None)
    return run((program, "info"), seconds=SECONDS).out if program else ""


def _ask(published: Sequence[str]) -> str:
    return input(f"Which chip is the image for ({', '.join(published)})? ").strip()
