"""Find the first thing in which two images differ, in words for the person who has to mend it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from imagekit.reproduce.layers import Fact, content, facts
from imagekit.reproduce.stored import Stored

SHOWN = 16  # bytes on either side of a difference


@dataclass(frozen=True)
class Difference:
    """One difference.

    Attributes:
        where: `layer 3 (RUN ...)` or `configuration`.
        path: file in the layer, or key in the configuration.
        what: how the two differ.
    """

    where: str
    path: str
    what: str

    def __str__(self) -> str:
        """Three short lines' worth in one: place, path, what."""
        return f"{self.where}: {self.path}: {self.what}"


def differences(one: Stored, two: Stored) -> Iterator[Difference]:
    """Yield what differs, layers first, in the order of the layers; nothing for two equal images."""
    if one.digest == two.digest:
        return
    names = step_names(one)
    for number, (first, second) in enumerate(zip(one.layers, two.layers, strict=False), 1):
        if first != second:
            where = f"layer {number} ({names[number - 1]})" if number <= len(names) else f"layer {number}"
            yield from layer_differences(one, first, two, second, where)
    if len(one.layers) != len(two.layers):
        yield Difference("layers", "count", f"{len(one.layers)} and {len(two.layers)}")
    yield from (Difference("configuration", *found) for found in _values("", one.config, two.config))


def label_differences(one: Stored, two: Stored) -> list[str]:
    """Return the labels in which two images differ, with both values: labels say what an image was made of."""
    here, there = ((image.config.get("config") or {}).get("Labels") or {} for image in (one, two))
    return [f"{name} {here.get(name, 'none')} and {there.get(name, 'none')}" for name in _differing(here, there)]


def _differing(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    return [name for name in sorted(one.keys() | two.keys()) if one.get(name) != two.get(name)]


def step_names(image: Stored) -> list[str]:
    """Return the step that made each layer, as the image's history has it; fewer when the history is incomplete."""
    steps = [entry for entry in image.config.get("history", []) if not entry.get("empty_layer")]
    return [" ".join(str(step.get("created_by") or step.get("comment", "")).split())[:60] for step in steps]


def layer_differences(one: Stored, first: str, two: Stored, second: str, where: str) -> Iterator[Difference]:
    """Yield the entries in which two layers differ, in the first one's order; the bytes of the first one that does."""
    here, there = facts(one, first), facts(two, second)
    seen = shown = False
    for path, fact in here.items():
        if path not in there:
            yield Difference(where, path, f"{fact.kind} in the first build only")
        elif fact != there[path]:
            what = _fact_difference(fact, there[path])
            if not shown and fact.kind == there[path].kind and fact.sha256 != there[path].sha256:
                shown = True  # each look reads both layers again
                what += "; " + bytes_difference(content(one, first, path), content(two, second, path))
            yield Difference(where, path, what)
        else:
            continue
        seen = True
    for path in sorted(there.keys() - here.keys()):
        seen = True
        yield Difference(where, path, f"{there[path].kind} in the second build only")
    if not seen:
        yield Difference(where, *_packing(list(here), list(there)))


def _packing(here: list[str], there: list[str]) -> tuple[str, str]:
    """The same files, and yet not the same bytes."""
    for first, second in zip(here, there, strict=True):
        if first != second:
            return first, f"the same files in another order: {second} stands there in the second build"
    return "(whole layer)", "the same files, packed or compressed differently"


def _fact_difference(one: Fact, two: Fact) -> str:
    if one.kind != two.kind:
        return f"{one.kind} and {two.kind}"
    parts = []
    for field in fields(Fact):
        first, second = getattr(one, field.name), getattr(two, field.name)
        if first != second and field.name != "sha256":
            parts.append(f"{field.name} {first or 'none'} and {second or 'none'}")
    if one.sha256 != two.sha256:
        parts.append("content")
    return ", ".join(parts)


def bytes_difference(one: bytes, two: bytes) -> str:
    """Say where two contents part: the line of a text, else the bytes around it."""
    offset = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    if b"\0" not in one[:4096] + two[:4096]:
        number = one.count(b"\n", 0, offset) + 1
        first, second = (_line(text, offset) for text in (one, two))
        return f"line {number}: {first!r} and {second!r}"
    start = max(0, offset - SHOWN // 2)
    first, second = (text[start : start + SHOWN].hex(" ") for text in (one, two))
    return f"at byte {offset} of {len(one)}: {first} and {second}"


def _line(text: bytes, offset: int) -> str:
    start = text.rfind(b"\n", 0, offset) + 1
    end = text.find(b"\n", offset)
    return text[start : end if end >= 0 else None][:100].decode(errors="replace")


def _values(key: str, one: Any, two: Any) -> Iterator[tuple[str, str]]:
    """Keys of two configurations whose values differ; those that only follow from the layers are left out."""
    if isinstance(one, dict) and isinstance(two, dict):
        for name in _differing(one, two):
            if f"{key}.{name}" != ".rootfs":
                yield from _values(f"{key}.{name}", one.get(name), two.get(name))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for number, (first, second) in enumerate(zip(one, two, strict=True)):
            yield from _values(f"{key}[{number}]", first, second)
    elif one != two:
        yield key.removeprefix("."), f"{json.dumps(one)[:100]} and {json.dumps(two)[:100]}"
