"""Soft agreement: training on any factor graph by local steps, without an LP solver.

A variable and a factor that holds it may believe different things; messages ``delta`` make them
agree. With ``agreement="soft"`` the disagreement costs ``rho/2 |delta|^2`` and the soft problem
is solved as such. With ``"multipliers"``, the default, the penalty is that of an augmented
Lagrangian: ``delta = eta + (implied - belief) / rho``, and ``eta`` follows ``delta`` after every
round, so that the optimum is that of the hard problem whatever rho is. ``"annealed"`` is soft with
a rho that shrinks.

It is made to be accelerated: tables that all examples share couple them all, and it is this that
block steps alone take long to settle. The average of late iterates, weights and messages together,
has a lower primal value than the last one; messages are averaged while a visit has them at hand.

References
----------
Meshi, Srebro, Hazan. Efficient training of structured SVMs via soft constraints. AISTATS 2015.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._validation import check_choice, check_integer, check_number, is_name, is_text
from ..solvers._centre_kernel import mix_in
from ..solvers.base import Candidate, Momentum, check_power, expected_gap
from ..solvers.frank_wolfe import BlockAscent
from ..solvers.problem import DualPoint, Evaluation
from ._soft_check import mix_messages, slots_of_states, write_messages
from ._soft_kernel import MeanMessages, Progress, soft_steps, start_beliefs
from .graph import COUNT, TREE, Graphs
from .kernels.agreement import Beliefs, Penalty, make_room
from .problem import GraphProblem

AGREEMENTS = ("multipliers", "soft", "annealed")
STEPS = ("exact", "frank-wolfe")
# Inertia in units of the curvature of an example.
_INERTIA = 0.8
# Disagreement is small below this share of its largest value, and grows if it is so many times its
# smallest one. With fewer examples it varies too much to tell.
_NEARLY_AGREED, _DRIFT, _ENOUGH_EXAMPLES = 0.03, 10.0, 10
# Penalty in units of the curvature of a variable.
_STIFFNESS = 4.5
# The penalty changes by this factor after a round in which the ratio of relative disagreement to
# relative movement is outside these bounds; between them all data sets tried do best.
_ADJUSTMENT = 1.3
_LOOSE, _STIFF = 0.15, 0.01
_FIRST_BALANCE = 4
# After this number of rounds the changes become smaller, in inverse proportion to the rounds: with
# a penalty that keeps changing, graphs whose counts overlap need not come to rest.
_SETTLING = 100
# Sweeps over the messages of the better point at a check.
_SWEEPS = 3
# Rounds after which an annealed rho is half of what it was, a third after twice as many, ...
_COOLING = 5.0


class SoftState(NamedTuple):
    """Progress of soft agreement; the first ten as in every solver that visits blocks."""

    weights: np.ndarray
    dual: Beliefs
    calls: int
    pending: np.ndarray
    gaps: np.ndarray
    draws: np.ndarray
    tree: np.ndarray
    rounds: int
    fresh_at: int
    rng: np.random.RandomState
    kappa: float  # inverse strength of the penalty
    residuals: np.ndarray  # squared disagreement of each example
    squares: np.ndarray  # squared norms of its messages
    slots: np.ndarray  # number of factors that hold the variable of a state
    beliefs_before: np.ndarray
    most_apart: float
    least_apart: float
    mean_weights: np.ndarray
    mean_messages: np.ndarray
    mean_mass: float
    best: DualPoint | None  # the best mixture of feasible points of the hard dual
    hard_primal: float
    soft_primal: float
    soft_dual: float
    trace: tuple[tuple[float, float], ...]  # passes and gaps of the last checks


class SoftAgreement(BlockAscent):
    """Soft agreement on factor graphs.

    Parameters
    ----------
    agreement : {"multipliers", "soft", "annealed"}, default="multipliers"
        With "multipliers" (an augmented Lagrangian) variables and factors agree in the end, and the
        optimum does not depend on ``rho``. "soft" only charges ``rho/2 |message|^2`` per example,
        as Meshi et al.; primal, dual and gap are then those of that softer problem. "annealed" is
        soft with a ``rho`` that shrinks every pass.
    rho : "auto" or float, default="auto"
        Strength of the penalty on messages, in units of one example: n times the ``rho`` of Meshi
        et al., so that it means the same for any number of examples. "auto" is in proportion to
        loss and features.
    smoothing : float, default=0.0
        Smooths the maxima: each is that of ``theta @ mu - smoothing/2 |mu|^2``. Counts and trees
        are not smoothed. The hard values reported are those without smoothing.
    steps : {"exact", "frank-wolfe"}, default="exact"
        Exact steps of variables and pairwise moves in tables, or Frank-Wolfe steps in both. Counts
        and max-min variables have exact steps either way.
    rounds : int, default=2
        Rounds over the variables and factors of an example in one visit.
    order : {"permutation", "active", "uniform", "gap"}, default="permutation"
    average : float or None, default=3.0
        Keep the average of weights and messages after each round, the t-th weighted by
        ``t ** average``.
    certify : bool, default=True
        Whether a soft problem is certified for the hard one, too, at every check.
    """

    duals = (Beliefs,)

    def __init__(
        self,
        agreement: str = "multipliers",
        rho: float | str = "auto",
        smoothing: float = 0.0,
        steps: str = "exact",
        rounds: int = 2,
        order: str = "permutation",
        average: float | None = 3.0,
        certify: bool = True,
    ):
        self.agreement = agreement
        self.rho = rho
        self.smoothing = smoothing
        self.steps = steps
        self.rounds = rounds
        self.order = order
        self.average = average
        self.certify = certify

    momentum = Momentum(damping=0.8)
    repairs_dual = True
    evaluates = False  # type: ignore[assignment]  # it keeps an average of its own

    def missing(self, problem):
        if problem.traits.graph:
            return []
        return ["a factor graph: labels that interact (other edges, or solver='auto')"]

    def missing_in_parts(self):
        if self.agreement != "soft":
            return []
        return ["agreement='multipliers' or 'annealed': parts differ in what softness costs"]

    def adapted(self, problem):
        """Exact steps need one number per Potts table only, and less code."""
        exact = self.smoothing == 0.0 and self.steps == "exact"
        return problem.for_exact_steps() if exact else problem

    def default_inertia(self, problem):
        """Inertia in proportion to the curvature of an example, features of all its parts."""
        if problem.in_kernel_space:
            return 0.0  # a centre would keep all rows that ever moved
        return _INERTIA * problem.mean_square() * float(problem.scales.mean())

    def init(self, problem, start, rng):
        graphs = problem.graphs
        if not self.continues(start) or len(start.tables) != int(graphs.first_mass[-1]):
            start = start_beliefs(graphs, problem.truth)  # or of a fit with other steps
        if self.agreement != "multipliers":
            start.eta[:] = 0.0
        n = problem.n_examples
        none = np.empty(0)
        weights = problem.weights_of(start)
        slots = slots_of_states(graphs)
        return SoftState(
            weights, start, 0, np.empty(0, np.int64), np.zeros(n), none, none, 0, 0, rng,
            kappa=self._first_kappa(problem), residuals=np.zeros(n), squares=np.zeros(n),
            slots=slots, beliefs_before=start.variables.copy(), most_apart=0.0, least_apart=np.inf,
            mean_weights=np.zeros_like(weights), mean_messages=np.zeros_like(start.eta),
            mean_mass=0.0, best=None, hard_primal=np.inf, soft_primal=np.inf, soft_dual=-np.inf,
            trace=(),
        )  # fmt: skip

    def validate(self):
        super().validate()
        check_choice("agreement", self.agreement, AGREEMENTS)
        check_choice("steps", self.steps, STEPS)
        if not (is_name(self.rho, "auto")):
            check_number("rho", self.rho, above=0)
        check_number("smoothing", self.smoothing, at_least=0)
        check_integer("rounds", self.rounds, 1)
        if self.average is not None:
            check_power("average", self.average)

    def started(self, problem, state):
        """The penalty suits steps with the inertia of an acceleration."""
        return state._replace(kappa=self._first_kappa(problem))

    def _first_kappa(self, problem) -> float:
        exact = self.steps == "exact"
        if is_text(self.rho):
            return default_kappa(problem, problem.scales, exact)
        return 1.0 / float(self.rho)

    def _penalty(self, problem, state) -> Penalty:
        return Penalty(
            float(state.kappa), float(self.smoothing), problem.max_min, self.steps == "exact",
            self.agreement == "multipliers", int(self.rounds),
        )  # fmt: skip

    def _visit(self, problem, state, visits):
        # In other orders an example may be visited twice in a round, or not at all.
        share = self._share(state) if self.order == "permutation" else 0.0
        soft_steps(
            problem.data(), problem.split(state.weights), state.dual,
            self._penalty(problem, state), visits,
            Progress(state.gaps, state.residuals, state.squares),
            MeanMessages(float(share), state.mean_messages), make_room(problem.graphs),
        )  # fmt: skip
        return state

    def _share(self, state) -> float:
        """What the present round counts among those averaged."""
        mass = float(state.rounds) ** (3.0 if self.average is None else self.average)
        return mass / (state.mean_mass + mass)

    def _end_round(self, problem, state):
        """Take in the iterate; balance the penalty, or cool down."""
        share = self._share(state)
        if self.average is not None:
            mix_in(state.mean_weights, state.weights, share)
        if self.order != "permutation":
            mix_messages(
                problem.graphs, state.dual, state.kappa, share, state.mean_messages, state.squares
            )
        mass = float(state.rounds) ** (3.0 if self.average is None else self.average)
        state = state._replace(mean_mass=state.mean_mass + mass)
        if self.agreement == "annealed":
            cooler = (_COOLING + state.rounds) / (_COOLING + state.rounds - 1.0)
            return state._replace(kappa=state.kappa * cooler)
        # Frank-Wolfe steps, which trees always take, lag behind whatever the penalty is: their
        # disagreement says little about it.
        lags = self.steps != "exact" or bool((problem.graphs.kind == TREE).any())
        balances = is_text(self.rho) and self.agreement == "multipliers" and not lags
        return self._balanced(state) if balances else state

    def _balanced(self, state):
        """Change the penalty when disagreement and movement shrink at different speeds.

        Both are relative: disagreement to the beliefs, what the penalty makes of a round's movement
        to the messages. A stiff penalty holds the beliefs where they are, a loose one lets them
        drift apart.
        """
        beliefs, square = state.dual.variables, float(state.squares.sum())
        moved = float(state.slots @ (beliefs - state.beliefs_before) ** 2)
        size = float(state.slots @ beliefs**2)
        state = state._replace(beliefs_before=beliefs.copy())
        if state.rounds < _FIRST_BALANCE or not (moved > 0.0 and square > 0.0 and size > 0.0):
            return state
        apart = float(state.residuals.sum())
        ratio = np.sqrt(apart / size) / (state.kappa * np.sqrt(moved / square))
        factor = _ADJUSTMENT ** min(1.0, _SETTLING / state.rounds)
        if ratio > _LOOSE:
            return state._replace(kappa=state.kappa * factor)
        if ratio < _STIFF:
            return state._replace(kappa=state.kappa / factor)
        return state

    def unsettled(self, problem, state):
        """Whether the disagreement, once small, has become a multiple of what it was."""
        if problem.n_examples < _ENOUGH_EXAMPLES:
            return state, False
        apart = float(state.residuals.sum())
        most, least = max(state.most_apart, apart), min(state.least_apart, apart)
        drifts = least < _NEARLY_AGREED * most and apart > _DRIFT * least
        if drifts:
            most = least = apart
        return state._replace(most_apart=most, least_apart=least), drifts

    def messages(self, problem, state) -> np.ndarray:
        """Messages of all slots."""
        out = np.empty_like(state.dual.eta)
        write_messages(problem.graphs, state.dual, state.kappa, out)
        return out

    def points(self, problem, state, at=None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and messages that may be good; ``at`` replaces the weights of the iterate."""
        points = [(state.weights if at is None else at, self.messages(problem, state))]
        if self.average is not None and state.mean_mass:
            points.append((state.mean_weights, state.mean_messages))
        return points

    def point(self, problem, state):
        return (state.weights, self.messages(problem, state))

    def own_mean(self, state):
        return (state.mean_messages,) if state.mean_mass else None

    def evaluate(self, problem, state, point, dual_weights):
        """The hard primal at weights and messages, or at better messages."""
        weights, messages = point
        value = problem.primal(weights, messages)
        if problem.can_tighten and state.calls:
            messages = problem.tightened(weights, messages, _SWEEPS)
            value = min(value, problem.primal(weights, messages))
        return Evaluation(value, -np.inf, 0.0)

    def dual_point(self, problem, state):
        return problem.hard_dual(state.dual)

    def check(
        self, problem, state, at=None, dual_weights=None
    ) -> tuple[SoftState, list[Candidate]]:
        """True values at the last iterate and at the average.

        With ``agreement="soft"`` they are those of the soft problem, otherwise those of the hard
        one, to which multipliers and annealing lead.
        """
        soft = self.agreement == "soft"
        points = self.points(problem, state, at)
        hard = [problem.primal(weights, messages) for weights, messages in points]
        if not soft and problem.can_tighten and state.calls:
            # The better point may have better messages than those that training left it with.
            best = int(np.argmin(hard))
            weights, messages = points[best]
            messages = problem.tightened(weights, messages, _SWEEPS)
            hard[best] = min(hard[best], problem.primal(weights, messages))
        state = state._replace(hard_primal=min([state.hard_primal, *hard]))
        if self.certify or not soft:
            found = problem.hard_dual(state.dual)
            state = state._replace(best=problem.better_mixture(state.best, found))
        values, dual = hard, -np.inf
        if soft:
            values, dual, state = self._soft_values(problem, state, points, dual_weights)
        elif state.best is not None:
            dual = problem.dual_value(state.best)
        gap = max(min(values) - dual, 1e-300)
        trace = (*state.trace[-2:], (state.calls / problem.n_examples, gap))
        candidates = [
            (weights, Evaluation(value, dual, 0.0))
            for (weights, _), value in zip(points, values, strict=True)
        ]
        return state._replace(trace=trace), candidates

    def _soft_values(self, problem, state, points, dual_weights):
        sigma = float(self.smoothing)
        kappa = state.kappa
        values = [problem.primal(w, d, rho=1.0 / kappa, sigma=sigma) for w, d in points]
        bare = state.weights if dual_weights is None else dual_weights
        dual = problem.soft_dual(state.dual, bare, kappa, sigma)
        lowest, highest = min([state.soft_primal, *values]), max(state.soft_dual, dual)
        return values, dual, state._replace(soft_primal=lowest, soft_dual=highest)

    def estimate(self, problem, state, apart=0.0):
        """The gap, if it goes on falling as between the last two checks."""
        return expected_gap(state.trace, state.calls / problem.n_examples)

    def bounds(self, problem, state):
        """What is certified, by name.

        ``hard_primal - hard_dual`` bounds the distance to the optimum of the hard problem (the
        relaxation to the local polytope). ``agreement_bound`` and ``hard_suboptimality`` are those
        of Theorems 4.1 and 4.2 of Meshi et al.: a-priori, and usually far larger; infinite where
        there are counts.
        """
        found = {"hard_primal": state.hard_primal}
        if state.best is not None:
            # Above the primal only by rounding.
            dual = min(problem.dual_value(state.best), state.hard_primal)
            found |= {"hard_dual": dual, "hard_gap": state.hard_primal - dual}
        if np.isfinite(state.soft_dual):
            gap = max(0.0, state.soft_primal - state.soft_dual)
            rho = 1.0 / state.kappa
            found |= {
                "soft_primal": state.soft_primal,
                "soft_dual": state.soft_dual,
                "soft_gap": gap,
                "rho": rho,
            }
            slack = 0.5 * rho / problem.total_weight * theorem_h(problem)
            # The theorems are about plain maxima; a smoothed one is at most sigma/2 below.
            smoothed = 0.5 * float(self.smoothing) * most_blocks(problem.graphs)
            found |= {"agreement_bound": slack, "hard_suboptimality": gap + slack + smoothed}
        return found


def default_kappa(problem: GraphProblem, scales: np.ndarray, exact: bool = True) -> float:
    """A penalty in proportion to the loss and curvature that messages have to balance."""
    graphs = problem.graphs
    slots = np.diff(graphs.held_at)
    held = float(slots[slots > 0].mean()) if np.any(slots > 0) else 1.0
    cost = float(problem.costs.mean())
    curvature = float(scales.mean()) * float(problem.rows.squares.mean())
    kappa = (cost + _STIFFNESS * curvature) / held
    # Frank-Wolfe steps go to single labellings: soft penalties let them take longer ones. A table
    # with many entries needs many of them.
    if (graphs.kind == TREE).any():
        kappa *= 0.1
    elif not exact:
        kappa /= max(1.0, float(graphs.n_entries.mean()))
    return kappa


def most_blocks(graphs: Graphs) -> int:
    """Variables and factors of the largest graph: the q of Theorem 4.1."""
    return int((np.diff(graphs.variables) + np.diff(graphs.factors)).max())


def theorem_h(problem: GraphProblem) -> float:
    """The h of Theorem 4.1: ``n (8 Y_max q (B R + L))^2``.

    Y_max is the largest number of states of a variable, q the largest number of variables and
    factors of a graph. The proof needs R and L for one variable or factor at a time: R is the
    largest norm of the features of one, where a tree has the sum of those of its edges, and L the
    largest loss of one. B bounds the norm of the optimal weights: ``sqrt(2 g(0) / alpha)``.

    A count forbids labellings, which is a score of minus infinity: the theorem's bound is then
    infinite.
    """
    graphs = problem.graphs
    if (graphs.kind == COUNT).any():
        return np.inf
    states, blocks = int(graphs.n_states.max()), most_blocks(graphs)
    squares = (problem.features**2).sum(axis=1)
    edges = np.add.reduceat(np.append(graphs.parent >= 0, 0), graphs.scope_at[:-1])
    of_factors = float(squares.max()) * int(edges.max(initial=1)) ** 2 if len(edges) else 0.0
    radius = np.sqrt(max(float(problem.rows.squares.max()), of_factors))
    loss = float(problem.costs.max())
    at_zero = problem.primal(np.zeros(problem.n_weights), np.zeros(int(graphs.first_message[-1])))
    norm = np.sqrt(2.0 * at_zero / problem.alpha)
    return float(problem.total_weight * (8.0 * states * blocks * (norm * radius + loss)) ** 2)
