"""Keys of recap.yaml by their dotted names: which there are, and which an unknown one may have meant."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

NEAREST = 3


def unknown_key(model: type[BaseModel], parts: Sequence[str]) -> str | None:
    """Say that a dotted key names nothing below `model`, and what comes near it; None for a key that exists."""
    block: type[BaseModel] | None = model
    for depth, part in enumerate(parts):
        if block is None or part.isdigit():  # free keys (overrides), or a place in a list
            continue
        if part not in block.model_fields:
            near = _near(model, block, parts, depth)
            where = ".".join(parts[:depth]) or "recap.yaml"
            hint = f"did you mean {' or '.join(near)}?" if near else f"{where} has {', '.join(block.model_fields)}"
            return f"there is no key {'.'.join(parts)}; {hint}"
        block = _block(block.model_fields[part].annotation)
    return None


def _near(model: type[BaseModel], block: type[BaseModel], parts: Sequence[str], depth: int) -> list[str]:
    """Keys of the same block that look like the wrong part; else those anywhere that look like the last one."""
    here = get_close_matches(parts[depth], block.model_fields, NEAREST)
    if here:
        return [".".join((*parts[:depth], name)) for name in here]
    names = list(_names(model, ""))
    ends = get_close_matches(parts[-1], {name.rpartition(".")[2] for name in names}, NEAREST)
    return [name for end in ends for name in names if name.rpartition(".")[2] == end][:NEAREST]


def _names(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        block = _block(field.annotation)
        if block:
            place = "0." if get_args(field.annotation) else ""
            yield from _names(block, f"{prefix}{name}.{place}")


def _block(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds, by itself or in a list."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
