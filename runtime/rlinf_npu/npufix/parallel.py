"""Pure work of Python's on several files, on all cores."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

WORTH_IT = 8  # files; below that a process costs more than it saves
MOST = 8  # processes; there are some forty files


def in_processes(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the function's result for each item, in order; the first error is raised here.

    The processes are forked: they have what this one has read and parsed.
    """
    cores = len(os.sched_getaffinity(0))
    if len(items) < WORTH_IT or cores < 2:
        return [function(item) for item in items]
    with multiprocessing.get_context("fork").Pool(min(cores, MOST)) as pool:
        return pool.map(function, items, chunksize=1)
