"""Name the fixes that cure what a log shows. For the doctor, the four-step runner and the smoke test."""

import re

from rlinf_npu.npufix.catalogue import FIXES
from rlinf_npu.npufix.model import Fix

NEEDS_SEVERAL_CARDS = "script-device-count"  # "GPUs: 1" is the truth on a machine with one card


def fixes_for(text: str, cards: int | None = None) -> list[Fix]:
    """Fixes whose symptom is in a text, in the order of the catalogue; `cards` is how many the machine really has."""
    found = []
    for fix in FIXES:
        if fix.id == NEEDS_SEVERAL_CARDS and (cards is None or cards < 2):
            continue
        if any(re.search(sign, text, re.MULTILINE) for sign in fix.signs):
            found.append(fix)
    return found


def advice(text: str, cards: int | None = None) -> str:
    """One line that names the fixes for what a text shows, "" when there is none."""
    ids = [fix.id for fix in fixes_for(text, cards)]
    if not ids:
        return ""
    return f"npufix cures this ({', '.join(ids)}): run `npufix apply` on the RLinf tree, then `npufix verify`"
