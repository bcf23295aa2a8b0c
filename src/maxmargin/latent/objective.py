"""Training problems with latent variables, as solvers see them.

With ``s = w @ Phi(x_i, y, h)``, a distortion d in [0, 1] and an explanation ``h_i`` of the truth::

    alpha/2 |w|^2 + (1/W) sum_i s_i max(0, max_(y,h) worth_i(y, h))

    margin re-scaling   worth = d(y_i, y) - [ s(y_i, h_i) - s(y, h) ]
    slack re-scaling    worth = d(y_i, y) (1 - [ s(y_i, h_i) - s(y, h) ])

With the explanations held fixed this is convex (:class:`ExplainedProblem`), not smaller than with
the best ones, and equal at the weights at which they are the best: rounds
(:mod:`~maxmargin.solvers.rounds`) of explaining and solving never raise the objective.
:class:`DrawnProblem` has the maximum over random sets ``T(w, x_i)`` of structures, drawn anew at
the weights of each search: nothing bounds it from below.

A point of the dual is what :mod:`.kernels.working_set` remembers: structures and their mass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..solvers.problem import NOTHING, Evaluation, TrainingProblem
from ..solvers.rounds import HiddenParts
from ..surrogates.cost import Cost
from .kernels.working_set import WorkingSet, add_working_set, ascend, empty_working_set, remember
from .problem import EXACT, MARGIN, SLACK, Found, LatentProblem, Rows

LATENT = "latent"  # in the place of the name of a surrogate
_MOST_STEPS = 3  # of one visit of an example


class Search(NamedTuple):
    """What a search at some weights has found, and the value of the problem there."""

    value: float
    truths: Rows  # features of the explained truths
    found: Found
    rows: Rows  # features of what was found


class LatentObjective(TrainingProblem):
    """What both kinds of problems share.

    Parameters
    ----------
    oracle : LatentProblem
        Packed examples.
    alpha : float
    sample_weight : array
    objective : {MARGIN, SLACK}
    relaxed : bool
        Whether explanations are those of the superset.
    truths : Rows, optional
        Features of the explained truths; by default the explanations of weights 0.
    """

    cost = Cost(LATENT)
    draws_structures = False  # whether searches are over random structures
    no_oracle = "blocks that are marginals"

    def __init__(
        self, oracle: LatentProblem, alpha: float, sample_weight: np.ndarray, objective: int,
        relaxed: bool = False, truths: Rows | None = None,
    ):  # fmt: skip
        super().__init__(alpha, sample_weight)
        self.oracle, self.objective, self.relaxed = oracle, objective, relaxed
        self.n_weights = oracle.n_weights
        self.counted = np.flatnonzero(self.sample_weight)
        self.truths = self.explain(np.zeros(self.n_weights)) if truths is None else truths

    def signature(self) -> None:
        """None: structures remembered for other data say nothing about these."""

    def explain(self, weights: np.ndarray) -> Rows:
        """Features of the truths with their best explanations."""
        found = self.oracle.complete(weights, self.relaxed, self.counted)
        return self.oracle.rows(found, self.counted)

    def search(self, weights: np.ndarray, rng: np.random.RandomState | None = None) -> Search:
        """The structures of largest worth, and the value that they give."""
        raise NotImplementedError

    def _search(self, weights: np.ndarray, truths: Rows, how: Any) -> Search:
        references = truths.scores(weights)
        found = self.worst(weights, references, self.counted, how)
        rows = self.oracle.rows(found, self.counted)
        margins = references - rows.scores(weights)
        slack = self.objective == SLACK
        worth = found.losses * (1.0 - margins) if slack else found.losses - margins
        mean = float(self.sample_weight @ np.maximum(worth, 0.0)) / self.total_weight
        return Search(self.penalty(weights) + mean, truths, found, rows)

    def worst(
        self, weights: np.ndarray, references: np.ndarray, examples: np.ndarray, how: Any
    ) -> Found:
        """Structures of largest worth; ``references`` are the scores of the explained truths."""
        self.oracle.n_searches += len(examples)
        return self.oracle.search(weights, references, self.objective, examples, how)

    def subset(self, examples: np.ndarray) -> Any:
        """The problem of some of the examples; see :class:`~.solvers.problem.TrainingProblem`."""
        part = copy.copy(self)
        TrainingProblem.__init__(part, *self.share(examples))
        part.oracle = self.oracle.take(np.asarray(examples))
        part.counted = np.flatnonzero(part.sample_weight)
        part.truths = Rows(*(array[examples] for array in self.truths))
        return part


class ExplainedProblem(LatentObjective):
    """The convex problem in which explanations are fixed, with an exact search.

    Parameters
    ----------
    how : {EXACT, LISTED}
        The search.
    """

    def __init__(self, *args: Any, how: Any = EXACT, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.how = how

    def with_truth(self, truths: Rows) -> ExplainedProblem:
        """The same problem with other explanations; points of the dual stay feasible."""
        if truths is self.truths:
            return self
        changed = copy.copy(self)
        changed.truths = truths
        return changed

    def search(self, weights: np.ndarray, rng: np.random.RandomState | None = None) -> Search:
        return self._search(weights, self.truths, self.how)

    # --- the dual -------------------------------------------------------------------------------

    def start(self, capacity: int = 50) -> WorkingSet:
        """Nothing remembered: w = 0."""
        return empty_working_set(self.n_examples, capacity, self.oracle.width)

    def weights_of(self, dual: WorkingSet) -> np.ndarray:
        """``w(a)``, from scratch."""
        weights = np.zeros(self.n_weights)
        add_working_set(dual, self.truths, self.scales, weights)
        return weights

    def concave(self, dual: WorkingSet) -> float:
        """Mean loss of what is remembered."""
        losses = (dual.mass * dual.losses).sum(axis=1)
        return float(self.sample_weight @ losses) / self.total_weight

    def evaluate(self, weights, dual: WorkingSet | None = None, gaps=None, dual_weights=None):
        """True value at ``weights``, and dual value at ``dual``."""
        bound = -np.inf
        if dual is not None:
            bare = self.weights_of(dual) if dual_weights is None else dual_weights
            bound = self.concave(dual) - self.penalty(bare)
        return Evaluation(self.search(weights).value, bound, 0.0)

    def mean_square(self) -> float:
        """Mean over examples of the squared norm of the explained truth."""
        return float((self.truths.values**2).sum()) / self.n_examples

    def remember(self, search: Search, dual: WorkingSet, weights: np.ndarray) -> None:
        """Add what a search has found; the weights of the dual point follow."""
        margin = self.objective == MARGIN
        remember(
            dual, self.truths, weights, self.scales, self.counted, search.rows,
            search.found.losses, margin, np.zeros(dual.mass.shape[1]),
        )  # fmt: skip

    def ascend(
        self, dual: WorkingSet, weights: np.ndarray, orders: np.ndarray, goal: float
    ) -> None:
        """Passes over what is remembered, until the gap met on the way is at most ``goal``."""
        ascend(
            dual, self.truths, weights, self.scales, orders, _MOST_STEPS, goal / self.alpha,
            np.zeros(self.n_weights), np.zeros(dual.mass.shape[1]),
        )  # fmt: skip


class DrawnProblem(LatentObjective):
    """Slack re-scaling over random sets of structures, explained anew at each search.

    Parameters
    ----------
    draw : callable
        The search at some weights: a :class:`~maxmargin.latent.problem.Random`, or an exact one;
        called with the weights and a RandomState.
    n_guesses : int
        Latent variables that are drawn to explain a truth, the best of which does; 0 means the
        best of all.
    """

    certifies = NOTHING
    draws_structures = True

    def __init__(
        self, oracle: LatentProblem, alpha: float, sample_weight: np.ndarray, relaxed: bool,
        draw: Callable[..., Any], n_guesses: int = 0,
    ):  # fmt: skip
        super().__init__(oracle, alpha, sample_weight, SLACK, relaxed)
        self.draw, self.n_guesses = draw, n_guesses
        self._convex = ExplainedProblem(
            oracle, alpha, sample_weight, SLACK, relaxed, truths=self.truths
        )

    def with_truth(self, truths: Rows) -> ExplainedProblem:
        """The convex problem with explanations held fixed, over which what is remembered climbs."""
        return self._convex.with_truth(truths)

    def search(self, weights: np.ndarray, rng: np.random.RandomState | None = None) -> Search:
        truths = self.explain_by(weights, self.counted, rng)
        return self._search(weights, truths, self.draw(weights, rng))

    def explain_by(
        self, weights: np.ndarray, examples: np.ndarray, rng: np.random.RandomState | None
    ) -> Rows:
        """Features of the truths with their best explanations, or the best of those drawn."""
        oracle = self.oracle
        if not self.n_guesses:
            return oracle.rows(oracle.complete(weights, self.relaxed, examples), examples)
        random = np.random.RandomState(0) if rng is None else rng
        best = oracle.rows(oracle.guess(self.relaxed, random), examples)
        for _ in range(1, self.n_guesses):
            other = oracle.rows(oracle.guess(self.relaxed, random), examples)
            better = other.scores(weights) > best.scores(weights)
            for kept, new in zip(best, other, strict=True):
                kept[better] = new[better]
        return best

    def subset(self, examples: np.ndarray) -> DrawnProblem:
        part = super().subset(examples)
        part._convex = self._convex.subset(examples)
        return part


class Explanations(HiddenParts):
    """Latent variables of the truths as hidden parts; a completion is the features of the explained
    truths."""

    def complete(self, weights: np.ndarray, before: Any) -> Rows:
        truths = self.problem.explain(weights)
        same = before is not None and all(map(np.array_equal, truths, before))
        return before if same else truths

    def value(self, weights: np.ndarray, after: Any, before: Any, primal: float) -> float:
        """By another search: with slack re-scaling, worth is not linear in the score of a truth."""
        return self.problem.with_truth(after).evaluate(weights).primal
