"""NPUS: which of the host's cards. Ranges, lists, `all`, `none`; always the host's numbers."""

import re
from collections.abc import Collection

from imagekit.errors import Problem

ITEM = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")
GRAMMAR = "write all, none, a range (0-7) or a list (0,2,5-6)"


def parse_npus(text: str, present: Collection[int], limit: int) -> list[int]:
    """Return the wanted cards in ascending order, which is the only one that CANN supports.

    Args:
        text: NPUS.
        present: numbers of the cards this host has.
        limit: how many cards a host can have.

    Raises:
        Problem: not in the grammar, a card named twice, or one that this host does not have.
    """
    word = text.strip().lower()
    if word == "none":
        return []
    if word == "all":
        return sorted(present)
    cards = [card for item in text.split(",") for card in _expand(item.strip(), text)]
    if twice := sorted({card for card in cards if cards.count(card) > 1}):
        raise Problem(f"NPUS={text}: card {show(twice)} is named twice", GRAMMAR, usage=True)
    if beyond := [card for card in cards if card >= limit]:
        raise Problem(f"NPUS={text}: no card {show(beyond)}, a host has 0-{limit - 1}", GRAMMAR, usage=True)
    if missing := sorted(set(cards) - set(present)):
        has = f"it has {show(sorted(present))}" if present else "it has none"
        raise Problem(
            f"NPUS={text}: card {show(missing)} is not on this host ({has})",
            "correct NPUS in .env; on a host without cards COMPOSE_PROFILES=sim simulates two",
            usage=True,
        )
    return sorted(cards)


def _expand(item: str, text: str) -> range:
    match = ITEM.fullmatch(item)
    if not match:
        raise Problem(f"NPUS={text}: {item!r} is not a card or a range", GRAMMAR, usage=True)
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise Problem(f"NPUS={text}: {item} runs backwards", GRAMMAR, usage=True)
    return range(first, last + 1)


def show(cards: Collection[int]) -> str:
    """Return `0-3,6` for 0, 1, 2, 3, 6 (ascending)."""
    parts: list[list[int]] = []
    for card in cards:
        if parts and card == parts[-1][-1] + 1:
            parts[-1].append(card)
        else:
            parts.append([card])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
