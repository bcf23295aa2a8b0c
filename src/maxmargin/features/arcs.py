"""Features of arcs between the words of a sentence, computed when they are needed.

A sentence of m words has m (m + 1) possible arcs, and an arc some dozens of binary features, each a
conjunction of attributes of the head and of the dependent. Stored, they would take gigabytes; here
the memory is that of a few numbers a word. Every conjunction of attributes of *one* word is a
64-bit key, made once; a feature of an arc is ``key of the head xor key of the dependent``, hashed
by one multiplication to a place in a table of ``2^bits`` weights.

A template is a string ``"form upos | upos upos+1"``: attributes of the head, then of the dependent;
``+1`` and ``-1`` mean the next and the previous word. Every template gives a feature of its own and
one together with direction and distance of the arc. Beside these, *between* features tell which
tags occur between the two words (McDonald et al. 2005).

Rows are arcs, word by word: row ``start_i + d (m + 1) + h`` is the arc from node h (0 is the root)
to word d + 1.

References
----------
McDonald, Crammer, Pereira. Online large-margin training of dependency parsers. ACL 2005.
Weinberger et al. Feature hashing for large scale multitask learning. ICML 2009.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._kernels.jit import implements, leaf
from .._kernels.protocol import add_row, clear_rows, drain_row, prefetch_rows, score_rows
from .rows import HASHED

TEMPLATES = (
    "form |", "upos |", "form upos |", "xpos |",
    "| form", "| upos", "| form upos", "| xpos",
    "form upos | form upos", "upos | form upos", "form | form upos", "form upos | form",
    "form upos | upos", "form | form", "upos | upos", "xpos | xpos", "lemma | lemma",
    "lemma | upos", "upos | lemma", "feats | feats",
    "upos upos+1 | upos-1 upos", "upos-1 upos | upos-1 upos",
    "upos upos+1 | upos upos+1", "upos-1 upos | upos upos+1",
    "upos upos+1 | upos", "upos-1 upos | upos", "upos | upos-1 upos", "upos | upos upos+1",
    "xpos xpos+1 | xpos-1 xpos", "xpos-1 xpos | xpos xpos+1",
)  # fmt: skip

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# Distances 1 to 5 by themselves, up to 10, and more; on both sides, and arcs from the root.
_PLACES = 15
_MOST_TAGS = 64
_PART = re.compile(r"([A-Za-z_]\w*)([+-]\d+)?$")

Attribute = tuple[str, int]
Side = tuple[Attribute, ...]


class ArcRows(NamedTuple):
    """Packed words of all sentences; node 0 of a sentence is the root."""

    head_keys: np.ndarray  # (nodes, sides): keys of the conjunctions of a head
    dependent_keys: np.ndarray  # the same of a dependent
    between_keys: np.ndarray  # (nodes, 3): of a tag as head, as dependent, in between; or no rows
    tags: np.ndarray  # (nodes,): number of the tag within its sentence
    nodes_indptr: np.ndarray
    rows_indptr: np.ndarray
    templates: np.ndarray  # (templates, 3): sides, and whether there is a feature without distance
    place_keys: np.ndarray  # of directions and distances
    shift: np.uint64
    n_inputs: int

    @property
    def weighs(self) -> str:
        """What weights belong to."""
        return HASHED

    @property
    def for_reading(self) -> ArcRows:
        """The same rows, for threads."""
        return self

    @property
    def squares(self) -> np.ndarray:
        """About the squared norm of each row: the number of its features, but for what is between
        and for features that share a weight."""
        count = len(self.templates) + int(self.templates[:, 2].sum())
        return np.full(int(self.rows_indptr[-1]), float(count))


# --- templates --------------------------------------------------------------------------------


def parse_template(template: str) -> tuple[Side, Side]:
    """Attributes of the head and of the dependent, with their offsets."""
    sides = template.split("|") if isinstance(template, str) else []
    parsed = []
    for side in sides:
        matches = [_PART.match(part) for part in side.split()]
        if not all(matches):
            break
        parsed.append(tuple((m[1], int(m[2] or 0)) for m in matches if m))
    if len(parsed) != 2 or not any(parsed):
        raise ValueError(
            "a template must look like 'form upos | upos+1', attributes of the head and of the "
            f"dependent with offsets; received {template!r}."
        )
    return parsed[0], parsed[1]


def attributes_of(templates: Sequence[str]) -> set[str]:
    """Names of all attributes that templates use."""
    return {name for t in templates for side in parse_template(t) for name, _ in side}


# --- packing ----------------------------------------------------------------------------------


def _mix(values: np.ndarray) -> np.ndarray:
    """Scramble 64-bit numbers (the finaliser of splitmix64)."""
    z = np.asarray(values, np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _number(text: str) -> int:
    """A number that stands for a text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _constant(text: str) -> np.ndarray:
    return np.array([_number(text)], np.uint64)


class _Nodes:
    """Attributes of all words as numbers, roots included."""

    def __init__(self, sentences: Sequence[Mapping[str, Sequence[str]]], names: set[str]):
        lengths = np.array([len(next(iter(s.values()))) for s in sentences], np.int64)
        self.indptr = np.concatenate([[0], np.cumsum(lengths + 1)]).astype(np.int64)
        self.values = {name: self._read(sentences, name) for name in names}
        n = int(self.indptr[-1])
        self._first = np.repeat(self.indptr[:-1], lengths + 1)
        self._last = np.repeat(self.indptr[1:], lengths + 1)
        self._at = np.arange(n)

    @staticmethod
    def _read(sentences, name: str) -> np.ndarray:
        known: dict[str, int] = {}
        numbers: list[int] = []
        root = _number(f"{name}\0root")
        for sentence in sentences:
            numbers.append(root)
            for text in sentence[name]:
                number = known.get(text)
                if number is None:
                    number = known[text] = _number(f"{name}={text}")
                numbers.append(number)
        return np.array(numbers, np.uint64)

    def shifted(self, attribute: Attribute) -> np.ndarray:
        """Values of the attribute of a neighbour; a number of its own outside the sentence."""
        name, offset = attribute
        wanted = self._at + offset
        inside = (wanted >= self._first) & (wanted < self._last)
        found = self.values[name][np.where(inside, wanted, 0)]
        return np.where(inside, found, np.uint64(_number(f"{name}\0outside")))

    def keys(self, side: Side, role: str) -> np.ndarray:
        """Key of a conjunction, for all nodes."""
        total = np.repeat(_mix(_constant(f"role {role} {side}")), len(self._at))
        for attribute in side:
            salt = _constant(f"salt {attribute}")
            total = _mix(total + _mix(self.shifted(attribute) ^ salt))
        return total

    def tags(self, name: str) -> np.ndarray:
        """Number of each tag within its sentence."""
        found = np.zeros(len(self._at), np.uint8)
        values = self.values[name].tolist()
        for first, last in zip(self.indptr[:-1].tolist(), self.indptr[1:].tolist()):
            seen: dict[int, int] = {}
            for node in range(first + 1, last):
                found[node] = min(seen.setdefault(values[node], len(seen)), _MOST_TAGS - 1)
        return found


def pack_arcs(
    sentences: Sequence[Mapping[str, Sequence[str]]],
    templates: Sequence[str],
    between: str | None,
    bits: int,
) -> ArcRows:
    """Pack sentences, each a dict from names of attributes to a text for every word."""
    parsed = [parse_template(template) for template in templates]
    names = attributes_of(templates) | ({between} if between else set())
    nodes = _Nodes(sentences, names)
    heads = sorted({head for head, _ in parsed})
    dependents = sorted({dependent for _, dependent in parsed})
    columns = [(heads.index(h), dependents.index(d), int(bool(h))) for h, d in parsed]
    n = int(nodes.indptr[-1])
    between_keys, tags = np.empty((0, 3), np.uint64), np.zeros(n, np.uint8)
    if between:
        side: Side = ((between, 0),)
        roles = ("between-head", "between-dependent", "between")
        between_keys = np.stack([nodes.keys(side, role) for role in roles], axis=1)
        tags = nodes.tags(between)
    lengths = np.diff(nodes.indptr) - 1
    return ArcRows(
        np.stack([nodes.keys(side, "head") for side in heads], axis=1),
        np.stack([nodes.keys(side, "dependent") for side in dependents], axis=1),
        between_keys,
        tags,
        nodes.indptr,
        np.concatenate([[0], np.cumsum(lengths * (lengths + 1))]).astype(np.int64),
        np.array(columns, np.int32),
        _mix(np.arange(1, _PLACES + 1, dtype=np.uint64) * _MULTIPLIER),
        np.uint64(64 - bits),
        1 << bits,
    )


# --- features of one arc ----------------------------------------------------------------------


@leaf
def _place_key(rows, d, h):
    """Key of direction and distance."""
    if h == 0:
        return rows.place_keys[0]
    distance = h - 1 - d
    far = abs(distance)
    bucket = far if far <= 5 else 6 if far <= 10 else 7
    return rows.place_keys[bucket if distance > 0 else 7 + bucket]


@leaf
def _slot(rows, key):
    """Place of a feature in the table."""
    return (key * _MULTIPLIER) >> rows.shift


@leaf
def _between_key(rows, head, dependent):
    """Key of the tags of both ends and the direction."""
    key = rows.between_keys[head, 0] ^ rows.between_keys[dependent, 1]
    return key ^ rows.place_keys[6 if head > dependent else 13]


@leaf
def _gather(rows, matrix, head, dependent, place):
    """Sum of the weights of the features of an arc, without what is between."""
    total = 0.0
    for t in range(rows.templates.shape[0]):
        key = (
            rows.head_keys[head, rows.templates[t, 0]]
            ^ rows.dependent_keys[dependent, rows.templates[t, 1]]
        )
        if rows.templates[t, 2] != 0:
            total += matrix[_slot(rows, key), 0]
        total += matrix[_slot(rows, key ^ place), 0]
    return total


@leaf
def _score_word(rows, matrix, first, m, d, out):
    """Scores of all heads of a word; from the word outwards, so that what is between grows."""
    dependent = first + d + 1
    out[d + 1] = 0.0
    for side in range(2):
        step = 1 if side == 0 else -1
        seen = np.uint64(0)
        h = d + 1 + step
        while 0 <= h <= m:
            head = first + h
            total = _gather(rows, matrix, head, dependent, _place_key(rows, d, h))
            if seen != 0 and h > 0:
                base = _between_key(rows, head, dependent)
                left = seen
                node = dependent + step
                while left != 0:
                    bit = np.uint64(1) << np.uint64(rows.tags[node])
                    if left & bit:
                        left ^= bit
                        total += matrix[_slot(rows, base ^ rows.between_keys[node, 2]), 0]
                    node += step
            out[h] = total
            if rows.between_keys.shape[0] > 0:
                seen |= np.uint64(1) << np.uint64(rows.tags[head])
            h += step


@leaf
def _locate(rows, row):
    """Sentence of a row: first node and length; and the word and the head of the arc."""
    low, high = 0, rows.rows_indptr.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if rows.rows_indptr[middle] <= row:
            low = middle
        else:
            high = middle
    first = rows.nodes_indptr[low]
    m = rows.nodes_indptr[low + 1] - first - 1
    local = row - rows.rows_indptr[low]
    return first, m, local // (m + 1), local % (m + 1)


@implements(score_rows, ArcRows)
def _score(rows, matrix, begin, end, out):
    # Rows are asked for sentence by sentence.
    first, m, _, _ = _locate(rows, begin)
    for d in range((end - begin) // (m + 1)):
        _score_word(rows, matrix, first, m, d, out[d * (m + 1) : (d + 1) * (m + 1), 0])


@implements(add_row, ArcRows)
def _add(rows, matrix, row, values, scale):
    first, _, d, h = _locate(rows, row)
    head, dependent = first + h, first + d + 1
    place = _place_key(rows, d, h)
    amount = scale * values[0]
    for t in range(rows.templates.shape[0]):
        key = (
            rows.head_keys[head, rows.templates[t, 0]]
            ^ rows.dependent_keys[dependent, rows.templates[t, 1]]
        )
        if rows.templates[t, 2] != 0:
            matrix[_slot(rows, key), 0] += amount
        matrix[_slot(rows, key ^ place), 0] += amount
    if h > 0 and rows.between_keys.shape[0] > 0:
        base = _between_key(rows, head, dependent)
        seen = np.uint64(0)
        step = 1 if head > dependent else -1
        for node in range(dependent + step, head, step):
            bit = np.uint64(1) << np.uint64(rows.tags[node])
            if not seen & bit:
                seen |= bit
                matrix[_slot(rows, base ^ rows.between_keys[node, 2]), 0] += amount


@implements(drain_row, ArcRows)
def _drain(rows, matrix, row):
    first, _, d, h = _locate(rows, row)
    head, dependent = first + h, first + d + 1
    place = _place_key(rows, d, h)
    total = 0.0
    for t in range(rows.templates.shape[0]):
        key = (
            rows.head_keys[head, rows.templates[t, 0]]
            ^ rows.dependent_keys[dependent, rows.templates[t, 1]]
        )
        for slot in (_slot(rows, key), _slot(rows, key ^ place)):
            total += matrix[slot, 0] * matrix[slot, 0]
            matrix[slot, 0] = 0.0
    if h > 0 and rows.between_keys.shape[0] > 0:
        base = _between_key(rows, head, dependent)
        for node in range(min(head, dependent) + 1, max(head, dependent)):
            slot = _slot(rows, base ^ rows.between_keys[node, 2])
            total += matrix[slot, 0] * matrix[slot, 0]
            matrix[slot, 0] = 0.0
    return total


@implements(clear_rows, ArcRows)
def _clear(rows, matrix, first, last):
    for row in range(first, last):
        drain_row(rows, matrix, row)


@implements(prefetch_rows, ArcRows)
def _prefetch(rows, first, last):
    pass
