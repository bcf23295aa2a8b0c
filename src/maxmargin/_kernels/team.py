"""Threads that work together within a pass; the result does not depend on their number.

**Batches** of examples: the answers to all examples of a batch are computed at the weights before
the batch, by any thread and in any order. When all are known, one thread, the leader, changes the
weights by them, in the order of the examples. A thread takes the next example that nobody has
taken, so the leader does all the work if there are no other threads, or if they are late. Examples
that take longest come first, so that threads wait less for the last one.

What is visited, and how, is the class of a task: a NamedTuple that implements :func:`answer_item`
and :func:`apply_item`.

**In step**: all threads run the same kernel, each on its own share of every phase of the work, and
wait for each other between two phases.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .chunks import _array, _row_types_fit
from .jit import leaf

# Places of the counters: items taken, items open, items answered, and whether all is done. Each has
# two cache lines of its own.
_TAKEN, _OPEN, _ANSWERED, _ENDED = 0, 16, 32, 48
_SIZE = 64
_LINES = 16  # numbers in two cache lines
# Number of looks at the counters, about a microsecond in all, before a thread lets others run.
_LOOKS = 300
# Long waits in a row after which a thread sleeps once. Threads that only let each other run may
# stay on one processor while another is idle; one that wakes up is put on an idle processor.
_MOST_LATE = 16


def answer_item(task, item, scratch):
    """Compute the step of an item at the present weights, which stay as they are."""


def apply_item(task, item, scratch):
    """Make the step of an item; by one thread at a time, while no other computes answers."""


def _is_counter(array) -> bool:
    return _row_types_fit(array, dtypes=(types.int64,))


def _place(context, builder, signature, args):
    return builder.gep(_array(context, builder, signature, args, 0).data, [args[1]])


@intrinsic
def _look(typingctx, counters, place):
    """A counter, and everything that was written before it was set."""
    if not _is_counter(counters):
        return None

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature, args), "acquire", 8)

    return types.int64(counters, types.int64), codegen


@intrinsic
def _set(typingctx, counters, place, value):
    """Set a counter, after everything written before."""
    if not _is_counter(counters):
        return None

    def codegen(context, builder, signature, args):
        builder.store_atomic(args[2], _place(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.none(counters, types.int64, types.int64), codegen


@intrinsic
def _increase(typingctx, counters, place):
    """Add 1 to a counter, after everything written before."""
    if not _is_counter(counters):
        return None

    def codegen(context, builder, signature, args):
        one = ir.Constant(ir.IntType(64), 1)
        builder.atomic_rmw("add", _place(context, builder, signature, args), one, "acq_rel")
        return context.get_dummy_value()

    return types.none(counters, types.int64), codegen


@intrinsic
def _replace(typingctx, counters, place, old, new):
    """Set a counter if it has an expected value; returns whether it had."""
    if not _is_counter(counters):
        return None

    def codegen(context, builder, signature, args):
        place = _place(context, builder, signature, args)
        found = builder.cmpxchg(place, args[2], args[3], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(counters, types.int64, types.int64, types.int64), codegen


@intrinsic
def _let_others_run(typingctx):
    """Give the processor to another thread, where the system has a function for it."""

    def codegen(context, builder, signature, args):
        if sys.platform != "win32":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.none(), codegen


@intrinsic
def _sleep(typingctx):
    """Sleep for a moment, where the system has a function for it."""

    def codegen(context, builder, signature, args):
        if sys.platform != "win32":
            number = ir.IntType(32)
            kind = ir.FunctionType(number, [number])
            function = cgutils.get_or_insert_function(builder.module, kind, "usleep")
            builder.call(function, [ir.Constant(number, 1)])
        return context.get_dummy_value()

    return types.none(), codegen


@leaf
def _take(counters):
    """An open item that nobody has taken, or -1."""
    while True:
        item = _look(counters, _TAKEN)
        if item >= _look(counters, _OPEN):
            return -1
        if _replace(counters, _TAKEN, item, item + 1):
            return item


@leaf
def run_batches(task, turns, counters, leads, size, ahead, scratch):
    """Work on batches of ``size`` items until all are done; one thread leads.

    ``turns`` are the items in the order in which they are answered. If answers do not depend on
    steps, threads may be ``ahead``: they answer the next batch while the leader makes the steps.
    """
    n_items = turns.shape[0]
    applied, opened, looks = 0, 0, 0
    while True:
        turn = _take(counters)
        if turn >= 0:
            answer_item(task, turns[turn], scratch)
            _increase(counters, _ANSWERED)
            looks = 0
        elif leads and _look(counters, _ANSWERED) == opened:
            last, opened = opened, min(opened + size, n_items)
            if ahead:
                _set(counters, _OPEN, opened)
            for item in range(applied, last):
                apply_item(task, item, scratch)
            if last == n_items:
                _set(counters, _ENDED, 1)
                return
            applied = last
            if not ahead:
                _set(counters, _OPEN, opened)
        elif _look(counters, _ENDED) != 0:
            return
        else:
            looks += 1
            if looks > _LOOKS:
                _let_others_run()


class Workspace:
    """Arrays that threads use again from call to call: the system clears the memory of a new large
    array, which takes longer than most calls use it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], np.ndarray] = {}

    def array(self, name: str, shape: Any, dtype: Any = np.float64, thread: int = 0) -> np.ndarray:
        """An array that was zero when it was made; calls leave anything in it, or zeros where they
        rely on them."""
        size = int(np.prod(shape))
        found = self._kept.get((name, thread))
        if found is None or len(found) < size:
            found = self._kept[name, thread] = np.zeros(size, dtype)
        return found[:size].reshape(shape)

    def __reduce__(self) -> Any:
        return Workspace, ()  # a copy has arrays of its own


def in_batches(
    task: Any, costs: np.ndarray, size: int, n_threads: int, make_scratch: Callable[[int], Any],
    ahead: bool = False,
) -> None:  # fmt: skip
    """Visit the items of a task in batches of ``size``; thread t uses ``make_scratch(t)``.

    ``costs`` says how long each item takes, in any unit. With ``ahead`` two batches are under way
    at a time.
    """
    counters = np.zeros(_SIZE, np.int64)
    turns = np.lexsort((-costs, np.arange(len(costs)) // size))

    def work(thread: int) -> None:
        run_batches(task, turns, counters, thread == 0, size, ahead, make_scratch(thread))

    _run(work, min(n_threads, size), counters, _ENDED)


def _run(work: Callable[[int], None], n_threads: int, counters: np.ndarray, ended: int) -> None:
    """Call ``work(0)`` here, and with each other number in a thread."""
    if n_threads == 1:
        work(0)
        return
    with ThreadPoolExecutor(n_threads - 1) as pool:
        try:
            running = [pool.submit(work, number) for number in range(1, n_threads)]
            work(0)
        finally:
            counters[ended] = 1  # also if the leader failed: nobody waits for it
        for helper in running:
            helper.result()


@leaf
def wait_for_all(counters, own, n_threads, phase):
    """Wait until all threads have reached a phase, and see what they wrote before.

    Returns false if this will not happen, because one of them failed.
    """
    if n_threads == 1:
        return True
    _set(counters, _LINES * own, phase)
    looks = 0
    for other in range(n_threads):
        while _look(counters, _LINES * other) < phase:
            looks += 1
            if looks > _LOOKS:
                if _look(counters, _LINES * n_threads) != 0:
                    return False
                _let_others_run()
    late = _LINES * own + 1
    counters[late] = counters[late] + 1 if looks > _LOOKS else 0
    if counters[late] > _MOST_LATE:
        counters[late] = 0
        _sleep()
    return True


def make_counters(n_threads: int) -> np.ndarray:
    """The phase that each thread has reached, and whether one has failed or all is done."""
    return np.zeros(_LINES * (n_threads + 1), np.int64)


def in_step(work: Callable[[int], None], counters: np.ndarray) -> None:
    """Call ``work(number)`` in all threads; kernels there meet at :func:`wait_for_all`."""
    n_threads = len(counters) // _LINES - 1

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException:
            counters[_LINES * n_threads] = 1
            raise

    _run(guarded, n_threads, counters, _LINES * n_threads)


def processors() -> int:
    """Number of processors that this process may use; more threads in step would wait for turns."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
