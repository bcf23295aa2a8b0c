"""Fits that survive: what was done is written down now and then, and need not be done again."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .._codec import ModelFileError
from .._replacing import remove_leftovers
from ..checkpoint import FitState, Recorder, read_checkpoint, write_checkpoint
from ._output import note

# Partitions of the data on workers, unless the user says otherwise.
N_PARTITIONS = 4


class Fits:
    """A path of alphas and a fit with one checkpoint file, written every few seconds; None keeps
    none.

    ``make`` returns a new estimator with the parameters of the command; ``fingerprint`` is that of
    the data and of all parameters that change the result.
    """

    def __init__(
        self, make: Callable[[], Any], path: str | None, every: float, fingerprint: str,
        resume: bool, scoring: str | None = None, quiet: bool = False,
    ) -> None:  # fmt: skip
        self.new_model = make
        self._scoring, self._quiet = scoring, quiet
        self._recorder: Recorder | None = None
        self.engine: Any = None  # where partitions work, if there are any
        self.n_partitions = N_PARTITIONS
        self._path, self._every, self._fingerprint = path, every, fingerprint
        self.path: list[list[float]] = []  # of alphas, when it is finished
        self._start: FitState | None = None
        self._warned = False
        if resume and path is not None and os.path.exists(path):
            self._read(path)

    def _read(self, path: str) -> None:
        found, self._start = read_checkpoint(path)
        points = found.get("path")
        if type(points) is not list or not all(map(_is_point, points)):
            raise ModelFileError(
                f"cannot continue from {path}: its path of alphas must be a list of four numbers "
                "each; remove it and start anew"
            )
        if found.get("fingerprint") != self._fingerprint:
            raise ValueError(
                f"{path} belongs to other data or other options; repeat the command as it was, or "
                "start anew with --force"
            )
        self.path = points
        if self._start is not None:
            seconds = f"{self._start.seconds:.0f} s into the fit"
            note(f"continuing from {path}: {seconds}", self._quiet)

    def score(self, model: Any, X: Any, y: Any) -> float:
        """The score of a model of the path; larger is better."""
        if self._scoring is None:
            return float(model.score(X, y))
        from ..metrics import get_scorer

        try:
            return float(get_scorer(self._scoring)(model, X, y))
        except (TypeError, ValueError) as error:  # a measure of other outputs
            raise ValueError(f"--scoring {self._scoring} cannot be computed: {error}") from error

    def fit(self, model: Any, X: Any, y: Any) -> Any:
        """Train on all data, from the state read from the file, if there is one."""
        start, self._start = self._start, None
        if self._path is not None:
            model._recorder = self._recorder = Recorder(self._write, self._every, start)
        if self.engine is not None:
            model._engine, model._n_partitions = self.engine, self.n_partitions
        try:
            model.fit(X, y)
        finally:
            for name in ("_recorder", "_engine", "_n_partitions"):
                vars(model).pop(name, None)
        return model

    def _write(self, state: FitState) -> None:
        assert self._path is not None
        about = {"fingerprint": self._fingerprint, "path": self.path, "time": time.time()}
        try:
            write_checkpoint(self._path, about, state)
        except OSError as error:
            if not self._warned:  # the training goes on without
                message = f"warning: no checkpoint could be written: {error.strerror or error}"
                note(message, self._quiet)
            self._warned = True

    def keep(self) -> bool:
        """Write the state at the end of the last fit, from which more passes can follow.

        Returns whether there is one; a fit with hidden labels has none between two rounds.
        """
        if self._recorder is None or not self._recorder.has_state:
            return False
        self._write(self._recorder.state())
        return not self._warned

    def forget(self) -> None:
        """Remove the checkpoint: everything is done."""
        if self._path is not None:
            with suppress(OSError):
                os.remove(self._path)
            with suppress(OSError):
                remove_leftovers(self._path)


def _is_point(numbers: Any) -> bool:
    return (
        type(numbers) is list
        and len(numbers) == 4
        and all(type(number) is float and math.isfinite(number) for number in numbers)
    )


def fingerprint_of(parts: list[str], files: list[str]) -> str:
    """Hash of texts and of the contents of files."""
    digest = hashlib.sha256("\0".join(parts).encode())
    for path in files:
        digest.update(b"\0file")
        if path.startswith("@"):
            digest.update(path.encode())
            continue
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
