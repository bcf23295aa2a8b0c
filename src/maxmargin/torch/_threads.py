"""Threads over the examples of a batch: kernels release the GIL and write to disjoint arrays."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

# Operations, about a millisecond of work, below which a second thread costs more than it saves.
_WORTH_A_THREAD = 2e6
# Threads take whole groups of examples.
GROUP = 16


@functools.cache
def _pool(n_threads: int, _process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="maxmargin")


def over_examples(work: Callable[[int, int], Any], n: int, operations: float) -> list[Any]:
    """Call ``work(first, last)`` for ranges that cover the examples; returns the results.

    Uses ``torch.get_num_threads()`` threads if the batch is large enough. The results for an
    example do not depend on the number of threads.
    """
    n_groups = -(-n // GROUP)
    n_threads = min(n_groups, int(operations / _WORTH_A_THREAD))
    if n_threads > 1:
        n_threads = min(n_threads, torch.get_num_threads())
    if n_threads < 2:
        return [work(0, n)]
    ends = [min(n, GROUP * (n_groups * k // n_threads)) for k in range(n_threads + 1)]
    pool = _pool(n_threads, os.getpid())  # threads do not survive a fork
    return list(pool.map(work, ends[:-1], ends[1:]))
