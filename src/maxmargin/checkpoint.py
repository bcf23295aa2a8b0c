"""Interrupted fits that go on as if nothing had happened: the state of a solver in a file.

A :class:`Recorder` stands between the loop and the solver of a fit. Now and then it takes down
everything that decides what the solver will do next: the dual state, weights and averages, the
random numbers to come, and what the loop knows (best weights, last check). A later fit of the same
problem that starts from it makes the same steps and checks as the first one would have made, so its
model is the same bit for bit, however often it was killed in between.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import time
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ._archive import DAMAGE, Archive
from ._checkpoint_checks import check_fields, check_fit_state
from ._codec import TRUSTED_PACKAGE, Decoder, Encoder, ModelFileError
from ._replacing import replacing

__all__ = ["FitState", "Recorder", "read_checkpoint", "write_checkpoint"]

_FORMAT = "maxmargin-checkpoint"
# 4: what oracles remember is part of the state of a solver, what the loop has seen is one value.
_VERSION = 4
# What the dual value may be above the primal one, in parts of it.
_ROUNDING = 1e-6
# Objects that a state may hold, beside those of model files.
_OBJECTS = {
    ("maxmargin._kernels.saddle", "MirrorProx"),
    ("maxmargin._kernels.saddle", "Proximal"),
    ("maxmargin.oracles.closed_form", "Formula"),
    ("maxmargin.oracles.double_oracle", "TreeGame"),
    ("maxmargin.oracles.mirror_prox", "ChainPairs"),
    ("maxmargin.oracles.saddle", "SaddlePairs"),
    ("maxmargin.solvers._flow_moves", "Curvature"),
    ("maxmargin.solvers.acceleration", "AcceleratedState"),
    ("maxmargin.solvers.averaging", "AveragedState"),
    ("maxmargin.solvers.corrective", "CorrectiveState"),
    ("maxmargin.solvers.frank_wolfe", "BlockState"),
    ("maxmargin.solvers.interior", "InteriorState"),
    ("maxmargin.solvers.interpreted", "MeanBlocks"),
    ("maxmargin.solvers.lbfgs", "Iterate"),
    ("maxmargin.solvers.lbfgs", "LbfgsState"),
    ("maxmargin.solvers.lbfgs", "Search"),
    ("maxmargin.solvers.problem", "DualPoint"),
    ("maxmargin.graphs.soft", "SoftState"),
    ("maxmargin.latent.kernels.working_set", "Rows"),
    ("maxmargin.latent.kernels.working_set", "WorkingSet"),
    ("maxmargin.latent.solvers", "LatentSubgradientState"),
    ("maxmargin.latent.solvers", "WorkingSetState"),
    ("maxmargin.solvers.subgradient", "SubgradientState"),
}


class FitState(NamedTuple):
    """A fit in the middle.

    ``solver`` is the state of the solver, ``best`` the values of
    :class:`~maxmargin.solvers.loop.Seen`, ``checked_calls`` the oracle calls at the last check,
    ``history`` the checks so far, ``seconds`` the time spent.
    """

    solver: Any
    best: tuple
    checked_calls: int
    history: list
    seconds: float


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
        self._start = start
        self.history: list = [] if start is None else list(start.history)
        self._before = 0.0 if start is None else start.seconds
        self._best: Any = None
        self._checked_calls = 0 if start is None else start.checked_calls
        self._replaying = start is not None
        self._at_check = self._checked_calls == 0  # where the loop begins
        self._climb: Any = None

    def attach(self, climb: Any) -> None:
        """Follow a solver at work from here on, and take its place for the loop."""
        if self._start is not None:
            try:
                check_fit_state(self._start, climb)
            except DAMAGE as error:
                raise ModelFileError(
                    f"cannot continue from the checkpoint: {error}; remove it and start anew"
                ) from error
        self._climb = climb
        self._began = self._written = time.perf_counter()

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
        if not self._replaying:
            return self._climb.oracle_calls
        return self._checked_calls if self._at_check else 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._climb, name)

    def hear(self, check: Any) -> None:
        """Take in a check of the loop: a callback of the fit."""
        if not self._replaying:
            self.history.append(check._replace(seconds=check.seconds + self._before))

    def new_best(self) -> Any:
        """The best that the fit has seen, which goes into the state."""
        self._best = self._climb.new_best()
        if self._start is not None:
            self._best.seen = type(self._best.seen)(*self._start.best)
        return self._best

    def check(self) -> list:
        """In the place of the stepper's own: nothing new while replaying."""
        if self._replaying:
            return []
        candidates = self._climb.check()
        self._checked_calls = self._climb.oracle_calls
        return candidates

    def advance(self, seconds: float, most: int) -> None:
        """In the place of the stepper's own: writes the state when it is time."""
        if self._replaying:
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
        self._climb.state = self._start.solver
        self._replaying = False

    def state(self) -> FitState:
        """The present state; its arrays are those that the solver works on."""
        if self._best is None or not len(self._best.seen.weights):
            raise RuntimeError("a fit has no state before its first check")
        seconds = self._before + time.perf_counter() - self._began
        best, checked = tuple(self._best.seen), self._checked_calls
        return FitState(self._climb.state, best, checked, list(self.history), seconds)


# --- files -----------------------------------------------------------------------------------


class _StateEncoder(Encoder):
    """Also objects of this package, by their attributes; an array that occurs twice stays one."""

    def __init__(self) -> None:
        super().__init__(dual=True)
        self._known: dict[int, tuple[Any, Any]] = {}

    def _encode_numpy(self, value: Any, where: str) -> Any:
        if isinstance(value, np.ndarray):
            if id(value) not in self._known:
                self._known[id(value)] = value, super()._encode_numpy(value, where)
            return self._known[id(value)][1]
        return super()._encode_numpy(value, where)

    def _encode_object(self, value: Any, kind: type, where: str) -> Any:
        try:
            return super()._encode_object(value, kind, where)
        except TypeError:
            if not kind.__module__.startswith(TRUSTED_PACKAGE):
                raise
        fields = value._asdict() if hasattr(value, "_fields") else dict(vars(value))
        return {"state": [kind.__module__, kind.__qualname__, self._fields(fields, where)]}


class _StateDecoder(Decoder):
    def decode(self, node: Any) -> Any:
        if not (isinstance(node, dict) and "state" in node):
            return super().decode(node)
        module, name, fields = node["state"]
        if (module, name) not in _OBJECTS:
            raise ModelFileError(f"it names {module}.{name}, which is no part of a state")
        cls: Any = getattr(importlib.import_module(module), name)
        values = self._fields(fields)
        if hasattr(cls, "_fields"):
            return cls(**values)
        made: Any = object.__new__(cls)
        vars(made).update(values)
        return made


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
