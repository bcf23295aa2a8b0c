"""What a user sees while a fit runs or a file is read: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOGGER = logging.getLogger("maxmargin")
_SECONDS_BETWEEN_DRAWINGS = 0.1
# Seconds between two messages of a fit; 0: every check is a message.
_between_messages = 0.0
# A file that is read within this time needs no bar.
_SECONDS_BEFORE_READING_IS_SHOWN = 0.5
_SHORTEST_BAR, _LONGEST_BAR = 4, 30
# Seconds that the first fit of an estimator compiles, where they were measured: see
# docs/results/benchmarks.md.
_FIRST_FIT_SECONDS = {"SequenceLabeler": 8, "MulticlassClassifier": 4, "GraphLabeler": 29}


@contextmanager
def messages_every(seconds: float) -> Iterator[None]:
    """Without a terminal, fits log a message after this time instead of one per check."""
    global _between_messages
    before, _between_messages = _between_messages, seconds
    try:
        yield
    finally:
        _between_messages = before


class _Reporter:
    """One line with a bar on a terminal, messages of the logger ``"maxmargin"`` elsewhere.

    To be used in a ``with`` block. Whoever asks for ``verbose=1`` should see something: within the
    block the logger lets INFO messages through, and it gets a handler that writes to standard error
    if logging is not set up.
    """

    def __init__(self, verbose: int, name: str) -> None:
        self._name = name
        self._drawn_time = -float("inf")
        self._drawn_length = 0
        self._handler: logging.Handler | None = None
        self._level: int | None = None
        self.mode = "silent"
        if verbose > 0:
            self.mode = "bar" if _is_terminal(sys.stderr) else "log"

    def __enter__(self) -> Any:
        if self.mode == "log":
            if not _is_logging_set_up():
                self._handler = logging.StreamHandler(sys.stderr)
                self._handler.setFormatter(logging.Formatter("%(message)s"))
                _LOGGER.addHandler(self._handler)
            if not _LOGGER.isEnabledFor(logging.INFO):
                self._level = _LOGGER.level
                _LOGGER.setLevel(logging.INFO)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._drawn_length:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._drawn_length = 0
        if self._level is not None:
            _LOGGER.setLevel(self._level)
            self._level = None
        if self._handler is not None:
            _LOGGER.removeHandler(self._handler)
            self._handler = None

    def _log(self, parts: list[str]) -> None:
        _LOGGER.info("%s: %s", self._name, "  ".join(parts))

    def _is_due(self) -> bool:
        """Whether the bar was drawn long enough ago."""
        waited = time.perf_counter() - self._drawn_time
        return self.mode == "bar" and waited >= _SECONDS_BETWEEN_DRAWINGS

    def _show(self, done: float, parts: list[str]) -> None:
        """Draw the bar, with as many parts beside it as fit."""
        self._drawn_time = time.perf_counter()
        # A line that fills the last column would wrap, and could not be rewritten.
        line = _fit_line(self._name, done, parts, _width(sys.stderr) - 1, _marks(sys.stderr))
        sys.stderr.write("\r" + line.ljust(self._drawn_length))
        sys.stderr.flush()
        self._drawn_length = len(line)


class ProgressReporter(_Reporter):
    """Report the checks of a solver that stops after ``max_iter`` passes or at a relative gap.

    ``name`` is what is being fitted, ``tol`` the relative gap; nothing is reported if ``verbose``
    is 0 or less. ``per_round`` is the number of passes in a round of partitions, which are then
    counted instead of passes; 0 if there are no partitions. The bar shows the passes of all that
    are allowed, or how far the logarithm of the gap has come towards that of the tolerance,
    whichever is more, and is full when the fit ends. Compilation is announced once, also to the
    logger of a silent fit.
    """

    def __init__(
        self, verbose: int, max_iter: int, name: str, tol: float = 0.0, per_round: int = 0
    ) -> None:
        super().__init__(verbose, name)
        self._max_iter, self._tol = max_iter, tol
        self._unit, self._per_unit = ("round", per_round) if per_round else ("pass", 1)
        self._first_gap: float | None = None
        self._closed = 0.0  # share of the way from the first gap to the tolerance
        self._check: Any = None
        self._check_time = -float("inf")
        self._announced = False
        self._between_messages, self._logged = _between_messages, time.perf_counter()

    def __enter__(self) -> Any:
        from ._compiling import WATCH  # imports numba

        WATCH.observers.append(self._announce)
        return super().__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        from ._compiling import WATCH

        WATCH.observers.remove(self._announce)
        if self.mode == "bar" and self._check is not None and kind is None:
            self._closed = 1.0
            self._draw(self._check.passes)
        super().__exit__(kind, error, traceback)

    def _announce(self) -> None:
        """Say, once per fit, that functions are compiled."""
        if self._announced:
            return
        self._announced = True
        seconds = _FIRST_FIT_SECONDS.get(self._name)
        about = "" if seconds is None else f", about {seconds} s"
        what = f"compiling kernels, once per machine{about}"
        if self.mode == "bar":
            self._show(0.0, [what])
        else:
            self._log([what])

    def update(self, check: Any) -> None:
        """Report a check of the solver; its values that are None are left out."""
        self._check, self._check_time = check, time.perf_counter()
        if self.mode == "log" and not self._between_messages:
            done = f"{check.passes / self._per_unit:.4g}"
            self._log([self._counted(done), *_figures(check, check.seconds)])
        elif self.mode == "bar":
            self._closed = max(self._closed, self._share_closed(check))
            self._draw(check.passes)

    def _counted(self, done: str) -> str:
        return f"{self._unit} {done}/{math.ceil(self._max_iter / self._per_unit):g}"

    def _share_closed(self, check: Any) -> float:
        """How far the logarithm of the relative gap has come towards that of the tolerance."""
        if not check.gap or not check.primal or not self._tol:
            return 0.0
        gap = check.gap / abs(check.primal)
        if not 0.0 < gap < math.inf:
            return 0.0
        if self._first_gap is None:
            self._first_gap = gap
        if gap <= self._tol:
            return 1.0
        return max(0.0, math.log(self._first_gap / gap) / math.log(self._first_gap / self._tol))

    def pulse(self, fraction_of_pass: float, passes: float) -> None:
        """Move the bar between two checks, some way beyond the number of complete passes; or log a
        message, where they come now and then.

        Cheap enough to be called often.
        """
        if self._is_due():
            self._draw(passes + fraction_of_pass)
        elif self.mode == "log" and self._between_messages:
            now = time.perf_counter()
            if now - self._logged >= self._between_messages:
                self._logged = now
                self._log(self._parts(passes))

    def _parts(self, position: float) -> list[str]:
        """The pass or round, the figures of the last check, and the time."""
        parts = [self._counted(str(int(position / self._per_unit)))]
        if self._check is not None:
            seconds = self._check.seconds + time.perf_counter() - self._check_time
            parts += _figures(self._check, seconds)
        return parts

    def _draw(self, position: float) -> None:
        passed = position / self._max_iter if self._max_iter > 0 else 1.0
        self._show(max(passed, self._closed), self._parts(position))


class EpochReporter(_Reporter):
    """Report the epochs of a network in training."""

    def __init__(self, verbose: int, max_epochs: int, name: str) -> None:
        super().__init__(verbose, name)
        self._max_epochs = max_epochs

    def update(self, epoch: Any) -> None:
        """Report an epoch: its number, loss and accuracy, which may be None."""
        parts = [f"epoch {epoch.number}/{self._max_epochs}", f"loss {epoch.loss:.4g}"]
        if epoch.accuracy is not None:
            parts.append(f"accuracy {epoch.accuracy:.4f}")
        if self.mode == "log":
            self._log(parts)
        elif self.mode == "bar":
            self._show(epoch.number / self._max_epochs, parts)


class ReadingReporter(_Reporter):
    """Report how much of a file has been read; where there is no terminal, once at the end."""

    def __init__(self, verbose: int, name: str) -> None:
        super().__init__(verbose, name)
        self._began = time.perf_counter()
        self._done = self._total = 0

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._drawn_length and kind is None:
            self._show(self._share, self._figures())
        if self.mode == "log" and kind is None and self._total:
            self._log(self._figures())
        super().__exit__(kind, error, traceback)

    def update(self, done: int, total: int) -> None:
        """Report the number of bytes read so far, of a total; cheap enough to be called often."""
        self._done, self._total = done, total
        waited = time.perf_counter() - self._began
        if waited >= _SECONDS_BEFORE_READING_IS_SHOWN and self._is_due():
            self._show(self._share, self._figures())

    @property
    def _share(self) -> float:
        return self._done / max(1, self._total)

    def _figures(self) -> list[str]:
        seconds = time.perf_counter() - self._began
        return [f"{self._done / 1e6:.1f}/{self._total / 1e6:.1f} MB", f"{seconds:.1f} s"]


class WorkReporter(_Reporter):
    """Report how many pieces of work are done, of a total; every piece is a message elsewhere."""

    def __init__(self, verbose: int, name: str, total: int) -> None:
        super().__init__(verbose, name)
        self._total, self._done, self._last = total, 0, ""
        self._began = time.perf_counter()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._drawn_length:
            self._draw()
        super().__exit__(kind, error, traceback)

    def done(self, what: str) -> None:
        """Report a piece that is done, by its name; from any thread, one at a time."""
        self._done, self._last = self._done + 1, what
        if self.mode == "log":
            self._log(self._figures())

    def tick(self) -> None:
        """Keep the line up to date; cheap enough to be called often."""
        if self._is_due():
            self._draw()

    def _figures(self) -> list[str]:
        seconds = time.perf_counter() - self._began
        return [f"{self._done}/{self._total}", f"{seconds:.0f} s", self._last]

    def _draw(self) -> None:
        self._show(self._done / max(1, self._total), self._figures())


def _is_logging_set_up() -> bool:
    """Whether messages of our logger can reach a handler other than the silent one."""
    logger: logging.Logger | None = _LOGGER
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # no standard error at all, or a closed one
        return False


def _width(stream: Any) -> int:
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):
        columns = 0
    return columns or shutil.get_terminal_size().columns


def _marks(stream: Any) -> tuple[str, str]:
    is_unicode = (getattr(stream, "encoding", None) or "").lower().startswith("utf")
    return ("█", "─") if is_unicode else ("#", "-")


def _figures(check: Any, seconds: float) -> list[str]:
    """The numbers of a check, the most important first."""
    figures = []
    for label, key, form in (
        ("primal", "primal", "#.4g"),
        ("dual", "dual", "#.4g"),
        ("gap", "gap", ".1e"),
        ("validation", "validation_score", "#.4g"),
    ):
        value = getattr(check, key, None)  # not every check has a validation score
        if value is not None:
            figures.append(f"{label} {value:{form}}")
    return [*figures, f"{seconds:.1f} s"]


def _fit_line(name: str, done: float, parts: list[str], width: int, marks: tuple[str, str]) -> str:
    """Name, bar and as many parts as fit; the last parts go first, then the bar."""
    kept = list(parts)
    while len(kept) > 1 and len(name) + 3 + _SHORTEST_BAR + len("  ".join(kept)) > width:
        kept.pop()
    text = "  ".join(kept)
    free = min(width - len(name) - 3 - len(text), _LONGEST_BAR)
    if free < _SHORTEST_BAR:
        return text[: max(width, 0)]
    full = min(max(round(done * free), 0), free)
    return f"{name}  {marks[0] * full}{marks[1] * (free - full)} {text}"
