"""Features of arcs between the words of a sentence, computed when they are needed.

A sentence of m words has m (m + 1) possible arcs with some dozens of binary features per arc, each
a conjunction of attributes of the head and of the dependent. Stored, they would take gigabytes;
here a few numbers per word are stored. Every conjunction of attributes of *one* word is a 64-bit
key, computed once; a feature of an arc is ``key of the head xor key of the dependent``, hashed by
one multiplication to an index in a table of ``2^bits`` weights.

A template is a string ``"form upos | upos upos+1"``: attributes of the head, then of the dependent;
``+1`` and ``-1`` mean the next and the previous word. Every template gives two features: one alone,
and one combined with direction and distance of the arc. In addition, *between* features represent
the tags that occur between the two words (McDonald et al. 2005).

Rows are arcs, word by word: row ``start_i + d (m + 1) + h`` is the arc from node h (0 is the root)
to word d + 1.

References
----------
McDonald, Crammer, Pereira. Online large-margin training of dependency parsers. ACL 2005.
Weinberger et al. Feature hashing for large scale multitask learning. ICML 2009.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._kernels.jit import implements, leaf
from .._kernels.protocol import (
    add_row,
    clear_rows,
    drain_row,
    prefetch_rows,
    score_row,
    score_rows,
)
from .nodes import MULTIPLIER, Nodes, Side, mix
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
    "xpos-1 xpos | xpos-1 xpos", "xpos xpos+1 | xpos xpos+1", "xpos xpos+1 | xpos",
    "xpos-1 xpos | xpos", "xpos | xpos-1 xpos", "xpos | xpos xpos+1", "xpos-1 xpos xpos+1 | xpos",
    "xpos | xpos-1 xpos xpos+1", "lemma upos | lemma upos", "lemma | xpos", "xpos | lemma",
    "feats upos | upos", "upos | feats upos", "lemma | upos feats", "upos feats | lemma",
    "upos lemma+1 | upos", "upos lemma-1 | upos", "upos | upos lemma-1", "upos | upos lemma+1",
    "upos-1 upos upos+1 | upos-1 upos upos+1",
)  # fmt: skip

# Classes of distances: 1 to 5 each, 6 to 10, and more; in both directions, and arcs from the root.
_PLACES = 15
_PART = re.compile(r"([A-Za-z_]\w*)([+-]\d+)?$")


class ArcRows(NamedTuple):
    """Packed words of all sentences; node 0 of a sentence is the root."""

    head_keys: np.ndarray  # (nodes, sides): keys of the conjunctions of a head
    dependent_keys: np.ndarray  # the same for a dependent
    between_keys: np.ndarray  # (nodes, 3): of a tag as head, as dependent, in between; or no rows
    tags: np.ndarray  # (nodes,): index of the tag within its sentence
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
        """Approximate squared norm of each row: the number of its features, without *between*
        features, and without regard to features that share a weight."""
        count = len(self.templates) + int(self.templates[:, 2].sum())
        return np.full(int(self.rows_indptr[-1]), float(count))


# --- templates --------------------------------------------------------------------------------


def parse_template(template: str) -> tuple[Side, ...]:
    """Attributes of the head and of the dependent, with their offsets."""
    return parse_sides(template, 2, "form upos | upos+1")


def parse_sides(template: Any, count: int, example: str) -> tuple[Side, ...]:
    """Attributes of each of some words, with their offsets."""
    sides = template.split("|") if isinstance(template, str) else []
    parsed = []
    for side in sides:
        matches = [_PART.match(part) for part in side.split()]
        if not all(matches):
            break
        parsed.append(tuple((m[1], int(m[2] or 0)) for m in matches if m))
    if len(parsed) != count or not any(parsed):
        raise ValueError(
            f"a template must look like {example!r}, attributes of {count} words with offsets; "
            f"received {template!r}."
        )
    return tuple(parsed)


def attributes_of(templates: Sequence[str]) -> set[str]:
    """Names of all attributes that templates use."""
    return {name for t in templates for side in parse_template(t) for name, _ in side}


# --- packing ----------------------------------------------------------------------------------


def pack_arcs(
    sentences: Sequence[Mapping[str, Sequence[str]]],
    templates: Sequence[str],
    between: str | None,
    bits: int,
) -> ArcRows:
    """Pack sentences, each a dict from names of attributes to one string per word."""
    parsed = [parse_template(template) for template in templates]
    names = attributes_of(templates) | ({between} if between else set())
    nodes = Nodes(sentences, names)
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
        mix(np.arange(1, _PLACES + 1, dtype=np.uint64) * MULTIPLIER),
        np.uint64(64 - bits),
        1 << bits,
    )


# --- features of one arc ----------------------------------------------------------------------


@leaf
def place_key(rows, d, h):
    """Key of direction and distance."""
    if h == 0:
        return rows.place_keys[0]
    distance = h - 1 - d
    far = abs(distance)
    bucket = far if far <= 5 else 6 if far <= 10 else 7
    return rows.place_keys[bucket if distance > 0 else 7 + bucket]


@leaf
def slot_of(rows, key):
    """Index of a feature in the table."""
    return (key * MULTIPLIER) >> rows.shift


@leaf
def base_key(rows, head, dependent):
    """Key of the tags of both ends and the direction."""
    key = rows.between_keys[head, 0] ^ rows.between_keys[dependent, 1]
    return key ^ rows.place_keys[6 if head > dependent else 13]


class _Between(NamedTuple):
    """Tags between a word and another one: bits of those that occur once, twice, three times or
    more, and a key of the set."""

    once: np.uint64
    twice: np.uint64
    often: np.uint64
    key: np.uint64


@leaf
def _nothing():
    return _Between(np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0))


@leaf
def _pass(rows, met, node):
    """Add the tag of one more node."""
    bit = np.uint64(1) << np.uint64(rows.tags[node])
    new = met.once & bit == 0
    return _Between(
        met.once | bit,
        met.twice | (met.once & bit),
        met.often | (met.twice & bit),
        met.key ^ rows.between_keys[node, 2] if new else met.key,
    )


@leaf
def met_between(rows, head, dependent):
    """The tags between two words."""
    step = 1 if head > dependent else -1
    met = _nothing()
    for node in range(dependent + step, head, step):
        met = _pass(rows, met, node)
    return met


@leaf
def tag_key(rows, met, node):
    """Key of a tag and its number of occurrences."""
    bit = np.uint64(1) << np.uint64(rows.tags[node])
    level = 1 if met.twice & bit == 0 else 2 if met.often & bit == 0 else 3
    return rows.between_keys[node, 2] ^ rows.place_keys[level]


@leaf
def _gather(rows, matrix, head, dependent, place):
    """Sum of the weights of the features of an arc, without *between* features."""
    total = 0.0
    for t in range(rows.templates.shape[0]):
        key = (
            rows.head_keys[head, rows.templates[t, 0]]
            ^ rows.dependent_keys[dependent, rows.templates[t, 1]]
        )
        if rows.templates[t, 2] != 0:
            total += matrix[slot_of(rows, key), 0]
        total += matrix[slot_of(rows, key ^ place), 0]
    return total


@leaf
def _gather_between(rows, matrix, head, dependent, met):
    """Sum of the weights of the *between* features of an arc."""
    base = base_key(rows, head, dependent)
    total = matrix[slot_of(rows, base ^ met.key), 0]
    step = 1 if head > dependent else -1
    left = met.once
    node = dependent + step
    while left != 0:
        bit = np.uint64(1) << np.uint64(rows.tags[node])
        if left & bit:
            left ^= bit
            total += matrix[slot_of(rows, base ^ tag_key(rows, met, node)), 0]
        node += step
    return total


@leaf
def _score_word(rows, matrix, first, m, d, out):
    """Scores of all heads of a word, in order of distance: tags between are added one by one."""
    dependent = first + d + 1
    out[d + 1] = 0.0
    for side in range(2):
        step = 1 if side == 0 else -1
        met = _nothing()
        h = d + 1 + step
        while 0 <= h <= m:
            head = first + h
            out[h] = _gather(rows, matrix, head, dependent, place_key(rows, d, h))
            if rows.between_keys.shape[0] > 0 and h > 0:
                out[h] += _gather_between(rows, matrix, head, dependent, met)
                met = _pass(rows, met, head)
            h += step


@leaf
def locate(rows, row):
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
    # Rows are read sentence by sentence.
    first, m, _, _ = locate(rows, begin)
    for d in range((end - begin) // (m + 1)):
        _score_word(rows, matrix, first, m, d, out[d * (m + 1) : (d + 1) * (m + 1), 0])


@leaf
def touch(matrix, slot, amount, drain):
    """Add to a weight; or, with ``drain``, set it to 0 and return its square."""
    before = matrix[slot, 0]
    matrix[slot, 0] = 0.0 if drain else before + amount
    return before * before


@leaf
def touch_arc(rows, matrix, first, d, h, amount, drain):
    """:func:`touch` the weights of all features of an arc; returns the sum."""
    head, dependent = first + h, first + d + 1
    place = place_key(rows, d, h)
    total = 0.0
    for t in range(rows.templates.shape[0]):
        key = (
            rows.head_keys[head, rows.templates[t, 0]]
            ^ rows.dependent_keys[dependent, rows.templates[t, 1]]
        )
        if rows.templates[t, 2] != 0:
            total += touch(matrix, slot_of(rows, key), amount, drain)
        total += touch(matrix, slot_of(rows, key ^ place), amount, drain)
    if h == 0 or rows.between_keys.shape[0] == 0:
        return total
    met = met_between(rows, head, dependent)
    base = base_key(rows, head, dependent)
    total += touch(matrix, slot_of(rows, base ^ met.key), amount, drain)
    left = met.once
    step = 1 if head > dependent else -1
    for node in range(dependent + step, head, step):
        bit = np.uint64(1) << np.uint64(rows.tags[node])
        if left & bit:
            left ^= bit
            total += touch(matrix, slot_of(rows, base ^ tag_key(rows, met, node)), amount, drain)
    return total


@leaf
def score_arc(rows, matrix, first, d, h):
    """Score of one arc."""
    head, dependent = first + h, first + d + 1
    total = _gather(rows, matrix, head, dependent, place_key(rows, d, h))
    if h > 0 and rows.between_keys.shape[0] > 0:
        met = met_between(rows, head, dependent)
        total += _gather_between(rows, matrix, head, dependent, met)
    return total


@implements(score_row, ArcRows)
def _score_row(rows, matrix, row):
    first, _, d, h = locate(rows, row)
    return score_arc(rows, matrix, first, d, h)


@implements(add_row, ArcRows)
def _add(rows, matrix, row, values, scale):
    first, _, d, h = locate(rows, row)
    touch_arc(rows, matrix, first, d, h, scale * values[0], False)


@implements(drain_row, ArcRows)
def _drain(rows, matrix, row):
    first, _, d, h = locate(rows, row)
    return touch_arc(rows, matrix, first, d, h, 0.0, True)


@implements(clear_rows, ArcRows)
def _clear(rows, matrix, first, last):
    for row in range(first, last):
        drain_row(rows, matrix, row)


@implements(prefetch_rows, ArcRows)
def _prefetch(rows, first, last):
    pass
