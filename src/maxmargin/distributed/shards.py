"""Files that are partitions of the data, read by the process that uses them."""

from __future__ import annotations

import copy
import glob
import os
from typing import Any, NamedTuple

from ..files import FileError, read
from ..files.prepare import Choices, learn


class Shard(NamedTuple):
    """One file."""

    path: str
    task: str
    format: str | None
    choices: dict[str, Any]

    def load(self) -> tuple[Any, Any]:
        """Features and labels; an error names file and line."""
        examples = read(self.path, self.task, format=self.format)
        prepared = learn(examples, self.task, Choices(**self.choices))
        return prepared.X, prepared.y


class Shards:
    """Partitions in files: CoNLL, CoNLL-U, Parquet, svmlight, npz.

    Parameters
    ----------
    pattern : str or sequence of paths
        Such as ``"part-*.conll"``; files are taken in the order of their names.
    task : str
        As of the command line: "sequence", "tree", "multiclass", ...
    format : str, optional
        By default that of the suffix.
    **choices
        Options for the columns: ``target``, ``drop``, ``group``. Numbers are not standardised, as
        that would need all shards.
    """

    def __init__(self, pattern: Any, task: str, format: str | None = None, **choices: Any):
        paths = sorted(glob.glob(pattern)) if isinstance(pattern, str) else list(pattern)
        self.paths = [os.path.abspath(os.fspath(path)) for path in paths]
        if not self.paths:
            raise FileError(f"no file matches {pattern!r}")
        for name in ("target", "drop", "categorical", "order"):
            if isinstance(choices.get(name), str):
                choices[name] = (choices[name],)
        self.shards = [
            Shard(path, task, format, {"scale": False, **choices}) for path in self.paths
        ]

    def __len__(self) -> int:
        return len(self.shards)

    def __add__(self, other: Shards) -> Shards:
        """Concatenate two lists of shards."""
        both = copy.copy(self)
        both.paths, both.shards = self.paths + other.paths, self.shards + other.shards
        return both
