"""Advantages from values and returns: A = normalize(r_t + ... + r_{t+n-1}) + gamma^n V(o_{t+n}) - V(o_t)."""

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Frames:
    """Columns over all frames of a dataset, in dataset order; all arrays have shape (frames,)."""

    episode: np.ndarray
    frame: np.ndarray
    episode_end: np.ndarray  # index of the first frame after the episode
    returns: np.ndarray
    rewards: np.ndarray


@dataclass(frozen=True)
class Scale:
    """Range of the returns over all training sets, and the discounting."""

    low: float
    high: float
    gamma: float
    lookahead: int
    discount_next: bool = True


def shards(frames: int, world: int) -> list[range]:
    """Split the frames over the ranks; the first ranks take one more where it does not come out even."""
    base, extra = divmod(frames, world)
    starts = [rank * base + min(rank, extra) for rank in range(world + 1)]
    return [range(start, end) for start, end in itertools.pairwise(starts)]


def advantages(frames: Frames, values: np.ndarray, values_ahead: np.ndarray, scale: Scale) -> dict[str, np.ndarray]:
    """Return the numeric columns of advantages.parquet, each of shape (frames,).

    `values_ahead` is the value `lookahead` frames later, anything where the episode has ended by then.
    """
    index = np.arange(len(values))
    ahead = index + scale.lookahead
    beyond = ahead >= frames.episode_end
    valid = np.minimum(scale.lookahead, frames.episode_end - index)
    bounded = np.minimum(ahead, len(values) - 1)
    value_next = np.where(beyond, 0.0, values_ahead)
    raw = reward_sums(frames, scale, bounded, beyond, valid)
    span = scale.high - scale.low
    reward_sum = (raw - scale.low) / span - 1.0 if span > 0 else np.full(len(raw), -0.5)
    discount = scale.gamma**valid if scale.discount_next else np.ones(len(raw))
    return {
        "advantage_continuous": reward_sum + discount * value_next - values,
        "return": frames.returns,
        "value_current": values,
        "value_next": value_next,
        "reward_sum": reward_sum,
        "reward_sum_raw": raw,
        "num_valid_rewards": valid,
    }


def reward_sums(frames: Frames, scale: Scale, bounded: np.ndarray, beyond: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Discounted sum of the next `valid` rewards of every frame."""
    if abs(scale.gamma - 1.0) < 1e-8:  # undiscounted: a difference of two returns
        return frames.returns - np.where(beyond, 0.0, frames.returns[bounded])
    powers = scale.gamma ** np.arange(scale.lookahead)
    return np.array([powers[:n] @ frames.rewards[i : i + n] for i, n in enumerate(valid)])


def threshold(scores: np.ndarray, positive_fraction: float) -> float:
    """Score from which on the best `positive_fraction` lie, over all datasets together."""
    return float(np.percentile(scores, (1.0 - positive_fraction) * 100.0))
