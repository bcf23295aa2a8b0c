"""Data sets by name: those of scikit-learn, of a local folder, and of OpenML.

The folder is ``MAXMARGIN_DATA``, or ``shared/data`` beside a source checkout. A wheel may hold the
files of small data sets whose licences allow it (``NOTICE.txt``). What is fetched goes to the cache
folder (``XDG_CACHE_HOME`` or ``~/.cache``, below ``maxmargin/data``) and is found there without a
network later.

Examples
--------
>>> from maxmargin import datasets
>>> data = datasets.load("iris")
>>> data.task, data.X.shape, sorted(set(data.y.tolist()))
('multiclass', (150, 4), ['setosa', 'versicolor', 'virginica'])
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._folders import user_cache
from ..files import Examples
from ._registry import ENTRIES, Entry

SHIPPED = Path(__file__).resolve().parent / "files"  # of a wheel that holds data

__all__ = ["Dataset", "DatasetError", "cache_folder", "data_folder", "fetch", "load", "names"]


class DatasetError(ValueError):
    """A data set is not known, not there, or not what it should be."""


@dataclass
class Dataset:
    """A data set.

    Attributes
    ----------
    name, task, description : str
    X, y
        As the estimator of the task takes them: :class:`~maxmargin.MulticlassClassifier`,
        :class:`~maxmargin.SequenceLabeler` and so on.
    splits : dict of index arrays
        Such as ``{"train": ..., "test": ...}`` where there is an official split; ``"fold 0"`` and
        so on for folds. Empty otherwise.
    feature_names, label_names : list or None
    """

    name: str
    task: str
    description: str
    X: Any
    y: Any
    splits: dict[str, np.ndarray] = field(default_factory=dict)
    feature_names: list[str] | None = None
    label_names: list | None = None
    _rows: Any = None  # columns of tokens, for files like those of CoNLL

    def take(self, split: str) -> tuple[Any, Any]:
        """``X`` and ``y`` of a split."""
        if split not in self.splits:
            known = ", ".join(self.splits) or "none"
            raise DatasetError(f"{self.name} has no split {split!r}; it has {known}")
        which = self.splits[split]
        return take(self.X, which), take(self.y, which)

    def examples(self, task: str, part: str = "all") -> Examples:
        """The same as what the readers of files return, for the command line."""
        from ._convert import as_examples

        return as_examples(self, task, part)


def take(values: Any, which: np.ndarray) -> Any:
    """Some of the examples, of arrays, sparse matrices and lists."""
    return [values[i] for i in which] if type(values) is list else values[which]


def names(task: str | None = None) -> list[str]:
    """Names of all data sets, or of those of a task."""
    return [entry.name for entry in ENTRIES.values() if task in (None, entry.task)]


def data_folder() -> Path | None:
    """The local folder with data, or None."""
    chosen = os.environ.get("MAXMARGIN_DATA")
    if chosen:
        return Path(chosen)
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    return beside if beside.is_dir() else None


def cache_folder() -> Path:
    """Where fetched data is kept."""
    base = user_cache() or Path(os.path.expanduser("~"), ".cache")
    return base / "maxmargin" / "data"


def entry_of(name: str) -> Entry:
    """What is known about a data set before it is read."""
    if name not in ENTRIES:
        import difflib

        near = difflib.get_close_matches(name, ENTRIES, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise DatasetError(f"there is no data set {name!r}{hint}; there are {', '.join(ENTRIES)}")
    return ENTRIES[name]


def _find(entry: Entry) -> list[Path] | None:
    """The files of a data set in the local folder or the package; None if any is missing."""
    for folder in filter(None, (data_folder(), SHIPPED)):
        found = [folder / name for name, _ in entry.files]
        if found and all(path.is_file() for path in found):
            return found
    return None


def local_files(entry: Entry) -> list[Path] | None:
    """The files of a data set, checked; None if any is missing."""
    found = _find(entry)
    for path, (_, expected) in zip(found or (), entry.files):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != expected:
            raise DatasetError(
                f"{path} is damaged or another version: its SHA-256 is {digest[:12]}..., expected "
                f"{expected[:12]}...; replace the file"
            )
    return found


def is_available(entry: Entry) -> bool:
    """Whether a data set can be read without a network."""
    from ._openml import is_cached

    if entry.source == "scikit-learn" or _find(entry):
        return True
    return entry.openml is not None and is_cached(entry, cache_folder())


def load(name: str) -> Dataset:
    """Read a data set; fetch it first if that is possible and necessary.

    Parameters
    ----------
    name : str
        One of :func:`names`.

    Raises
    ------
    DatasetError
        If there is no such data set, or it is not here and cannot be fetched; files whose checksum
        is not the known one are refused.
    """
    entry = entry_of(name)
    if entry.source == "scikit-learn":
        from ._bundled import load_bundled

        return load_bundled(entry)
    files = local_files(entry)
    if files is not None:
        from ._local import load_local

        return load_local(entry, files)
    if entry.openml is not None:
        from ._openml import load_openml

        return load_openml(entry, cache_folder())
    folder = data_folder()
    where = "MAXMARGIN_DATA is not set" if folder is None else f"{folder} does not hold them"
    wanted = ", ".join(file for file, _ in entry.files)
    raise DatasetError(
        f"{name} needs the files {wanted}, and {where}; put them into a folder and set "
        "MAXMARGIN_DATA to it"
    )


def fetch(name: str) -> str:
    """Make sure that a data set is here, and return where: a path, or "scikit-learn"."""
    entry = entry_of(name)
    if entry.source == "scikit-learn":
        return "scikit-learn"
    files = local_files(entry)
    if files is not None:
        return str(files[0])
    load(name)
    return str(cache_folder())
