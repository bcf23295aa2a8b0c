"""Partitions: rounds in which every part of the examples climbs independently (CoCoA+).

K parts hold their own examples and dual blocks. In a round each part starts from a copy of the
weights w, makes a pass with ``scales * K``, and returns ``(w_k - w) / K``; the sum of these is
added to w. A part overestimates its own change by the factor K, so that the dual increases for any
steps of the others. Parts need an acceleration, which goes around the rounds. The certificate is
that of the whole problem: primal and dual are sums over the parts.

References
----------
Ma, Smith, Jaggi, Jordan, Richtarik, Takac. Adding vs. averaging in distributed primal-dual
optimization. ICML 2015.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._validation import check_integer
from ..features.couplings import Couplings
from .base import Candidate, Solver, check_inner, expected_gap
from .crew import in_parts, total
from .lbfgs import LBFGS
from .parts import PartitionedDual, PartState
from .problem import DualPoint, Evaluation

# Largest factor of the momentum. Parts that overestimate their changes move the weights for many
# rounds in one direction: on CoNLL-2000 with 8 parts the factor 0.4 of the solvers needs 48 rounds.
_MOST_DAMPING = 0.9
# Coupling of a weight with others, per part and in units of the regularisation, at which its centre
# is moved half by momentum and half towards w(mu): the shorter the steps of the parts are, the less
# they respond to the latter. And the apartness below which no weight is worth it.
_COUPLED, _LEAST_APART = 2.5, 0.05
# Number of parts from which on this needs fewer rounds. With 2 parts, CoNLL-2000 needs 16 rounds
# instead of 18, but tags of EWT need 25 instead of 22.
_FEWEST_PULLED = 4
# Upper limit of the seeds of the parts.
_SEEDS = 2**31 - 1


def _apartness(problem: Any, found: list[Couplings | None]) -> np.ndarray | None:
    """``1 / (1 + coupling)`` of all weights, 0 for those that do not depend on the features."""
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    unit = problem.alpha * problem.total_weight * _COUPLED * problem.n_parts
    columns = 1.0 / (1.0 + total([part.sums for part in parts]) / unit)
    if columns.max(initial=0.0) < _LEAST_APART:
        return None
    of_features = np.repeat(columns, parts[0].n_columns)
    return np.pad(of_features, (0, problem.n_weights - len(of_features)))


class Partitioned(Solver):
    """Train in parts of the examples, in parallel.

    The result depends on the number of parts, but not on how many of them run in parallel
    (``n_jobs`` of an estimator, or the workers of :func:`maxmargin.distributed.fit`).

    Parameters
    ----------
    solver : Solver or str, default="auto"
        A solver that climbs a dual block by block, or L-BFGS, whose gradients are summed. A name
        stands for the solver that is chosen for the problem, accelerated; wrappers go around the
        parts.
    n_partitions : int, default=2
        Example i is in part ``i % n_partitions``. More parts need more rounds to the same gap.
    local_passes : int, default=1
        Passes of each part in a round: use more where a round has much overhead.

    Examples
    --------
    >>> from maxmargin import MulticlassClassifier, Partitioned
    >>> MulticlassClassifier(solver=Partitioned("auto", n_partitions=4), n_jobs=2)
    MulticlassClassifier(n_jobs=2, solver=Partitioned(n_partitions=4))
    """

    partitioned = True

    def __init__(self, solver: Any = "auto", n_partitions: int = 2, local_passes: int = 1):
        self.solver = solver
        self.n_partitions = n_partitions
        self.local_passes = local_passes

    def validate(self):
        check_integer("n_partitions", self.n_partitions, 1)
        check_integer("local_passes", self.local_passes, 1)
        check_inner(self.solver)


class PartitionedGradients(LBFGS):
    """L-BFGS with gradients that are summed over parts."""

    def __init__(self, n_partitions: int = 2):
        self.n_partitions = n_partitions

    def missing(self, problem):
        found = super().missing(problem)
        if problem.clamped is not None:
            found.append("complete labels (n_partitions=1)")
        return found

    def adapted(self, problem):
        return problem if problem.in_parts else in_parts(problem, int(self.n_partitions))


class PartitionedState(NamedTuple):
    """``parts`` are the states in a checkpoint; empty while the parts themselves hold them."""

    weights: np.ndarray
    calls: int
    pending: np.ndarray
    rounds: int
    fresh_at: int
    guess: float  # estimate of the gap
    unsettled: float  # share of the examples whose parts did not converge
    best: DualPoint | None  # the best mixture of repaired points, where there are any
    hard_primal: float
    trace: tuple[tuple[float, float], ...]  # passes and gaps of the last checks, where there are
    parts: tuple[PartState, ...]

    @property
    def dual(self) -> Any:
        """The dual points of all parts; None while the parts hold them."""
        if not self.parts:
            return None
        points = tuple(part.inner.dual for part in self.parts)
        return points[0] if len(points) == 1 else PartitionedDual(points)


class PartitionedAscent(Solver):
    """Rounds of a solver in parts.

    Parameters
    ----------
    solver : BlockAscent
    n_partitions, local_passes : int
        As in :class:`Partitioned`.
    """

    visits_blocks = True
    duals = (PartitionedDual,)

    def __init__(self, solver: Any, n_partitions: int = 2, local_passes: int = 1):
        self.solver = solver
        self.n_partitions = n_partitions
        self.local_passes = local_passes

    @property
    def momentum(self):  # type: ignore[override]
        own = self.solver.momentum
        return own if self.n_partitions == 1 else own._replace(most=_MOST_DAMPING)

    def missing(self, problem):
        found = self.solver.missing(problem)
        if not self.solver.visits_blocks:
            found = [*found, f"a solver that visits blocks: {self.solver!r} has no parts"]
        if problem.in_kernel_space:
            found = [*found, "weights of features (kernel='linear', or n_partitions=1)"]
        return found + self.solver.missing_in_parts()

    def adapted(self, problem):
        found = problem if problem.in_parts else in_parts(problem, int(self.n_partitions))
        found.passes_per_round = int(self.local_passes) if found.n_parts > 1 else 0
        return found

    def init(self, problem, start, rng):
        crew, n_parts = problem.crew, problem.n_parts
        starts = [None] * n_parts
        if n_parts == 1:
            starts, rngs = [start], [rng]
        else:
            if self.continues(start) and len(start.parts) <= n_parts:
                starts[: len(start.parts)] = start.parts
            rngs = [np.random.RandomState(seed) for seed in rng.randint(_SEEDS, size=n_parts)]
        weights = total(crew.begin(self.solver, starts, rngs))
        none = np.empty(0, np.int64)
        return PartitionedState(weights, 0, none, 0, 0, 0.0, 0.0, None, np.inf, (), ())

    def default_inertia(self, problem):
        """The mean of the inertias for the curvature of a part, larger by the number of parts."""
        return problem.mean(problem.crew.all("default_inertia"))

    def started(self, problem, state):
        crew = problem.crew
        crew.all("started", problem.inertia)
        several = crew.n_parts >= _FEWEST_PULLED and self.momentum.cosine is not None
        crew.apartness = _apartness(problem, crew.all("couplings")) if several else None
        return state

    def apartness(self, problem):
        return problem.crew.apartness

    def _live(self, problem, state):
        """Restore the parts from the state, if it comes from a checkpoint."""
        if not state.parts:
            return state
        problem.crew.restore(state.parts)
        return state._replace(parts=())

    def gathered(self, problem, state):
        return state if state.parts else state._replace(parts=problem.crew.saved())

    def advance(self, problem, state, steps):
        state, crew = self._live(problem, state), problem.crew
        weights = state.weights
        if crew.shift is not None:  # parts were lost since the last round
            weights = weights + crew.shift / (1.0 + problem.inertia)
            crew.shift = None
        number = state.rounds if len(state.pending) else state.rounds + 1
        replies = crew.round(number, weights, problem.inertia, int(steps), int(self.local_passes))
        change = total([reply.change for reply in replies])
        return state._replace(
            weights=change if len(replies) == 1 else weights + change,
            calls=state.calls + sum(reply.calls for reply in replies),
            pending=np.arange(sum(reply.pending for reply in replies)),
            rounds=number,
            guess=problem.mean([reply.estimate for reply in replies]),
            unsettled=problem.mean([float(reply.unsettled) for reply in replies]),
        )

    def mixed(self, problem, state, mean, share, at=None):
        problem.crew.share = share
        return super().mixed(problem, state, mean, share, at)

    @property
    def evaluates(self):
        return True

    def evaluate(self, problem, state, point, dual_weights):
        return self._values(problem, self._live(problem, state), point[0], dual_weights)[0]

    def _values(self, problem, state, weights, dual_weights) -> tuple[Evaluation, float]:
        """Sums over the parts, and a new estimate of the gap. The contribution of lost parts is not
        in the weights of the dual."""
        crew, with_dual = problem.crew, dual_weights is not None
        found = crew.all("evaluate", weights, with_dual)
        primal, concave, error, guess = (
            problem.mean(list(values)) for values in zip(*found, strict=True)
        )
        dual = -np.inf
        if with_dual and not self.solver.repairs_dual:
            shifted = dual_weights if crew.shift is None else dual_weights + crew.shift
            dual = concave - problem.penalty(shifted)
        return Evaluation(problem.penalty(weights) + primal, dual, error), guess

    def check(
        self, problem, state, at=None, dual_weights=None
    ) -> tuple[PartitionedState, list[Candidate]]:
        state = self._live(problem, state)
        weights = state.weights if at is None else at
        bare = state.weights if dual_weights is None else dual_weights
        found, guess = self._values(problem, state, weights, bare)
        if not self.solver.repairs_dual:
            return state._replace(guess=guess), [(weights, found)]
        points = problem.crew.all("dual_point")
        concave = problem.mean([point.concave for point in points])
        new = DualPoint(concave, total([point.weights for point in points]))
        best = problem.better_mixture(state.best, new)
        found = found._replace(dual=problem.dual_value(best))
        gap = max(found.primal - found.dual, 1e-300)
        state = state._replace(
            best=best,
            hard_primal=min(state.hard_primal, found.primal),
            trace=(*state.trace[-2:], (state.calls / problem.n_examples, gap)),
        )
        return state, [(weights, found)]

    def concave(self, problem, state):
        if self.solver.repairs_dual:
            return None
        state = self._live(problem, state)
        found = problem.crew.all("concave")
        # The caller has the old w(mu), which contains the contributions of lost parts.
        lost = problem.crew.shift is not None or any(value is None for value in found)
        return None if lost else problem.mean(found)

    def estimate(self, problem, state, apart=0.0):
        if self.solver.repairs_dual:
            return expected_gap(state.trace, state.calls / problem.n_examples)
        return state.guess + apart

    def unsettled(self, problem, state):
        return state, state.unsettled > 0.5

    def refreshed(self, problem, state):
        state = self._live(problem, state)
        if state.fresh_at == state.calls and problem.crew.shift is None:
            return state
        return state._replace(weights=total(problem.crew.own()), fresh_at=state.calls)

    def bounds(self, problem, state):
        if state.best is None:
            return {}
        dual = min(problem.dual_value(state.best), state.hard_primal)
        gap = state.hard_primal - dual
        return {"hard_primal": state.hard_primal, "hard_dual": dual, "hard_gap": gap}
