"""Solvers: parameters in a value, progress in a state.

A solver describes a method: it holds parameters and no results. Its progress on a problem is in
its *state*, one NamedTuple that :meth:`Solver.init` makes and :meth:`Solver.advance` updates; a
checkpoint, a warm start and a worker need nothing else. Arrays in a state are working storage: a
solver may write to those of the state that it receives.

Every state has

- ``weights``: the iterate;
- ``dual``: the feasible point of the dual that it belongs to (None if the method has none);
- ``calls``: oracle calls so far;
- ``pending``: blocks that are still to be visited in the round under way; empty between rounds.

Solvers compose: :class:`~maxmargin.solvers.averaging.Averaged` takes a solver that has
``evaluate``, :class:`~maxmargin.solvers.acceleration.Accelerated` one that climbs a dual block by
block (:class:`~maxmargin.solvers.frank_wolfe.BlockAscent`), and both are solvers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._validation import check_choice, check_number
from ._centre_kernel import mix_in
from .problem import Evaluation

# A million rounds to this power do not overflow.
_MOST_POWER = 50.0
# Lower bound on the ratio of a true gap to its estimate.
_LEAST_RATIO = 0.05

# Certified values at some weights.
Candidate = tuple[np.ndarray, Evaluation]
# Weights, then other arrays from which the primal value at these weights is computed.
Point = tuple[np.ndarray, ...]


def check_power(name: str, power: Any) -> float:
    """A power of the number of a round that does not overflow."""
    value = check_number(name, power, at_least=0)
    if value > _MOST_POWER:
        raise ValueError(f"{name} must be at most {_MOST_POWER:g}; received {power!r}.")
    return value


# Names of solvers; solvers/auto.py chooses the solver for a name and a problem.
NAMES = ("auto", "accelerated", "bcfw", "pairwise", "flow", "subgradient", "lbfgs", "soft")


def check_inner(solver: Any) -> None:
    """Refuse what is neither a name of a solver nor a solver with valid parameters."""
    if isinstance(solver, Solver):
        solver.validate()
    else:
        check_choice("solver", solver, NAMES)


def with_bound(found: Evaluation, dual: float) -> Evaluation:
    """Values with a better lower bound; limits the error of oracles to the new gap."""
    if dual <= found.dual:
        return found
    error = min(found.oracle_error, max(0.0, found.primal - dual))
    return found._replace(dual=dual, oracle_error=error)


def trusted_ratio(candidates: list[Candidate], guess: float, before: float) -> float:
    """The ratio of the gap between the best values to its estimate, within bounds; ``before`` if
    there is none."""
    gap = min(found.primal for _, found in candidates)
    gap -= max(found.dual for _, found in candidates)
    if not (0.0 < guess < np.inf and gap < np.inf):
        return before
    return float(min(1.0, max(_LEAST_RATIO, gap / guess)))


def expected_gap(trace: tuple[tuple[float, float], ...], now: float) -> float:
    """The gap after ``now`` passes, extrapolated from the last two checks."""
    if len(trace) < 3:
        return np.inf
    (before, old), (then, new) = trace[-2:]
    if not new < old or then <= before:
        return np.inf
    return new * (new / old) ** ((now - then) / (then - before))


class Momentum(NamedTuple):
    """Parameters of the acceleration of a solver.

    ``damping`` is the factor of the momentum of the theory, which assumes exact rounds; ``rounds``
    is the number of rounds between two moves of the centre. With a ``cosine`` inertia adapts, and
    the factor of the momentum is up to ``most`` where it is larger, see
    :class:`~maxmargin.solvers.acceleration.Accelerated`.
    """

    damping: float
    rounds: int = 1
    cosine: float | None = None
    most: float = 0.0


class Solver(BaseEstimator):
    """Base of all solvers; subclasses list their parameters in the constructor."""

    momentum = Momentum(damping=0.8)
    visits_blocks = False  # whether it climbs a dual block by block: it can be accelerated
    repairs_dual = False  # whether a dual point is feasible only after :meth:`dual_point`
    check_every: int | None = None  # passes between two checks; None: chosen by the loop
    accelerated = False  # whether it contains an acceleration
    sums_gradients = False  # whether it needs only gradients, which are sums over parts
    partitioned = False  # whether it defines the partition of the examples into parts
    duals: tuple[type, ...] = ()  # classes of dual points that it can start from

    @property
    def inner(self) -> Any:
        """The solver that this one wraps, or its name; None if there is none."""
        return self.get_params(deep=False).get("solver")

    @property
    def evaluates(self) -> bool:
        """Whether it has :meth:`evaluate`, so that its points can be averaged."""
        return type(self).evaluate is not Solver.evaluate

    def missing(self, problem: Any) -> list[str]:
        """Requirements of this solver that the problem does not meet; empty if it can be solved."""
        return []

    def validate(self) -> None:
        """Refuse parameters that no problem could use."""

    def continues(self, start: Any) -> bool:
        """Whether a dual point is of a kind that it can start from."""
        return isinstance(start, self.duals)

    def init(self, problem: Any, start: Any, rng: np.random.RandomState) -> Any:
        """The state at a dual point of the problem; at the truth (w = 0) if ``start`` is None."""
        raise NotImplementedError(f"{type(self).__name__}.init")

    def advance(self, problem: Any, state: Any, steps: int) -> Any:
        """Take at most ``steps`` steps, at most to the end of the round.

        The result must not depend on how the steps are divided into calls.
        """
        raise NotImplementedError(f"{type(self).__name__}.advance")

    def point(self, problem: Any, state: Any) -> Point:
        """The primal point of a state: weights, and what belongs to them."""
        return (state.weights,)

    def visits_in_batches(self, problem: Any) -> bool:
        """Whether several threads can visit examples together (:mod:`~maxmargin._kernels.team`)."""
        return False

    def evaluate(
        self, problem: Any, state: Any, point: Point, dual_weights: np.ndarray | None
    ) -> Evaluation:
        """True primal value at a point; with ``dual_weights``, the w(mu) of the dual point of the
        state, also the dual value there."""
        raise NotImplementedError(f"{type(self).__name__}.evaluate")

    def mixed(
        self, problem: Any, state: Any, mean: Point, share: float, at: np.ndarray | None = None
    ) -> Point:
        """An average of points, updated by the point of the state with a given share; ``at`` are
        weights to use in place of its own."""
        weights, *others = self.point(problem, state)
        point = (weights if at is None else at, *others)
        mean = mean or tuple(np.zeros_like(array) for array in point)
        for average, array in zip(mean, point, strict=True):
            mix_in(average.reshape(-1), array.reshape(-1), share, problem.n_threads)
        return mean

    def own_mean(self, state: Any) -> Point | None:
        """What belongs to averaged weights, if the solver averages it itself."""
        return None

    def dual_point(self, problem: Any, state: Any) -> Any:
        """A feasible point near the one of the state, if that one is not."""
        return None

    def missing_in_parts(self) -> list[str]:
        """Reasons why it cannot train in parts of the examples."""
        return []

    def gathered(self, problem: Any, state: Any) -> Any:
        """The state with all that a checkpoint needs, also from workers."""
        return state

    def concave(self, problem: Any, state: Any) -> float | None:
        """``(1/W) sum_i s_i H_i(mu_i)`` at the dual point, without an oracle; None if unknown."""
        return None

    def default_inertia(self, problem: Any) -> float:
        """Weight of the proximal term of an acceleration, in units of alpha."""
        return 0.0

    def apartness(self, problem: Any) -> np.ndarray | None:
        """How little each weight is coupled with others, from 0 to 1: an acceleration moves the
        centre of such weights towards ``w(mu)``. None: by momentum, as that of all others."""
        return None

    def check(
        self,
        problem: Any,
        state: Any,
        at: np.ndarray | None = None,
        dual_weights: np.ndarray | None = None,
    ) -> tuple[Any, list[Candidate]]:
        """True values of all candidates; the state may be updated by what the check computes.

        A wrapper that moves the weights passes those that count as the iterate (``at``), and the
        weights ``w(mu)`` of the dual point; by default both are ``state.weights``.
        """
        weights, *others = self.point(problem, state)
        weights = weights if at is None else at
        bare = state.weights if dual_weights is None else dual_weights
        found = self.evaluate(problem, state, (weights, *others), bare)
        return state, [(weights, found)]

    def estimate(self, problem: Any, state: Any, apart: float = 0.0) -> float:
        """A cheap estimate of the gap, to decide when a check is worth a pass.

        ``apart`` is ``alpha/2 |w - w(mu)|^2`` where a wrapper has moved the weights: it adds to the
        mean gap of the blocks.
        """
        return np.inf

    def adapted(self, problem: Any) -> Any:
        """The problem in the form that the solver works on."""
        return problem

    def started(self, problem: Any, state: Any) -> Any:
        """The first state, for a problem with the inertia of an acceleration."""
        return state

    def unsettled(self, problem: Any, state: Any) -> tuple[Any, bool]:
        """Whether an acceleration should reset its momentum."""
        return state, False

    def refreshed(self, problem: Any, state: Any) -> Any:
        """The state with weights rebuilt from the dual point, free of rounding errors."""
        return state

    def stalled(self, state: Any) -> bool:
        """Whether further steps would change nothing."""
        return False

    def bounds(self, problem: Any, state: Any) -> dict[str, float]:
        """More certified values, by name."""
        return {}


class Wrapper(Solver):
    """A solver around another one, whose state is the ``inner`` of its own.

    What a subclass does not override is delegated to the inner solver.
    """

    solver: Any

    @property
    def evaluates(self):
        return self.solver.evaluates

    def point(self, problem, state):
        return self.solver.point(problem, state.inner)

    def evaluate(self, problem, state, point, dual_weights):
        return self.solver.evaluate(problem, state.inner, point, dual_weights)

    def concave(self, problem, state):
        return self.solver.concave(problem, state.inner)

    def adapted(self, problem):
        return self.solver.adapted(problem)

    def gathered(self, problem, state):
        return state._replace(inner=self.solver.gathered(problem, state.inner))

    def refreshed(self, problem, state):
        inner = self.solver.refreshed(problem, state.inner)
        return state if inner is state.inner else state._replace(inner=inner)

    def bounds(self, problem, state):
        return self.solver.bounds(problem, state.inner)
