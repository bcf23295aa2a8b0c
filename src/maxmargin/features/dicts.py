"""Feature dicts, and lists of feature names, as CRFsuite takes them: names to columns.

Almost all of the work is looking up features that were met before, so that is one call into a
dictionary for each: ``("word", "cat")`` is the key of the feature "word:cat", and ``("size", 1.0)``
that of "size" with the value 1, which is also that of ``True``. Anything else is looked at closely.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import count, repeat
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from .._validation import is_text

if TYPE_CHECKING:
    from sklearn.feature_extraction import DictVectorizer

_UNMET, _ABSENT = -1, -2  # in place of a column: not looked at before; nothing to store
_NUMBERS = {float, int, bool}


class Triplets(NamedTuple):
    """Rows of a sparse matrix."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


class Columns:
    """Which column a feature has.

    Parameters
    ----------
    vocabulary : dict, optional
        Column of each name. Unknown features are ignored; without a vocabulary each gets the next
        column.
    """

    def __init__(self, vocabulary: dict[str, int] | None = None):
        self.learn = vocabulary is None
        self.vocabulary = defaultdict(count().__next__) if vocabulary is None else vocabulary
        self._met: dict[tuple[str, Any], int] = {}

    def rows(self, positions: list, place: Callable[[int], tuple[int, int]]) -> Triplets:
        """Sparse rows of some positions; ``place`` tells the sequence and position of each."""
        described, found, ends = self._look_up(positions, place)
        columns = np.fromiter(found, np.int32, len(found))
        indptr = np.array(ends, np.int64)
        values = np.ones(len(columns))
        unmet = np.flatnonzero(columns == _UNMET)
        if len(unmet) and not self._meet(described, indptr, unmet, columns, values):
            # Values that only the slow way understands, or refuses.
            plain = [as_dict(features, *place(t)) for t, features in enumerate(positions)]
            return self.rows(plain, place)
        kept = columns >= 0
        if not kept.all():
            indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
            columns, values = columns[kept], values[kept]
        return Triplets(values, columns, indptr)

    def forget(self) -> None:
        """Drop what was met before, which takes more memory than the vocabulary itself."""
        self._met = {}

    def _look_up(self, positions: list, place: Callable) -> tuple[list, list[int], list[int]]:
        """Positions, as dicts where features were not met before, the columns of the others, and
        the end of each position among these. Whether learned names are texts is checked later."""
        described: list[Any] = []
        found: list[int] = []
        ends = [0]
        extend, unmet = found.extend, repeat(_UNMET)
        by_name, by_pair = self.vocabulary.get, self._met.get
        learn, column_of = self.learn, self.vocabulary.__getitem__
        for t, features in enumerate(positions):
            try:
                if type(features) is dict:
                    extend(map(by_pair, features.items(), unmet))
                elif type(features) is list and learn:
                    if len(set(features)) < len(features):
                        features = list(dict.fromkeys(features))
                    extend(map(column_of, features))
                elif type(features) is list:
                    features = dict.fromkeys(features, 1.0)
                    extend(map(by_name, features, unmet))
                else:
                    raise TypeError
            except TypeError:  # also where a list or a dict is a value: it has no hash
                del found[ends[-1] :]
                features = as_dict(features, *place(t))
                extend(map(by_pair, features.items(), unmet))
            described.append(features)
            ends.append(len(found))
        return described, found, ends

    def _meet(self, described, indptr, unmet, columns, values) -> bool:
        """Look closely at features that were not met before; False: some need a closer look."""
        rows = np.searchsorted(indptr, unmet, side="right") - 1
        starts = indptr[rows]
        row = -1
        items: list[tuple[Any, Any]] = []
        for at, t, start in zip(unmet.tolist(), rows.tolist(), starts.tolist(), strict=True):
            if t != row:
                row, items = t, list(described[t].items())
            name, value = items[at - start]
            if not isinstance(name, str):
                return False
            repeats = True  # whether this very pair may come again
            if isinstance(value, str):
                column = self._column("".join((name, ":", value)))
            elif type(value) in _NUMBERS or isinstance(value, (Real, np.bool_)):
                column = self._column(name)
                repeats = value in (0, 1)
                if not repeats:
                    values[at] = _as_float(value)
            else:
                return False
            stored = column if isinstance(value, str) or value != 0 else _ABSENT
            columns[at] = stored
            if repeats and column >= 0:
                self._met[name, value] = stored
        return True

    def _column(self, key: str) -> int:
        if self.learn:
            return self.vocabulary[key]
        return self.vocabulary.get(key, _ABSENT)


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats
        return np.inf


# --- from what users write to plain dicts ---------------------------------------------------


# Values that need no look: features are mostly these.
_PLAIN = {str, float, int, bool}


def as_dict(features: Any, i: int, t: int) -> Mapping:
    """Position t of sequence i as a dict from names to numbers and strings."""
    match features:
        case Mapping():
            usual = all(type(name) is str for name in features)
            if usual and all(type(value) in _PLAIN for value in features.values()):
                return features
            return dict(_flatten(features, "", f"X[{i}][{t}]"))
        case list() | tuple() | set() | frozenset():
            for name in features:
                if not is_text(name):
                    raise ValueError(
                        f"X[{i}][{t}] must be a list of feature names; found {name!r}."
                    )
            return dict.fromkeys(features, 1.0)
    raise ValueError(
        f"X[{i}][{t}] must be a dict of features or a list of feature names; received "
        f"{type(features).__name__}."
    )


def _flatten(features: Mapping, prefix: str, where: str) -> Iterator[tuple[str, Any]]:
    """Values as CRFsuite reads them.

    ``{"a": {"b": 1}}`` is the feature "a:b", and ``{"a": ["b", "c"]}`` are "a:b" and "a:c".
    """
    for name, value in features.items():
        if not is_text(name):
            raise ValueError(f"{where} has the feature name {name!r}; names must be strings.")
        key = f"{prefix}{name}"
        match value:
            case Mapping():
                yield from _flatten(value, f"{key}:", where)
            case np.bool_():
                yield key, bool(value)
            case str() | Real():
                yield key, value
            case list() | tuple() | set() | frozenset() if all(map(is_text, value)):
                yield from ((f"{key}:{item}", 1.0) for item in value)
            case _:
                raise ValueError(
                    f"{where}[{key!r}] must be a number, a string, a list of strings or a dict of "
                    f"these; received {value!r}."
                )


# --- sequences ------------------------------------------------------------------------------


def new_vectorizer(vocabulary: dict[str, int]) -> DictVectorizer:
    """What scikit-learn's class would be after a fit: names as CRFsuite makes them, where
    ``{"word": "cat"}`` is the feature "word:cat"."""
    from sklearn.feature_extraction import DictVectorizer

    vectorizer = DictVectorizer(sparse=True, separator=":", sort=True)
    vectorizer.feature_names_ = list(vocabulary)
    vectorizer.vocabulary_ = vocabulary
    return vectorizer


# What was met before, for each fitted vectorizer: no part of the model, and gone with it.
_KNOWN: WeakKeyDictionary[DictVectorizer, Columns] = WeakKeyDictionary()


def columns_of(vectorizer: DictVectorizer) -> Columns:
    """The columns of a fitted vectorizer."""
    known = _KNOWN.get(vectorizer)
    if known is None or known.vocabulary is not vectorizer.vocabulary_:
        known = _KNOWN[vectorizer] = Columns(vectorizer.vocabulary_)
    return known
