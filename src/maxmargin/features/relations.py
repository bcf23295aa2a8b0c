"""Features of the words of a given tree, for the names of their relations to their heads.

A template is a conjunction of attributes of the words around a word in its tree: ``"h.upos d.lemma
dir"`` are the tag of the head, the lemma of the word itself, and the side on which the head is.

==== =====================================================================================
d    the word itself
h    its head
g    the head of its head
l, r its first and its last dependent
p, n the dependents of its head before and after it
==== =====================================================================================

``+1`` and ``-1`` mean the next and the previous word; ``dir`` is the side of the head, ``place``
side and distance. Beside these, *bags* go over all dependents of the word (``c``) or of its head
(``s``). Every conjunction is a 64-bit key; columns of the feature matrix are the keys of the
training, shortened to 24 bits; where these are many, those that occur at least twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .nodes import Nodes, constant, mix

TEMPLATES = (
    "d.form", "d.lemma dir", "d.upos dir", "d.xpos dir", "d.feats d.upos", "h.lemma dir",
    "h.upos place", "h.xpos dir", "h.upos d.upos place", "h.upos d.upos dir", "h.xpos d.xpos dir",
    "h.lemma d.upos dir", "h.upos d.lemma dir", "h.xpos d.lemma dir", "h.lemma d.xpos dir",
    "h.lemma d.lemma dir", "h.xpos d.form", "h.upos h.feats d.upos d.feats dir",
    "h.lemma d.upos d.feats dir", "d.upos-1 d.upos d.upos+1", "d.xpos-1 d.xpos d.xpos+1 dir",
    "d.lemma-1 d.upos h.upos", "d.lemma+1 d.upos h.upos", "h.upos-1 h.upos d.upos dir",
    "h.upos h.upos+1 d.upos dir", "d.lemma d.lemma+1", "d.lemma-1 d.lemma",
    "g.upos h.upos d.upos dir", "g.xpos h.xpos d.xpos dir", "g.upos h.lemma d.upos",
    "g.lemma h.upos d.upos", "g.upos h.upos d.lemma", "l.lemma d.upos h.upos dir",
    "l.xpos d.xpos h.xpos dir", "l.lemma d.lemma h.upos", "r.lemma d.upos h.upos dir",
    "l.upos r.upos d.upos h.upos dir", "l.lemma h.lemma d.upos dir", "p.upos d.upos h.upos dir",
    "n.upos d.upos h.upos dir", "p.upos n.upos d.upos h.upos dir", "p.xpos d.xpos h.xpos dir",
    "n.xpos d.xpos h.xpos dir", "p.lemma d.upos h.upos dir", "n.lemma d.upos h.upos dir",
    "p.upos h.lemma d.upos dir", "n.upos h.lemma d.upos dir", "p.lemma d.lemma",
)  # fmt: skip
BAGS = (
    "c.lemma c.upos d.upos h.upos dir", "c.lemma d.upos", "c.xpos d.xpos h.xpos dir",
    "c.upos d.lemma h.upos", "s.upos d.upos h.upos dir", "s.lemma d.upos h.upos dir",
    "s.xpos d.xpos h.lemma dir",
)  # fmt: skip

_BITS = 24
# Where there are more columns than this, keys that occur once have none.
_MANY_COLUMNS = 1 << 17
_TOKEN = re.compile(r"([dhglrpncs])\.([A-Za-z_]\w*?)([+-]\d+)?$|(dir|place)$")
_FAR = (1, 2, 3, 5, 10)  # distances up to each of these are told apart


class _Token(NamedTuple):
    role: str
    name: str
    offset: int


def _parse(template: str) -> list[_Token]:
    matches = [_TOKEN.match(word) for word in template.split()]
    return [_Token(m[1] or m[4], m[2] or "", int(m[3] or 0)) for m in matches if m]


def usable(known: set[str]) -> tuple[str, ...]:
    """The templates and bags whose attributes are all known."""
    return tuple(
        template
        for template in (*TEMPLATES, *BAGS)
        if {token.name for token in _parse(template)} - {""} <= known
    )


class _Tree:
    """Nodes of all sentences and their places in the trees; -1 where there is none."""

    def __init__(self, nodes: Nodes, heads: np.ndarray):
        lengths = np.diff(nodes.indptr) - 1
        roots = np.repeat(nodes.indptr[:-1], lengths)
        self.nodes = nodes
        is_word = np.ones(int(nodes.indptr[-1]), bool)
        is_word[nodes.indptr[:-1]] = False
        d = np.flatnonzero(is_word)
        above = np.full(len(is_word), -1)
        above[d] = roots + heads
        # Words by their heads, then by their places.
        self._order = d[np.argsort(above[d], kind="stable")]
        group = above[self._order]
        same = group[1:] == group[:-1]
        before, after, first, last = (np.full(len(is_word), -1) for _ in range(4))
        before[self._order[1:][same]] = self._order[:-1][same]
        after[self._order[:-1][same]] = self._order[1:][same]
        first[group[::-1]] = self._order[::-1]
        last[group] = self._order
        self.count = np.bincount(group, minlength=len(is_word))
        self._start = np.concatenate([[0], np.cumsum(self.count)])
        h = above[d]
        roles = {"d": d, "h": h, "g": above[h], "l": first[d], "r": last[d]}
        self.roles = roles | {"p": before[d], "n": after[d]}
        distance = h - d
        side = np.where(h == roots, 0, np.where(distance > 0, 1, 2))
        far = np.searchsorted(_FAR, np.abs(distance))
        self.codes = {"dir": side, "place": side * 16 + far}

    def values(self, token: _Token, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Numbers of an attribute for some words; ``others`` are the members of a bag."""
        if token.role in self.codes:
            return self.codes[token.role][rows].astype(np.uint64)
        at = others if token.role in "cs" else self.roles[token.role][rows]
        found = self.nodes.shifted((token.name, token.offset))[np.maximum(at, 0)]
        return np.where(at >= 0, found, np.uint64(1))

    def members(self, role: str) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a word and a member of its bag: dependents of the word, or of its head."""
        d = self.roles["d"]
        owner = d if role == "c" else self.roles["h"]
        counts = self.count[owner]
        rows = np.repeat(np.arange(len(d)), counts)
        begin = np.repeat(self._start[owner] - (np.cumsum(counts) - counts), counts)
        others = self._order[np.arange(len(rows)) + begin]
        kept = others != d[rows]
        return rows[kept], others[kept]

    def keys(self, template: str) -> tuple[np.ndarray, np.ndarray]:
        """Words and the keys of a conjunction; of a bag, several per word."""
        tokens = _parse(template)
        bags = {token.role for token in tokens} & {"c", "s"}
        rows = others = np.arange(len(self.roles["d"]))
        if bags:
            rows, others = self.members(*bags)
        total = np.repeat(mix(constant(f"relation {template}")), len(rows))
        for token in tokens:
            total = mix(total + mix(self.values(token, rows, others) ^ constant(f"salt {token}")))
        return rows, total


def relation_features(
    sentences: Sequence[Mapping[str, Sequence[str]]],
    heads: np.ndarray,
    templates: Sequence[str],
    columns: np.ndarray | None = None,
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Features of all words, and the keys that the columns stand for.

    Parameters
    ----------
    sentences : list of dicts from names of attributes to a text per word
    heads : array of int
        Heads of all words, one sentence after another.
    templates : list of str
    columns : array, optional
        Those of the training; by default made of the keys that occur.
    """
    names = {token.name for t in templates for token in _parse(t)} - {""}
    tree = _Tree(Nodes(sentences, names), np.asarray(heads, np.int64))
    found = [tree.keys(template) for template in templates]
    rows = np.concatenate([rows for rows, _ in found])
    keys = np.concatenate([keys for _, keys in found]) >> np.uint64(64 - _BITS)
    keys = keys.astype(np.int64)
    if columns is None:
        counts = np.bincount(keys)
        fewest = 2 if np.count_nonzero(counts) > _MANY_COLUMNS else 1
        columns = np.flatnonzero(counts >= fewest).astype(np.int32)
    places = np.minimum(np.searchsorted(columns, keys), len(columns) - 1)
    known = columns[places] == keys
    shape = (len(heads), len(columns))
    ones = np.ones(int(known.sum()), np.float32)
    matrix = sp.csr_matrix((ones, (rows[known], places[known])), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix, columns
