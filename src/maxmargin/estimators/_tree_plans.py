"""How sentences become problems: with scores of single arcs, or of pairs of arcs as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..features.arcs import attributes_of
from ..features.second_order import (
    GRANDPARENTS,
    SIBLINGS,
    attributes_of_second,
    pack_second,
)
from ..solvers.checked import Checked
from ..solvers.groups import for_groups
from ..strengths import TimesAuto
from ..structures.arborescence import Arborescence, pack_trees
from ..structures.second_order import SecondOrder
from ..structures.second_packing import choose_candidates, pack_second_trees
from ..tasks.trees import HIDDEN
from ._tree_data import FeatureSpec, Sentences, check_attributes

# Features of the model that chooses candidate arcs: few, because it looks at all arcs.
_PRUNING = (
    "| lemma upos", "lemma upos |", "| form upos", "form upos |", "upos | upos", "xpos | xpos",
    "form | upos", "upos | form", "lemma | upos", "upos | lemma", "lemma | lemma",
    "upos upos+1 | upos-1 upos", "upos-1 upos | upos upos+1", "xpos xpos+1 | xpos-1 xpos",
    "xpos-1 xpos | xpos xpos+1",
)  # fmt: skip
# Its table of weights, its passes, and its strength as a multiple of "auto".
_PRUNING_BITS, _PRUNING_PASSES, _PRUNING_STRENGTH = 20, 4, 7.7
_NO_TRUTH = np.empty(0, np.int32)


class FirstOrderPlan(NamedTuple):
    """Scores of single arcs; all trees are possible."""

    spec: FeatureSpec
    single_root: bool
    second: tuple[()] = ()
    pruner: None = None

    def pack(
        self, sentences: Sentences, truth: np.ndarray = _NO_TRUTH, costs: Any = None,
        allowed: Any = None,
    ) -> tuple[Arborescence, Any]:  # fmt: skip
        """Structure and features of some sentences."""
        structure = pack_trees(truth, sentences.indptr, self.single_root, costs, allowed)
        return structure, sentences.rows(self.spec)


class SecondOrderPlan(NamedTuple):
    """Scores of arcs, siblings and grandparents; projective trees of candidate arcs."""

    spec: FeatureSpec
    single_root: bool
    second: tuple[Sequence[str], Sequence[str]]
    pruner: Any
    n_candidates: int

    def pack(
        self, sentences: Sentences, truth: np.ndarray = _NO_TRUTH, costs: Any = None
    ) -> tuple[SecondOrder, Any]:
        """Structure and features of some sentences; true arcs are candidates."""
        candidates = self._candidates(sentences)
        if len(truth):
            widths = np.repeat(sentences.lengths + 1, sentences.lengths)
            candidates[np.cumsum(widths) - widths + truth] = True
        structure = pack_second_trees(truth, sentences.indptr, self.single_root, candidates, costs)
        spec = self.spec
        wanted = attributes_of(spec.templates) | ({spec.between} if spec.between else set())
        for templates in self.second:
            wanted |= attributes_of_second(templates)
        check_attributes(sentences.examples, wanted)
        rows = pack_second(sentences.examples, spec.templates, spec.between, self.second, spec.bits)
        return structure, rows

    def _candidates(self, sentences: Sentences) -> np.ndarray:
        model = self.pruner
        structure, rows = model._plan().pack(sentences)
        found = np.zeros(int(structure.parts_indptr[-1]), np.bool_)

        def work(first: int, last: int) -> None:
            choose_candidates(structure, rows, model.coef_, first, last, self.n_candidates, found)

        for_groups(work, len(sentences.lengths), 1)
        return found


def second_templates(known: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Templates of siblings and of grandparents whose attributes all words have."""
    siblings = tuple(t for t in SIBLINGS if attributes_of_second([t]) <= known)
    grandparents = tuple(t for t in GRANDPARENTS if attributes_of_second([t]) <= known)
    if not siblings or not grandparents:
        raise ValueError(
            f"order=2: the words of all sentences have the attributes {sorted(known)}; expected at "
            "least upos, or lemma, for the features of siblings and grandparents."
        )
    return siblings, grandparents


def check_complete(parser: Any, sentences: Sentences, heads: np.ndarray) -> None:
    """Refuse for second order and labels what only the plain model of single arcs can do."""
    wanted = "order=2" if parser.order == 2 else "labels" if parser.labels else ""
    if not wanted:
        return
    if not sentences.are_words:
        raise ValueError(
            f"{wanted} needs sentences of words; received features of arcs. Use order=1 and "
            "labels=False with them."
        )
    if (heads == HIDDEN).any():
        word = int(np.flatnonzero(heads == HIDDEN)[0])
        i = int(np.searchsorted(sentences.indptr, word, side="right") - 1)
        raise ValueError(
            f"y[{i}]: the head of word {word - sentences.indptr[i] + 1} is not known; with "
            f"{wanted} all heads must be. Leave the sentence out, or use order=1 and labels=False."
        )


def make_plan(
    parser: Any, sentences: Sentences, part: Sentences, heads: np.ndarray, weights: np.ndarray
) -> Any:
    """The features of a parser, and with ``order=2`` the model that chooses candidates, trained on
    a part of the sentences."""
    spec = sentences.spec(parser.templates, parser.between, parser.hash_bits)
    if parser.order == 1:
        return FirstOrderPlan(spec, parser.single_root)
    second = second_templates(sentences.attributes)
    chosen = [t for t in _PRUNING if attributes_of([t]) <= sentences.attributes]
    pruner = type(parser)(
        alpha=TimesAuto(_PRUNING_STRENGTH), max_iter=_PRUNING_PASSES, tol=0.0, random_state=0,
        solver=Checked("bcfw", every=_PRUNING_PASSES), single_root=parser.single_root,
        templates=chosen, between=spec.between, hash_bits=_PRUNING_BITS, hidden=False,
    )  # fmt: skip
    pruner.fit(part, np.split(heads, part.indptr[1:-1]), weights)
    return SecondOrderPlan(spec, parser.single_root, second, pruner, int(parser.n_candidates))
