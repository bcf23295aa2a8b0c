"""Interrupted fits that go on as if nothing had happened: the state of a solver in a file.

A :class:`Recorder` stands between the loop and the solver of a fit. Now and then it takes down
everything that decides what the solver will do next: the dual state, weights and averages, the
random numbers to come, and what the loop knows (best weights, last check). A later fit of the same
problem that starts from it makes the same steps and checks as the first one would have made, so its
model is the same bit for bit, however often it was killed in between.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ._archive import DAMAGE, Archive
from ._checkpoint_checks import check_fields, check_fit_state, check_solved
from ._codec import TRUSTED_PACKAGE, Decoder, Encoder, ModelFileError
from ._replacing import replacing
from ._validation import fields_of, is_array, is_class
from .solvers.result import Solved

__all__ = ["FitState", "Recorder", "read_checkpoint", "write_checkpoint"]

_FORMAT = "maxmargin-checkpoint"
# 5: convex problems that are done, in fits with hidden parts.
_VERSION = 5
# What the dual value may be above the primal one, in parts of it.
_ROUNDING = 1e-6


class FitState(NamedTuple):
    """A fit in the middle.

    ``solver`` is the state of the solver, ``best`` the values of
    :class:`~maxmargin.solvers.loop.Seen`, ``checked_calls`` the oracle calls at the last check,
    ``history`` the checks so far, ``seconds`` the time spent. In a fit with hidden parts all but
    the time are those of the convex problem at hand, and ``solved`` are the ones before it
    (:class:`~maxmargin.solvers.result.Solved`).
    """

    solver: Any
    best: tuple
    checked_calls: int
    history: list
    seconds: float
    solved: list


class Recorder:
    """Takes down the state of a fit, and starts a fit from such a state.

    Parameters
    ----------
    write : callable
        Called with a :class:`FitState`; must copy or write what it keeps.
    every : float
        Seconds between two calls.
    start : FitState, optional
        Where the fit starts; from the beginning by default.

    Notes
    -----
    The loop asks for a check, then for steps until the next check is due. To start in the middle,
    the recorder has no candidates beside the best ones recorded until the loop has come to the last
    check that was recorded; its next answer to "advance" is the recorded state itself.
    """

    def __init__(
        self, write: Callable[[FitState], None], every: float, start: FitState | None = None
    ) -> None:
        self._write = write
        self._every = every
        self.before = 0.0 if start is None else start.seconds
        self._began = self._written = time.perf_counter()
        self._solved: list[Solved] = [] if start is None else list(start.solved)
        self._told = 0  # how many of these the rounds know
        self._rng: np.random.RandomState | None = None
        self._climb: Any = None
        self._begin(start)

    def _begin(self, start: FitState | None) -> None:
        """Take down another solver from here on."""
        self._start = start
        self.history: list = [] if start is None else list(start.history)
        self._best: Any = None
        self._checked_calls = 0 if start is None else start.checked_calls
        self.replaying = start is not None
        self._at_check = self._checked_calls == 0  # where the loop begins

    def attach(self, climb: Any) -> None:
        """Follow a solver at work from here on, and take its place for the loop."""
        if self._start is not None:
            with _refused():
                check_fit_state(self._start, climb, self._told)
        self._climb = climb

    # --- rounds of fits with hidden parts -----------------------------------------------------

    def follow_rounds(self, problem: Any, rng: np.random.RandomState) -> Recorder:
        """Take down the rounds of a fit, too; all its solvers and starts draw from ``rng``."""
        with _refused():
            for solved in self._solved:
                check_solved(solved, problem)
        self._rng = rng
        return self

    def next_solved(self) -> Solved | None:
        """A convex problem that was solved before the fit was interrupted, the next in order."""
        if self._told == len(self._solved):
            return None
        solved = self._solved[self._told]
        self._told += 1
        assert self._rng is not None
        self._rng.set_state(solved.rng.get_state())
        return solved

    def keep_solved(self, result: Any, checks: list, seconds: float) -> None:
        """A convex problem is solved: take it down, and be ready for the next one."""
        numbers = np.random.RandomState()
        assert self._rng is not None
        numbers.set_state(self._rng.get_state())
        self._solved.append(
            Solved(
                result.weights, result.primal, result.dual, result.gap, result.oracle_error,
                result.passes, result.oracle_calls, seconds, result.status, result.bounds,
                checks, numbers,
            )
        )  # fmt: skip
        self._told += 1
        self._begin(None)

    def keep_dual(self, dual_state: Any) -> None:
        """The rounds of the best start so far are done: take down where a later fit can start."""
        if self._told == len(self._solved):
            self._solved = [solved._replace(dual_state=None) for solved in self._solved]
            self._solved[-1] = self._solved[-1]._replace(dual_state=dual_state)

    # --- in the place of the solver -----------------------------------------------------------

    def verify(self, result: Any) -> None:
        """Refuse a result that no fit could have: the state that it started from was changed."""
        if self._start is not None and not result.gap >= -_ROUNDING * abs(result.primal):
            raise ModelFileError(
                "cannot continue from the checkpoint: it leads to the primal value "
                f"{result.primal} and the dual value {result.dual}, which contradict each other; "
                "remove it and start anew"
            )

    @property
    def oracle_calls(self) -> int:
        """Those of the solver; up to the last check that was recorded while replaying."""
        if not self.replaying:
            return self._climb.oracle_calls
        return self._checked_calls if self._at_check else 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._climb, name)

    def hear(self, check: Any) -> None:
        """Take in a check of the loop: a callback of the fit."""
        self.take(check._replace(seconds=check.seconds + self.before))

    def take(self, check: Any) -> bool:
        """Take in a check, unless it was taken in before an interruption; returns whether."""
        if not self.replaying:
            self.history.append(check)
        return not self.replaying

    def new_best(self) -> Any:
        """The best that the fit has seen, which goes into the state."""
        self._best = self._climb.new_best()
        if self._start is not None:
            self._best.seen = type(self._best.seen)(*self._start.best)
        return self._best

    def check(self) -> list:
        """In the place of the stepper's own: nothing new while replaying."""
        if self.replaying:
            return []
        candidates = self._climb.check()
        self._checked_calls = self._climb.oracle_calls
        return candidates

    def advance(self, seconds: float, most: int) -> None:
        """In the place of the stepper's own: writes the state when it is time."""
        if self.replaying:
            self._replay()
            return
        self._climb.advance(seconds, most)
        if time.perf_counter() - self._written >= self._every:
            self._write(self.state())
            self._written = time.perf_counter()

    def _replay(self) -> None:
        """First to the last check, then to the state itself."""
        assert self._start is not None
        if not self._at_check:
            self._at_check = True
            return
        self._climb.state = _with_shared_numbers(self._start.solver, self._climb.state)
        self.replaying = False

    @property
    def has_state(self) -> bool:
        """Whether there is a state to write: after the first check of a solver."""
        return self._best is not None and len(self._best.seen.weights) > 0

    def state(self) -> FitState:
        """The present state; its arrays are those that the solver works on."""
        if not self.has_state:
            raise RuntimeError("a fit has no state before its first check")
        seconds = self.before + time.perf_counter() - self._began
        best, checked = tuple(self._best.seen), self._checked_calls
        history = list(self.history)
        return FitState(self._climb.gathered(), best, checked, history, seconds, list(self._solved))


def _with_shared_numbers(state: Any, fresh: Any) -> Any:
    """A state that draws its random numbers from where the fresh one does: others do, too."""
    fields = fresh._asdict()
    found = {}
    if "rng" in fields:
        fields["rng"].set_state(state.rng.get_state())
        found["rng"] = fields["rng"]
    if "inner" in fields:
        found["inner"] = _with_shared_numbers(state.inner, fields["inner"])
    return state._replace(**found)


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """A state that does not fit is refused as what it is: a damaged file."""
    try:
        yield
    except DAMAGE as error:
        raise ModelFileError(
            f"cannot continue from the checkpoint: {error}; remove it and start anew"
        ) from error


# --- files -----------------------------------------------------------------------------------


class _StateEncoder(Encoder):
    """Also NamedTuples of this package; an array that occurs twice stays one."""

    def __init__(self) -> None:
        super().__init__(dual=True)
        self._known: dict[int, tuple[Any, Any]] = {}

    def _encode_numpy(self, value: Any, where: str) -> Any:
        if is_array(value):
            if id(value) not in self._known:
                self._known[id(value)] = value, super()._encode_numpy(value, where)
            return self._known[id(value)][1]
        return super()._encode_numpy(value, where)

    def _encode_object(self, value: Any, kind: type, where: str) -> Any:
        try:
            return super()._encode_object(value, kind, where)
        except TypeError:
            if not kind.__module__.startswith(TRUSTED_PACKAGE) or not fields_of(kind):
                raise
        return {"state": [kind.__module__, kind.__qualname__, self._fields(value._asdict(), where)]}


class _StateDecoder(Decoder):
    def decode(self, node: Any) -> Any:
        if not (isinstance(node, dict) and "state" in node):
            return super().decode(node)
        module, name, fields = node["state"]
        ours = module.startswith(TRUSTED_PACKAGE) and name.isidentifier()
        cls: Any = getattr(importlib.import_module(module), name) if ours else None
        if not is_class(cls) or not issubclass(cls, tuple) or not fields_of(cls):
            raise ModelFileError(f"it names {module}.{name}, which is no part of a state")
        return cls(**self._fields(fields))


def write_checkpoint(
    path: str | os.PathLike[str], note: dict[str, Any], state: FitState | None
) -> None:
    """Write a state and a note (JSON) beside it; an older file is replaced at once, or not."""
    encoder = _StateEncoder()
    fields = None if state is None else [encoder.encode(part, "checkpoint") for part in state]
    header = {"format": _FORMAT, "format_version": _VERSION, "note": note}
    with (
        replacing(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("state.json", json.dumps(fields))
        for name, array in encoder.arrays.items():
            with archive.open(name, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], FitState | None]:
    """Read what :func:`write_checkpoint` wrote."""
    try:
        with open(path, "rb") as file, Archive(file, os.fstat(file.fileno()).st_size) as archive:
            header = archive.read_json("header.json")
            known = header.get("format") == _FORMAT and header.get("format_version") == _VERSION
            if not known or not isinstance(header.get("note"), dict):
                raise ModelFileError("it is no checkpoint of this version of maxmargin")
            fields = archive.read_json("state.json")
            decoder = _StateDecoder(functools.cache(archive.read_array))
            state = None if fields is None else FitState(*map(decoder.decode, fields))
            if state is not None:
                check_fields(state)
            return header["note"], state
    except FileNotFoundError:
        raise
    except ModelFileError as error:
        raise ModelFileError(f"cannot continue from {os.fspath(path)}: {error}") from None
    except DAMAGE as error:
        raise ModelFileError(
            f"cannot continue from {os.fspath(path)}: it is damaged ({type(error).__name__}: "
            f"{error}); remove it and start anew"
        ) from error
