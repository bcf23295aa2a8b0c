"""Solvers of problems with latent variables: values, as all solvers are (:mod:`.solvers.base`).

:class:`WorkingSetAscent` remembers the structures that searches have found, and climbs the dual
over these without a search. Each search at the iterate is also the check there, and the structures
that a check has found are not searched for again. :class:`LatentSubgradient` is the plain
alternative, for comparison.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._validation import check_integer, is_array, is_text
from ..solvers.base import Candidate, Solver
from ..solvers.problem import NOTHING, Evaluation
from .kernels.working_set import WorkingSet
from .objective import LATENT
from .problem import Rows

# Passes over what is remembered end when the gap among it is at most this share of the true one.
_SHARE = 0.1


class WorkingSetState(NamedTuple):
    """Progress of the ascent; ``weights`` are those of the dual point and the explained truths."""

    weights: np.ndarray
    dual: WorkingSet
    calls: int  # searches of an example that came before steps
    pending: np.ndarray
    truths: Rows
    looks: int  # searches of all examples
    gap: float  # at the last of these; infinite where nothing bounds the problem
    rng: np.random.RandomState


class WorkingSetAscent(Solver):
    """Dual ascent over remembered structures.

    A round searches the worst structure of each example, remembers it, and takes steps between the
    remembered structures of an example, in passes over all examples.

    Parameters
    ----------
    passes : int, default=30
        Passes over what is remembered in each round at most; they end early when the gap over what
        is remembered is a tenth of the gap of the problem.
    capacity : int, default=50
        Structures remembered for each example.
    """

    duals = (WorkingSet,)

    def __init__(self, passes: int = 30, capacity: int = 50):
        self.passes = passes
        self.capacity = capacity

    def validate(self):
        check_integer("passes", self.passes, 1)
        check_integer("capacity", self.capacity, 2)

    def missing(self, problem):
        return [] if problem.cost.name == LATENT else ["latent variables (LatentPredictor)"]

    def init(self, problem, start, rng):
        """``start`` is a dual point, or the weights of the first search."""
        weights = np.zeros(problem.n_weights)
        convex = problem.with_truth(problem.truths)
        dual = convex.start(self.capacity)
        if self.continues(start) and start.mass.shape == dual.mass.shape:
            dual = start
            weights = convex.weights_of(dual)
        elif is_array(start):
            weights = start.astype(np.float64)
        return WorkingSetState(
            weights, dual, 0, np.empty(0, np.int64), convex.truths, 0, np.inf, rng
        )

    def _look(self, problem, state, at: np.ndarray) -> tuple[WorkingSetState, Evaluation]:
        """Search at some weights and remember what was found; also the values there."""
        search = problem.search(at, state.rng)
        convex = problem.with_truth(search.truths)
        weights = convex.weights_of(state.dual)
        bound = -np.inf
        if problem.certifies != NOTHING:
            bound = convex.concave(state.dual) - convex.penalty(weights)
        convex.remember(search, state.dual, weights)
        state = state._replace(
            weights=weights, truths=search.truths, looks=state.looks + 1, gap=search.value - bound
        )
        return state, Evaluation(search.value, bound, 0.0)

    def advance(self, problem, state, steps):
        """One round, whatever the number of steps."""
        if state.looks * problem.n_examples <= state.calls:  # no check has searched here
            state, _ = self._look(problem, state, state.weights)
        convex = problem.with_truth(state.truths)
        orders = np.array([state.rng.permutation(convex.counted) for _ in range(self.passes)])
        goal = _SHARE * state.gap if state.gap < np.inf else 0.0
        convex.ascend(state.dual, state.weights, orders, goal)
        calls = state.looks * problem.n_examples
        return state._replace(weights=convex.weights_of(state.dual), calls=calls)

    def evaluate(self, problem, state, point, dual_weights):
        """The value at a point; what the search finds is not remembered."""
        return Evaluation(problem.search(point[0], state.rng).value, -np.inf, 0.0)

    def check(
        self, problem, state, at=None, dual_weights=None
    ) -> tuple[WorkingSetState, list[Candidate]]:
        """A search at the iterate; what it finds is remembered, for the next steps."""
        weights = (state.weights if at is None else at).copy()
        state, found = self._look(problem, state, weights)
        return state, [(weights, found)]


class LatentSubgradientState(NamedTuple):
    """``average`` is that of the iterates, the t-th weighted by t."""

    weights: np.ndarray
    average: np.ndarray
    calls: int
    pending: np.ndarray
    rng: np.random.RandomState
    dual: Any = None  # a refit starts anew


class LatentSubgradient(Solver):
    """Averaged stochastic subgradient steps ``1/(alpha t)``, each with a draw of its own."""

    def missing(self, problem):
        random = problem.cost.name == LATENT and problem.draws_structures
        return [] if random else ["random structures (trainer='random')"]

    def init(self, problem, start, rng):
        size = problem.n_weights
        return LatentSubgradientState(np.zeros(size), np.zeros(size), 0, np.empty(0, np.int64), rng)

    def advance(self, problem, state, steps):
        pending = state.pending
        if not len(pending):
            pending = state.rng.permutation(problem.n_examples)
        order, pending = pending[:steps], pending[steps:]
        for step, i in enumerate(order, state.calls + 1):
            self._step(problem, state, step, i)
            state.average[:] += (state.weights - state.average) * 2.0 / (step + 1.0)
        return state._replace(calls=state.calls + len(order), pending=pending)

    def _step(self, problem, state, step: int, i: int) -> None:
        weights, oracle, chosen = state.weights, problem.oracle, np.array([i])
        if problem.scales[i] == 0.0:
            weights *= 1.0 - 1.0 / step
            return
        truth = problem.explain_by(weights, chosen, state.rng)
        references = truth.scores(weights)
        found = problem.worst(weights, references, chosen, problem.draw(weights, state.rng))
        rows = oracle.rows(found, chosen)
        slack = 1.0 - references[i] + rows.scores(weights)[i]
        weights *= 1.0 - 1.0 / step
        if slack > 0.0 and found.losses[i] > 0.0:
            size = problem.scales[i] * problem.n_examples * found.losses[i] / step
            np.add.at(weights, truth.indices[i], size * truth.values[i])
            np.add.at(weights, rows.indices[i], -size * rows.values[i])

    def check(self, problem, state, at=None, dual_weights=None):
        average = state.average.copy()
        value = problem.search(average, state.rng).value
        return state, [(average, Evaluation(value, -np.inf, 0.0))]


_NAMES = {
    "cccp": WorkingSetAscent,
    "subgradient": lambda passes, capacity: LatentSubgradient(),
}
SOLVERS = tuple(_NAMES)


def make_solver(given: Any, problem: Any, trainer: str, **usual: int) -> Solver:
    """The solver that a name or a value stands for; ``usual`` are the parameters of a name.

    Raises ValueError if the problem of the trainer, or the class of it, lacks what it needs.
    """
    solver = _NAMES[given](**usual) if is_text(given) else clone(given)
    missing = solver.missing(problem)
    if missing:
        raise ValueError(
            f"solver={given!r} does not go with trainer={trainer!r}: it needs "
            f"{' and '.join(missing)}."
        )
    return solver
