"""Feature dicts, and lists of feature names, as CRFsuite takes them: names to columns.

Almost all of the work is looking up features that were met before, so that is one call into a
dictionary for each: ``("word", "cat")`` is the key of the feature "word:cat", and ``("size", 1.0)``
that of "size" with the value 1, which is also that of ``True``. Anything else is looked at closely.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, compress, count, islice, repeat
from numbers import Real
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from .._validation import is_text

if TYPE_CHECKING:
    from sklearn.feature_extraction import DictVectorizer

_UNMET, _ABSENT = -1, -2  # in place of a column: not looked at before; nothing to store


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
        if set(map(type, positions)) == {list}:
            found_by_name = self._rows_of_lists(positions)
            if found_by_name is not None:
                return found_by_name
        described, columns, indptr = self._look_up(positions, place)
        values = np.ones(len(columns))
        if (columns == _UNMET).any() and not self._meet(described, columns, values):
            # Values that only the slow way understands, or refuses.
            plain = [as_dict(features, *place(t)) for t, features in enumerate(positions)]
            return self.rows(plain, place)
        kept = columns >= 0
        if not kept.all():
            indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
            columns, values = columns[kept], values[kept]
        return Triplets(values, columns, indptr)

    def check_names(self, known: int, positions: list, place: Callable) -> None:
        """Refuse names that are no texts among those learned after the first ``known``."""
        learned = islice(reversed(self.vocabulary), len(self.vocabulary) - known)
        if not set(map(type, learned)) <= {str}:
            for t, features in enumerate(positions):
                as_dict(features, *place(t))

    def _rows_of_lists(self, positions: list[list]) -> Triplets | None:
        """Rows of lists of names, without a step in Python per name; None: they need a closer look.
        Whether learned names are texts is checked by :meth:`check_names`."""
        counts = np.fromiter(map(len, positions), np.int64, len(positions))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        names = chain.from_iterable(positions)
        try:
            if self.learn:
                found = map(self.vocabulary.__getitem__, names)
            else:
                found = map(self.vocabulary.get, names, repeat(_ABSENT))
            columns = np.fromiter(found, np.int32, int(indptr[-1]))
        except TypeError:  # something without a hash
            return None
        if not self.learn:
            unknown = compress(chain.from_iterable(positions), columns < 0)
            if not set(map(type, unknown)) <= {str}:
                return None
        return _each_once(columns, counts, indptr)

    def _look_up(self, positions: list, place: Callable) -> tuple[list, np.ndarray, np.ndarray]:
        """Positions as dicts, the columns of their features, and where those of each position begin
        and end."""
        try:
            if set(map(type, positions)) != {dict}:
                raise TypeError
            columns = self._columns_of_dicts(positions)
        except TypeError:  # also where a list or a dict is a value: it has no hash
            positions = [as_dict(features, *place(t)) for t, features in enumerate(positions)]
            columns = self._columns_of_dicts(positions)
        counts = np.fromiter(map(len, positions), np.int64, len(positions))
        return positions, columns, np.concatenate([[0], np.cumsum(counts)])

    def _columns_of_dicts(self, positions: list) -> np.ndarray:
        return np.fromiter(map(self._met.get, _items(positions), repeat(_UNMET)), np.int32)

    def _meet(self, described: list, columns: np.ndarray, values: np.ndarray) -> bool:
        """Look closely at features that were not met before; False: some need a closer look."""
        unmet = columns == _UNMET
        pairs = list(compress(_items(described), unmet))
        places = np.flatnonzero(unmet)
        if all(type(value) is str and type(name) is str for name, value in pairs):
            self._meet_texts(pairs, places, columns)
            return True
        for at, (name, value) in zip(places.tolist(), pairs, strict=True):
            if not isinstance(name, str) or not isinstance(value, (str, Real, np.bool_)):
                return False
            if isinstance(value, str):
                column = stored = self._column("".join((name, ":", value)))
            else:
                column = self._column(name)
                stored = column if value != 0 else _ABSENT
                if value not in (0, 1):
                    values[at] = _as_float(value)
                    column = _ABSENT  # this very pair will hardly come again
            columns[at] = stored
            if column >= 0:
                self._met[name, value] = stored
        return True

    def _meet_texts(self, pairs: list, places: np.ndarray, columns: np.ndarray) -> None:
        """Columns of pairs of texts, which are remembered."""
        keys = map(":".join, pairs)
        if self.learn:
            found = list(map(self.vocabulary.__getitem__, keys))
            self._met.update(zip(pairs, found, strict=True))
        else:
            found = list(map(self.vocabulary.get, keys, repeat(_ABSENT)))
            self._met.update((pair, at) for pair, at in zip(pairs, found, strict=True) if at >= 0)
        columns[places] = found

    def _column(self, key: str) -> int:
        if self.learn:
            return self.vocabulary[key]
        return self.vocabulary.get(key, _ABSENT)


def count_unknown(sequences: Any, vocabulary: dict[str, int]) -> tuple[int, int]:
    """Number of features of sequences that a vocabulary lacks, and of all; a value of 0 is none."""
    unknown = total = 0
    for i, sequence in enumerate(sequences):
        for t, features in enumerate(sequence):
            items = as_dict(features, i, t).items()
            names = [f"{name}:{value}" if is_text(value) else name
                     for name, value in items if is_text(value) or value != 0]  # fmt: skip
            total += len(names)
            unknown += sum(name not in vocabulary for name in names)
    return unknown, total


def _items(positions: list) -> Iterator[tuple[Any, Any]]:
    """Names and values of all positions."""
    return chain.from_iterable(map(methodcaller("items"), positions))


def _each_once(columns: np.ndarray, counts: np.ndarray, indptr: np.ndarray) -> Triplets:
    """Rows of ones, without columns that are negative or that a row had before."""
    width = int(columns.max(initial=0)) + 1
    narrow = np.int32 if len(counts) * width < 1 << 31 else np.int64
    starts = np.arange(0, len(counts) * width, width, dtype=narrow)
    keys: np.ndarray = np.repeat(starts, counts)
    keys += columns
    known = columns >= 0
    if not known.all():
        keys, columns = keys[known], columns[known]
        indptr = np.concatenate([[0], np.cumsum(known)])[indptr]
    ordered = np.sort(keys)
    if (ordered[1:] == ordered[:-1]).any():
        ordered = np.unique(keys)
        rows, columns = np.divmod(ordered, width)
        columns = columns.astype(np.int32)
        indptr = np.searchsorted(rows, np.arange(len(counts) + 1))
    return Triplets(np.ones(len(columns)), columns, indptr)


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

    vectorizer = DictVectorizer(sparse=True, separator=":", sort=False)
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
