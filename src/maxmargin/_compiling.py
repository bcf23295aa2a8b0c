"""When numba compiles, and how long that took: no part of the time of a training."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from numba.core import event

_EVENT = "numba:compile"


class CompilationWatch(event.Listener):
    """Adds up the seconds that this process has compiled, and tells observers of a beginning.

    Functions are compiled while others are: only the outermost ones count.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.observers: list[Callable[[], None]] = []
        self._depth = 0
        self._began = 0.0

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._began = time.perf_counter()
            for observer in list(self.observers):
                observer()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began


WATCH = CompilationWatch()
event.register(_EVENT, WATCH)


def clock() -> float:
    """Seconds of a clock that stands still while functions are compiled."""
    return time.perf_counter() - WATCH.seconds
