"""Ctrl-C during a fit asks it to end at the next safe place; a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from typing import Any


class InterruptGuard:
    """Context in which the first SIGINT only sets ``requested``.

    Outside the main thread, or where somebody else handles the signal, nothing changes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None

    def __enter__(self) -> InterruptGuard:
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, signum, frame) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, self._before)

    def __exit__(self, *exc) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
