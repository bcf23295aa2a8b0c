"""Work on groups of examples, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

# Number of groups of examples. It does not depend on the number of threads, so that sums are equal
# bit by bit.
_GROUPS = 64


def group_bounds(n: int, least: int = 1) -> np.ndarray:
    """Limits of the groups that one thread handles at a time, of at least ``least`` examples."""
    groups = max(1, min(n // least, _GROUPS))
    return np.unique(np.linspace(0, n, groups + 1).astype(np.int64))


def for_groups(work, n: int, n_threads: int, least: int = 1) -> list:
    """Call ``work(first, last)`` for all groups, in threads; returns the results in order."""
    bounds = group_bounds(n, least)
    return in_threads(work, list(zip(bounds[:-1], bounds[1:], strict=True)), n_threads)


def in_threads(work, pairs: list, n_threads: int) -> list:
    """Call ``work(first, last)`` for all pairs, in threads; returns the results in order.

    Of several errors the first in order is raised, as with one thread.
    """
    if n_threads == 1 or len(pairs) < 2:
        return [work(first, last) for first, last in pairs]
    results: list = [None] * len(pairs)
    places = iter(range(len(pairs)))  # each thread takes the next place
    errors: dict[int, BaseException] = {}

    def run():
        for place in places:
            if errors and min(errors) < place:
                return
            try:
                results[place] = work(*pairs[place])
            except BaseException as error:
                errors[place] = error

    helpers = min(n_threads, len(pairs)) - 1
    with ThreadPoolExecutor(helpers) as pool:
        for _ in range(helpers):
            pool.submit(run)
        run()
    if errors:
        raise errors[min(errors)]
    return results


@contextmanager
def alongside(work: Callable[[], Any], n_threads: int) -> Iterator[Callable[[], Any]]:
    """A function that returns the result of ``work()``, which several threads begin at once."""
    if n_threads == 1:
        yield work
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work).result
