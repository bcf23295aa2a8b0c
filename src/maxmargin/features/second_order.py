"""Features of pairs of arcs that share a word: siblings and grandparents.

A sibling part (h, s, d) says that h is the head of both s and d, and that no other dependent of h
is between them; without an s, d is the dependent of h next to it on its side. A grandparent part
(g, h, d) says that g is the head of h, and h that of d. As for single arcs, a feature is the
exclusive or of three keys, one per word, hashed to a place in the table of weights.

A template has three sides: ``"upos | upos | lemma"`` are attributes of the head, the sibling and
the dependent, or of the grandparent, the head and the dependent. Each gives a feature together with
the directions of the arcs.

References
----------
McDonald, Pereira. Online learning of approximate dependency parsing algorithms. EACL 2006.
Carreras. Experiments with a higher-order projective dependency parser. EMNLP-CoNLL 2007.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._kernels.jit import leaf
from .arcs import ArcRows, pack_arcs, parse_sides, slot_of, touch
from .nodes import MULTIPLIER, Nodes, Side, mix
from .rows import HASHED

SIBLINGS = (
    "upos | upos | upos", "xpos | xpos | xpos", "| upos | upos", "| xpos | xpos", "| lemma | lemma",
    "| upos | lemma", "| lemma | upos", "lemma | upos | upos", "upos | lemma | upos",
    "upos | upos | lemma", "lemma | lemma | upos", "lemma | upos | lemma", "upos | lemma | lemma",
    "upos | upos upos+1 | upos-1 upos", "upos | feats upos | feats upos",
)  # fmt: skip
GRANDPARENTS = (
    "upos | upos | upos", "xpos | xpos | xpos", "upos || upos", "xpos || xpos", "lemma || lemma",
    "upos || lemma", "lemma || upos", "lemma | upos | upos", "upos | lemma | upos",
    "upos | upos | lemma", "lemma | lemma | upos", "lemma | upos | lemma", "upos | lemma | lemma",
    "lemma | lemma | lemma", "upos | upos-1 upos | upos upos+1", "upos | upos feats | upos feats",
)  # fmt: skip

_KINDS = ("sibling", "grandparent")
# Directions of the arcs of a part: two of siblings, four of grandparents; distances of siblings.
_SHAPES = 64


class SecondRows(NamedTuple):
    """Packed words of all sentences, for arcs and for pairs of arcs."""

    arcs: ArcRows
    keys: np.ndarray  # (nodes, columns): keys of conjunctions in a role
    siblings: np.ndarray  # (templates, 3): columns of head, sibling, dependent
    grandparents: np.ndarray  # (templates, 3): columns of grandparent, head, dependent
    shape_keys: np.ndarray
    n_inputs: int

    @property
    def weighs(self) -> str:
        """What weights belong to."""
        return HASHED

    @property
    def for_reading(self) -> SecondRows:
        """The same rows, for threads."""
        return self

    @property
    def squares(self) -> np.ndarray:
        """About the squared norm of an arc with its parts, for each arc."""
        return self.arcs.squares + (len(self.siblings) + len(self.grandparents))


def parse_second(template: str) -> tuple[Side, ...]:
    """Attributes of the three words of a part."""
    return parse_sides(template, 3, "upos | upos | lemma")


def attributes_of_second(templates: Sequence[str]) -> set[str]:
    """Names of all attributes that templates use."""
    return {name for t in templates for side in parse_second(t) for name, _ in side}


def pack_second(
    sentences: Sequence[Mapping[str, Sequence[str]]],
    templates: Sequence[str],
    between: str | None,
    second: tuple[Sequence[str], Sequence[str]],
    bits: int,
) -> SecondRows:
    """Pack sentences; ``second`` are the templates of siblings and of grandparents."""
    arcs = pack_arcs(sentences, templates, between, bits)
    nodes = Nodes(sentences, attributes_of_second([*second[0], *second[1]]))
    columns: dict[tuple[str, Side], int] = {}
    tables = []
    for kind, chosen in zip(_KINDS, second):
        rows = [
            [
                columns.setdefault((f"{kind} {place}", side), len(columns))
                for place, side in enumerate(parse_second(template))
            ]
            for template in chosen
        ]
        tables.append(np.array(rows, np.int32).reshape(len(chosen), 3))
    keys = [nodes.keys(side, role) for role, side in columns]
    shapes = np.arange(1000, 1000 + _SHAPES, dtype=np.uint64)
    return SecondRows(
        arcs,
        np.ascontiguousarray(np.stack(keys, axis=1)),
        tables[0],
        tables[1],
        mix(shapes * MULTIPLIER),
        arcs.n_inputs,
    )


@leaf
def _sibling_shape(rows, head, sibling, dependent, first):
    """Key of the direction, and of the distance of the siblings."""
    shape = 0 if head < dependent else 8
    if sibling > first:
        far = abs(dependent - sibling)
        shape += 1 + (far if far <= 3 else 4 if far <= 6 else 5)
    return rows.shape_keys[shape]


@leaf
def _grandparent_shape(rows, grandparent, head, dependent):
    """Key of the directions of both arcs, and of whether the second one leads back over the
    grandparent."""
    shape = 16 + (1 if grandparent < head else 0) + (2 if head < dependent else 0)
    if (grandparent < head) != (grandparent < dependent):
        shape += 4
    return rows.shape_keys[shape]


@leaf
def score_triple(rows, matrix, templates, shape, a, b, c):
    """Sum of the weights of the features of three nodes."""
    total = 0.0
    for t in range(templates.shape[0]):
        key = rows.keys[a, templates[t, 0]] ^ rows.keys[b, templates[t, 1]]
        key ^= rows.keys[c, templates[t, 2]] ^ shape
        total += matrix[slot_of(rows.arcs, key), 0]
    return total


@leaf
def touch_triple(rows, matrix, templates, shape, nodes, amount, drain):
    """Change the weights of the features of three nodes, see :func:`touch`."""
    a, b, c = nodes
    total = 0.0
    for t in range(templates.shape[0]):
        key = rows.keys[a, templates[t, 0]] ^ rows.keys[b, templates[t, 1]]
        key ^= rows.keys[c, templates[t, 2]] ^ shape
        total += touch(matrix, slot_of(rows.arcs, key), amount, drain)
    return total


@leaf
def score_sibling(rows, matrix, first, h, s, d):
    """Score of a sibling part; nodes count from the root, and s = 0 is none."""
    shape = _sibling_shape(rows, first + h, first + s, first + d, first)
    return score_triple(rows, matrix, rows.siblings, shape, first + h, first + s, first + d)


@leaf
def score_grandparent(rows, matrix, first, g, h, d):
    """Score of a grandparent part."""
    shape = _grandparent_shape(rows, first + g, first + h, first + d)
    return score_triple(rows, matrix, rows.grandparents, shape, first + g, first + h, first + d)


@leaf
def touch_sibling(rows, matrix, first, nodes, amount, drain):
    """Change the weights of the features of a sibling part (h, s, d)."""
    a, b, c = first + nodes[0], first + nodes[1], first + nodes[2]
    shape = _sibling_shape(rows, a, b, c, first)
    return touch_triple(rows, matrix, rows.siblings, shape, (a, b, c), amount, drain)


@leaf
def touch_grandparent(rows, matrix, first, nodes, amount, drain):
    """Change the weights of the features of a grandparent part (g, h, d)."""
    a, b, c = first + nodes[0], first + nodes[1], first + nodes[2]
    shape = _grandparent_shape(rows, a, b, c)
    return touch_triple(rows, matrix, rows.grandparents, shape, (a, b, c), amount, drain)
