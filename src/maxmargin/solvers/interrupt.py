"""Ctrl-C during a fit ends it at the next safe place; a second one ends it at once.

The second one may reach another fit, as a search continues with its next fit after the first one.
Two within a second therefore always end everything.
"""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

TWICE_WITHIN = 1.0  # seconds
_asked_at = -TWICE_WITHIN  # when Ctrl-C last ended a fit of this process


class InterruptGuard:
    """Context in which the first SIGINT only sets ``requested``, and the second one is raised.

    Outside the main thread, or where another handler is installed, nothing changes.
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
        global _asked_at
        signal.signal(signal.SIGINT, self._before)
        self.requested = True
        before, _asked_at = _asked_at, time.monotonic()
        if _asked_at - before < TWICE_WITHIN:
            raise KeyboardInterrupt

    def __exit__(self, *exc) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
