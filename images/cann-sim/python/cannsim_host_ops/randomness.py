"""Random numbers that follow the device's generator: torch.npu.manual_seed, get_rng_state and set_rng_state hold.

A CPU kernel cannot draw from an NPU generator. Its seed and position are turned into a seed for the CPU, and the
position moves on with each operator, as on the device.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_MASK = (1 << 63) - 1
_STEP = 4  # Philox counters come in fours
_GOLDEN = 0x9E3779B97F4A7C15  # spreads neighbouring positions over all seeds


def draws(operator: Any) -> bool:
    """Does the operator consume random numbers?"""
    return torch.Tag.nondeterministic_seeded in operator.tags


def device_generator(arguments: list[Any], device: torch.device) -> torch.Generator:
    """The NPU generator among the arguments, else the device's own."""
    for value in arguments:
        if isinstance(value, torch.Generator) and value.device.type == device.type:
            return value
    return torch.npu.default_generators[device.index or 0]  # type: ignore[no-any-return]


@contextmanager
def following(generator: torch.Generator) -> Iterator[None]:
    """Within the block, CPU operators draw from a sequence that `generator` determines; it moves on by one step."""
    previous = torch.default_generator.get_state()
    torch.default_generator.manual_seed(_next_seed(generator))
    try:
        yield
    finally:
        torch.default_generator.set_state(previous)


def _next_seed(generator: torch.Generator) -> int:
    # State: seed and position, eight bytes each.
    state = generator.get_state()
    seed, position = state.view(torch.int64).tolist()[:2]
    moved = state.clone()
    moved.view(torch.int64)[1] = position + _STEP
    generator.set_state(moved)
    return int(seed * 6364136223846793005 + (position + 1) * _GOLDEN) & _MASK
