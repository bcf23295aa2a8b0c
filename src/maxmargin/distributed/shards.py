"""Files that are partitions of the data, read by the process that uses them; hashed features."""

from __future__ import annotations

import copy
import glob
import os
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from sklearn.feature_extraction import FeatureHasher

from ..features.dicts import as_dict
from ..features.sequences import holds_dicts, take_list
from ..files import FileError, read
from ..files.prepare import Choices, Prepared, follow, learn, texts_wanted


class Shard(NamedTuple):
    """One file."""

    path: str
    task: str
    format: str | None
    choices: dict[str, Any]
    hasher: FeatureHasher | None = None
    recipe: dict[str, Any] | None = None  # of all shards, once it is known

    def load(self) -> tuple[Any, Any]:
        """Features and labels; an error names file and line."""
        prepared = self.prepared()
        return prepared.X, prepared.y

    def prepared(self) -> Prepared:
        """Features and labels by the recipe of all shards, or by one of this shard alone."""
        found = self._read()
        if self.hasher is not None:
            try:
                found.X = hashed(found.X, self.hasher)
            except ValueError as error:
                raise FileError(f"{self.path}: {error}") from None
        return found

    def _read(self) -> Prepared:
        choices = Choices(**self.choices)
        texts = {*choices.categorical, *([choices.group] if choices.group else [])}
        if self.recipe is not None:
            texts = texts_wanted(self.recipe)
        examples = read(self.path, self.task, format=self.format, texts=texts)
        if self.recipe is not None:
            return Prepared(*follow(examples, self.recipe), self.recipe)
        found = learn(examples, self.task, choices)
        if self.task == "ordinal":
            found.recipe["order"] = found.params.get("classes")
        return found


def hashed(X: Any, hasher: FeatureHasher) -> list[Any]:
    """Sequences of feature dicts as CSR matrices, whose columns are hashes of the features.

    A model that was trained on :class:`Shards` with a ``hasher`` takes these as input.

    Parameters
    ----------
    X : list of sequences of feature dicts, or of lists of feature names
    hasher : sklearn.feature_extraction.FeatureHasher
        With ``input_type="dict"``.
    """
    if not holds_dicts(X):
        raise ValueError("hasher= is for feature dicts and lists of feature names; leave it out.")
    sequences = [list(x) for x in take_list(X)]
    plain = (as_dict(f, i, t) for i, x in enumerate(sequences) for t, f in enumerate(x))
    rows = hasher.transform(plain)
    return [rows[a:b] for a, b in pairwise(accumulate(map(len, sequences), initial=0))]


class Shards:
    """Partitions in files: CoNLL, CoNLL-U, Parquet, svmlight, npz, CSV.

    All must have the same columns. Categories and labels may be in some of them only.

    Parameters
    ----------
    pattern : str, path or sequence of paths
        Such as ``"part-*.conll"``; files are taken in the order of their names.
    task : str
        As of the command line: "sequence", "tree", "multiclass", ...
    format : str, optional
        By default that of the suffix.
    hasher : sklearn.feature_extraction.FeatureHasher, optional
        Columns of features are hashes of their names, so that no shard needs the names in the
        others: for feature dicts of sequences. Pass ``hashed(X, hasher)`` to the model afterwards.
    **choices
        Options for the columns: ``target``, ``drop``, ``group``, ``categorical``, ``order``,
        ``missing``. Numbers are not standardised, as that would need all shards.
    """

    def __init__(
        self, pattern: Any, task: str, format: str | None = None,
        hasher: FeatureHasher | None = None, **choices: Any,
    ):  # fmt: skip
        one = isinstance(pattern, (str, os.PathLike))
        paths = sorted(glob.glob(os.fspath(pattern))) if one else list(pattern)
        self.paths = [os.path.abspath(os.fspath(path)) for path in paths]
        if not self.paths:
            raise FileError(f"no file matches {pattern!r}")
        if choices.get("missing") == "mean":
            raise ValueError("missing='mean' needs the means of all shards; use 'drop' or 'error'.")
        for name in ("target", "drop", "categorical", "order"):
            if isinstance(choices.get(name), str):
                choices[name] = (choices[name],)
        if hasher is not None and hasher.input_type != "dict":
            raise ValueError(f"hasher must have input_type='dict'; received {hasher.input_type!r}.")
        self.shards = [
            Shard(path, task, format, {"scale": False, **choices}, hasher) for path in self.paths
        ]

    def __len__(self) -> int:
        return len(self.shards)

    def __add__(self, other: Shards) -> Shards:
        """Concatenate two lists of shards."""
        both = copy.copy(self)
        both.paths, both.shards = self.paths + other.paths, self.shards + other.shards
        return both
