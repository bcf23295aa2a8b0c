"""Sentences and their trees, as users have them, checked and packed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._kernels.passes import decode_blocks
from .._validation import (
    first_unusable,
    is_array,
    is_mapping,
    is_plain_list,
    is_text,
    take_examples,
    unusable,
)
from ..conllu import Sentence
from ..features.arcs import TEMPLATES, ArcRows, attributes_of, pack_arcs
from ..features.rows import FeatureRows, pack_rows
from ..solvers.groups import for_groups
from ..tasks.trees import HIDDEN

DEFAULT_BITS = 20  # of the hashes of features, and the most that "auto" takes
_ROOM = 4  # weights for every feature of every arc of a small treebank
_NAMES = ("form", "upos", "xpos")
_REMEDY = (
    "pass sentences as read_conllu reads them, lists of words, of (form, tag) pairs or of dicts; "
    "or arrays of the features of all arcs, of shape (m + 1, m, n_features)"
)


class FeatureSpec(NamedTuple):
    """How arcs get their features: by templates from words, or as given (no templates)."""

    templates: tuple[str, ...]
    between: str | None
    bits: int
    n_features: int


class Sentences:
    """Examples of one kind: words with attributes, or arrays of arc features."""

    def __init__(self, X: Any):
        listed = take_examples(X, "sentence", _REMEDY, ndim=3, single=(Sentence,))
        first = listed[0]
        self.are_words = not (sp.issparse(first) or (is_array(first)))
        take = _take_words if self.are_words else _take_array
        self.examples: list[Any] = [take(example, i) for i, example in enumerate(listed)]
        if self.are_words:
            lengths = [len(next(iter(words.values()))) for words in self.examples]
        else:
            lengths = [_words_of(table.shape[0]) for table in self.examples]
            _check_widths(self.examples)
        self.lengths = np.array(lengths, np.int64)

    @classmethod
    def of(cls, X: Any) -> Sentences:
        """The same if it was read already."""
        return X if isinstance(X, cls) else cls(X)

    @property
    def indptr(self) -> np.ndarray:
        """Where the words of each sentence start."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @property
    def parts_indptr(self) -> np.ndarray:
        """Where the arcs of each sentence start."""
        return np.concatenate([[0], np.cumsum(self.lengths * (self.lengths + 1))]).astype(np.int64)

    @property
    def attributes(self) -> set[str]:
        """Names of the attributes that all words have."""
        return set.intersection(*(set(words) for words in self.examples))

    def take(self, chosen: np.ndarray) -> Sentences:
        """Some of the sentences."""
        part = object.__new__(Sentences)
        part.are_words = self.are_words
        part.examples = [self.examples[i] for i in chosen]
        part.lengths = self.lengths[chosen]
        return part

    def spec(self, templates: Any, between: str | None, hash_bits: Any) -> FeatureSpec:
        """The features that these sentences have attributes for."""
        if not self.are_words:
            return FeatureSpec((), None, 0, self.examples[0].shape[1])
        known = self.attributes
        if is_text(templates):  # "auto"
            chosen = tuple(t for t in TEMPLATES if attributes_of([t]) <= known)
            between = between if between in known else None
            if not chosen:
                raise ValueError(
                    "X: the words of all sentences have the attributes "
                    f"{sorted(known)}, of which templates='auto' uses none; name them form, lemma, "
                    "upos, xpos, feats, or pass templates=."
                )
        else:
            chosen = tuple(templates)
            wanted = attributes_of(chosen) | ({between} if between else set())
            check_attributes(self.examples, wanted)
        bits = self._bits(len(chosen)) if is_text(hash_bits) else int(hash_bits)
        return FeatureSpec(chosen, between, bits, 1 << bits)

    def _bits(self, n_templates: int) -> int:
        """As many as the features of all arcs need; a template gives two of an arc."""
        n_features = 2 * n_templates * int(self.parts_indptr[-1])
        return min(DEFAULT_BITS, (_ROOM * n_features).bit_length())

    def rows(self, spec: FeatureSpec) -> FeatureRows | ArcRows:
        """The feature store of all arcs."""
        if not self.are_words:
            sparse = any(sp.issparse(table) for table in self.examples)
            stacked = sp.vstack(self.examples) if sparse else np.concatenate(self.examples)
            return pack_rows(stacked, fit_intercept=False)
        wanted = attributes_of(spec.templates) | ({spec.between} if spec.between else set())
        check_attributes(self.examples, wanted)
        return pack_arcs(self.examples, spec.templates, spec.between, spec.bits)


# --- words ------------------------------------------------------------------------------------


def _take_words(example: Any, i: int) -> dict[str, Sequence[str]]:
    """Texts of every attribute of every word."""
    if isinstance(example, Sentence):
        words = example.attributes()
        if not len(example):
            raise ValueError(f"X[{i}] has no words; leave it out of X and y.")
        return dict(words)
    if not is_plain_list(example):
        raise ValueError(
            f"X[{i}] must be a sentence: a list of words; received {type(example).__name__}; "
            f"{_REMEDY}."
        )
    if not example:
        raise ValueError(f"X[{i}] has no words; leave it out of X and y.")
    tokens = [_take_token(token, i, place) for place, token in enumerate(example)]
    names = set(tokens[0])
    for place, token in enumerate(tokens):
        if set(token) != names:
            raise ValueError(
                f"X[{i}][{place}] has the attributes {sorted(token)} but X[{i}][0] has "
                f"{sorted(names)}; expected the same for all words of a sentence."
            )
    return {name: [token[name] for token in tokens] for name in tokens[0]}


def _take_token(token: Any, i: int, place: int) -> dict[str, str]:
    if is_text(token):
        return {"form": token}
    if is_mapping(token) and token and all(is_text(name) for name in token):
        return {name: str(value) for name, value in token.items()}
    if is_plain_list(token) and 1 <= len(token) <= len(_NAMES):
        return {name: str(value) for name, value in zip(_NAMES, token)}
    raise ValueError(
        f"X[{i}][{place}] must be a word: a str, (form, tag), (form, upos, xpos) or a dict of "
        f"attributes; received {token!r}."
    )


def check_attributes(examples: Sequence[Mapping[str, Any]], wanted: set[str]) -> None:
    """Refuse sentences whose words lack an attribute."""
    for i, words in enumerate(examples):
        missing = sorted(wanted - set(words))
        if missing:
            raise ValueError(
                f"X[{i}]: its words lack the attribute {missing[0]!r}, which the templates use; "
                f"they have {sorted(words)}. Add it, or train with templates that do without."
            )


# --- arrays -----------------------------------------------------------------------------------


def _words_of(n_arcs: int) -> int:
    """The m with m (m + 1) arcs, or -1."""
    m = (math.isqrt(4 * n_arcs + 1) - 1) // 2
    return m if m * (m + 1) == n_arcs else -1


def _take_array(example: Any, i: int) -> Any:
    """Features of all arcs of a sentence, word by word; given they are head by head."""
    if sp.issparse(example):
        table = example.tocsr()
        m = _words_of(table.shape[0])
        if m < 1:
            raise ValueError(
                f"X[{i}] has {table.shape[0]} rows; expected (m + 1) * m for a sentence of m >= 1 "
                "words: the arcs from the root, then those from the first word, and so on."
            )
        data = table.data
    else:
        array = np.asarray(example)
        fits = (
            array.ndim == 3 and array.dtype.kind in "fiub" and array.shape[0] == array.shape[1] + 1
        )
        if not fits or not array.shape[1]:
            raise ValueError(
                f"X[{i}] must be an array of numbers of shape (m + 1, m, n_features): node h, 0 "
                f"for the root, as the head of word d; received shape {array.shape}, {array.dtype}."
            )
        m = array.shape[1]
        data = table = array.reshape((m + 1) * m, -1)
    first = first_unusable(data)
    if first >= 0:
        row = (
            first // table.shape[1]
            if data is table
            else int(np.searchsorted(table.indptr, first, side="right") - 1)
        )
        found = unusable(data.ravel()[first])
        raise ValueError(
            f"X[{i}] contains {found} in the arc {row // m} -> {row % m + 1}; expected finite "
            "numbers. Impute, drop or scale it first."
        )
    order = np.arange((m + 1) * m).reshape(m + 1, m).T.ravel()
    table = table[order]
    return table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)


def _check_widths(tables: Sequence[Any]) -> None:
    for i, table in enumerate(tables):
        if table.shape[1] != tables[0].shape[1]:
            raise ValueError(
                f"X[{i}] has {table.shape[1]} features per arc but X[0] has {tables[0].shape[1]}; "
                "expected as many in all sentences."
            )
    if not tables[0].shape[1]:
        raise ValueError("X[0] has 0 features per arc; expected at least one.")


# --- trees ------------------------------------------------------------------------------------


def known_arcs(heads: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Mask of the arcs that agree with what is known: a word with a known head has no other."""
    size = int((lengths * (lengths + 1)).sum())
    widths = np.repeat(lengths + 1, lengths)  # arcs of each word
    starts = np.concatenate([[0], np.cumsum(widths)])[:-1]
    allowed = np.repeat(heads == HIDDEN, widths)
    known = heads != HIDDEN
    allowed[starts[known] + heads[known]] = True
    assert len(allowed) == size
    return allowed


def word_costs(heads: np.ndarray, mean_length: float) -> np.ndarray:
    """The loss of a wrong head: one over the mean number of words; 0 where the head is hidden."""
    return (heads != HIDDEN) / mean_length


def parse(structure: Any, rows: Any, weights: np.ndarray, n_threads: int) -> np.ndarray:
    """Heads of all words in the best trees."""
    heads = np.empty(int(structure.indptr[-1]), np.int32)
    values = np.empty(len(structure.indptr) - 1)

    def work(first: int, last: int) -> None:
        decode_blocks(structure, rows, weights, first, last, heads, values)

    for_groups(work, len(values), n_threads)
    return heads
