"""One process that handles partitions in turn: data and duals may be larger than memory.

At most one partition is in memory at a time. Its packed data are written once, the state of its
solver after every call, into a folder that is removed at the end.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from typing import Any

from ..solvers.parts import Engine, Maker, Part


class Disk(Engine):
    """Engine that keeps partitions on disk.

    Parameters
    ----------
    folder : path, optional
        Where a folder for the partitions is made; by default that of temporary files.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None):
        self._folder = tempfile.mkdtemp(prefix="maxmargin-", dir=folder)
        self._makers: list[Maker] = []
        self._present: tuple[int, Any] | None = None

    def start(self, makers: list[Maker]) -> None:
        """Store the makers of the partitions; each partition is made at its first call."""
        for name in os.listdir(self._folder):
            os.remove(os.path.join(self._folder, name))
        self._makers, self._present = list(makers), None

    def call(self, ks: list[int], name: str, share: float, each: list[tuple]) -> list[Any]:
        """Results of some partitions, computed one after the other."""
        return [self._call(k, name, share, args) for k, args in zip(ks, each, strict=True)]

    def _call(self, k: int, name: str, share: float, args: tuple) -> Any:
        part = self._loaded(k)
        before, _ = part.kept()
        answer = part.call(name, share, args)
        problem, state = part.kept()
        if problem is not before:
            self._write(k, "problem", problem)
        if state is not None:
            self._write(k, "state", state)
        return answer

    def _loaded(self, k: int) -> Any:
        """Load a partition, in place of the one that was loaded before."""
        if self._present is not None and self._present[0] == k:
            return self._present[1]
        self._present = None  # free its memory before the next one is loaded
        part = self._makers[k]() if not os.path.exists(self._path(k, "state")) else self._read(k)
        problem, _ = part.kept()
        if problem is not None and not os.path.exists(self._path(k, "problem")):
            self._write(k, "problem", problem)
        self._present = k, part
        return part

    def _read(self, k: int) -> Part:
        with open(self._path(k, "problem"), "rb") as file:
            part = Part(pickle.load(file), len(self._makers))  # written by this process
        with open(self._path(k, "state"), "rb") as file:
            part.solver, part.state, part.mean, part.rounds = pickle.load(file)
        return part

    def _write(self, k: int, what: str, value: Any) -> None:
        with open(self._path(k, what), "wb") as file:
            pickle.dump(value, file, protocol=5)

    def _path(self, k: int, what: str) -> str:
        return os.path.join(self._folder, f"{k}.{what}")

    def close(self) -> None:
        """Remove the folder."""
        self._present = None
        shutil.rmtree(self._folder, ignore_errors=True)
