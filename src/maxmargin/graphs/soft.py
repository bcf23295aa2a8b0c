"""Soft agreement: training on any factor graph by local steps, without an LP solver.

The belief of a variable and the marginal of a factor that contains it may differ; messages
``delta`` make them agree. With ``agreement="soft"`` the penalty ``rho/2 |delta|^2`` is part of the
problem that is solved. With ``"multipliers"``, the default, the penalty is that of an augmented
Lagrangian: ``delta = eta + (implied - belief) / rho``, and ``eta`` is set to ``delta`` after every
round, so that the optimum is that of the hard problem for any rho. ``"annealed"`` is soft with a
decreasing rho.

It should be accelerated: tables that all examples share couple all examples, and block steps alone
converge slowly because of this. The average of late iterates, weights and messages together, has a
lower primal value than the last one; messages are averaged during a visit.

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
from ..solvers.groups import alongside
from ..solvers.problem import DualPoint, Evaluation
from ._shared_visits import visit_together
from ._soft_check import slots_of_states, write_messages
from ._soft_kernel import MeanMessages, Progress, soft_steps, start_beliefs
from .graph import TREE
from .kernels.agreement import Beliefs, Penalty
from .soft_bounds import blocks_per_visit, default_kappa, known_in_advance

AGREEMENTS = ("multipliers", "soft", "annealed")
STEPS = ("exact", "frank-wolfe")
CLUSTERS = ("triangles",)
# Inertia in units of the curvature of an example; of tied pairs, see :mod:`.soft_bounds`.
_INERTIA, _TIED_INERTIA = 0.8, 0.08
# Disagreement is small below this share of its largest value, and grows if it is this multiple of
# its smallest one. With fewer examples than this it varies too much.
_NEARLY_AGREED, _DRIFT, _ENOUGH_EXAMPLES = 0.03, 10.0, 10
# The penalty changes by this factor after a round in which the ratio of relative disagreement to
# relative movement is outside these limits, which were best on all data sets tried.
_ADJUSTMENT = 1.3
_LOOSE, _STIFF = 0.15, 0.01
_FIRST_BALANCE = 4
# After this number of rounds the changes become smaller, in inverse proportion to the rounds: with
# a penalty that keeps changing, graphs whose counts overlap need not converge.
_SETTLING = 100
# Sweeps over the messages of the better point at a check.
_SWEEPS = 3
# An annealed rho decreases by this factor after a round, if the gap of the soft problem is at most
# this share of the penalty rho/2 |messages|^2: a smaller rho makes steps slower, which is useful
# only where the penalty is the larger error.
_COOLING, _SOLVED = 2.0, 0.1


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
    slots: np.ndarray  # number of factors that contain the variable of a state
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
        optimum does not depend on ``rho``. "soft" adds the penalty ``rho/2 |message|^2`` per
        example, as Meshi et al.; primal, dual and gap are then those of the soft problem.
        "annealed" is soft with a ``rho`` that is halved whenever the soft gap is a tenth of the
        penalty.
    rho : "auto" or float, default="auto"
        Strength of the penalty on messages, in units of one example: n times the ``rho`` of Meshi
        et al., so that it does not depend on the number of examples. "auto" is proportional to loss
        and features.
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
    clusters : {None, "triangles"}, default=None
        "triangles" tightens the relaxation: every three variables that are joined by three pairs
        have a distribution over their joint states, which agrees with those of the pairs. The
        objective is then lower, and still an upper bound on the exact one. Longer cycles without
        a chord stay as they are. Needs ``steps="exact"``; a triangle has a table of the product
        of three numbers of states, in every example.

    See Also
    --------
    SoftAgreement.algorithm1 : the plain algorithm of Meshi et al.
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
        clusters: str | None = None,
    ):
        self.agreement = agreement
        self.rho = rho
        self.smoothing = smoothing
        self.steps = steps
        self.rounds = rounds
        self.order = order
        self.average = average
        self.certify = certify
        self.clusters = clusters

    @classmethod
    def algorithm1(cls, rho: float = 1.0, order: str = "uniform") -> SoftAgreement:
        """Algorithm 1 of Meshi et al.: the soft problem by plain Frank-Wolfe steps.

        No inertia, no average, one step per variable and factor in a visit; a fit stops by the gap
        of the soft problem. A visit goes over all variables and factors of an example, where the
        paper draws one of them at a time.

        Parameters
        ----------
        rho : float, default=1.0
            In units of one example: n times the ``rho`` of the paper.
        order : {"uniform", "permutation", "active", "gap"}, default="uniform"
            Examples are drawn uniformly, with replacement.
        """
        return cls(
            "soft", rho=rho, steps="frank-wolfe", rounds=1, order=order, average=None,
            certify=False,
        )  # fmt: skip

    momentum = Momentum(damping=0.8)
    repairs_dual = True
    evaluates = False  # type: ignore[assignment]  # it keeps an average of its own

    def missing(self, problem):
        if not problem.traits.graph:
            return ["a factor graph: labels that interact (other edges, or solver='auto')"]
        if self.clusters is not None and self.steps != "exact":
            return ["steps='exact', which clusters need"]
        return []

    def missing_in_parts(self):
        if self.agreement != "soft":
            return []
        return ["agreement='multipliers' or 'annealed': parts differ in what softness costs"]

    def adapted(self, problem):
        """Exact steps need one number per Potts table only, and less code."""
        if self.clusters is not None:
            problem = problem.with_triangles()
        exact = self.smoothing == 0.0 and self.steps == "exact"
        return problem.for_exact_steps() if exact else problem

    def default_inertia(self, problem):
        """Inertia in proportion to the curvature of an example, features of all its parts."""
        if problem.in_kernel_space:
            return 0.0  # a centre would keep all rows that were ever used
        factor = _TIED_INERTIA if problem.tied_pairs else _INERTIA
        return factor * problem.mean_square() * float(problem.scales.mean())

    def init(self, problem, start, rng):
        graphs = problem.graphs
        if not self.continues(start) or len(start.tables) != int(graphs.first_mass[-1]):
            start = start_beliefs(graphs, problem.truth)  # also after a fit with other steps
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
        if self.clusters is not None:
            check_choice("clusters", self.clusters, CLUSTERS)
        if not (is_name(self.rho, "auto")):
            check_number("rho", self.rho, above=0)
        check_number("smoothing", self.smoothing, at_least=0)
        check_integer("rounds", self.rounds, 1)
        if self.average is not None:
            check_power("average", self.average)

    def started(self, problem, state):
        """Set the penalty for steps with the inertia of an acceleration."""
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
        penalty = self._penalty(problem, state)
        progress = Progress(state.gaps, state.residuals, state.squares)
        mean = MeanMessages(float(share), state.mean_messages)

        def visit(weights, room):
            soft_steps(problem.data(), weights, state.dual, penalty, visits, progress, mean, room)

        n_threads = 1 if len(visits.tree) else problem.n_threads
        visit_together(problem, state.weights, n_threads, visit)
        return state

    def _share(self, state) -> float:
        """Share of the current round in the average."""
        mass = float(state.rounds) ** (3.0 if self.average is None else self.average)
        return mass / (state.mean_mass + mass)

    def _end_round(self, problem, state):
        """Add the iterate to the average; adapt the penalty, or lower rho."""
        share = self._share(state)
        if self.average is not None:
            mix_in(state.mean_weights, state.weights, share, problem.n_threads)
        if self.order != "permutation":
            problem.mix_messages(state.dual, state.kappa, share, state.mean_messages, state.squares)
        mass = float(state.rounds) ** (3.0 if self.average is None else self.average)
        state = state._replace(mean_mass=state.mean_mass + mass)
        if self.agreement == "annealed":
            return self._cooled(problem, state)
        # Frank-Wolfe steps, which trees always take, are slow for any penalty: their disagreement
        # is no reason to change it.
        lags = self.steps != "exact" or bool((problem.graphs.kind == TREE).any())
        lags |= problem.tied_pairs
        balances = is_text(self.rho) and self.agreement == "multipliers" and not lags
        return self._balanced(state) if balances else state

    def _cooled(self, problem, state):
        """Lower rho if the problem with the present one is solved well enough."""
        gap = float(problem.sample_weight @ state.gaps)
        softness = 0.5 / state.kappa * float(problem.sample_weight @ state.squares)
        solved = state.rounds > 1 and gap <= _SOLVED * softness
        return state._replace(kappa=state.kappa * _COOLING) if solved else state

    def _balanced(self, state):
        """Change the penalty when disagreement and movement decrease at different rates.

        Both are relative: disagreement to the beliefs, kappa times the movement of a round to the
        messages. A large kappa slows the beliefs down, a small one lets them disagree.
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
        """Whether the disagreement, after it was small, has grown to a multiple of its minimum."""
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
        """Candidate weights and messages; ``at`` replaces the weights of the iterate."""
        points = [(state.weights if at is None else at, self.messages(problem, state))]
        if self.average is not None and state.mean_mass:
            points.append((state.mean_weights, state.mean_messages))
        return points

    def point(self, problem, state):
        return (state.weights, self.messages(problem, state))

    def own_mean(self, state):
        return (state.mean_messages,) if state.mean_mass else None

    def evaluate(self, problem, state, point, dual_weights):
        """The hard primal at weights and messages, which may be improved."""
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
        one, to which multipliers and annealing converge.
        """
        soft = self.agreement == "soft"
        points = self.points(problem, state, at)
        certified = self.certify or not soft
        n_threads = problem.n_threads if certified else 1
        with alongside(lambda: problem.hard_dual(state.dual), n_threads) as hard_dual:
            hard = self._hard_values(problem, state, points, tighten=not soft)
            if certified:
                best = problem.better_mixture(state.best, hard_dual())
                state = state._replace(best=best)
        state = state._replace(hard_primal=min([state.hard_primal, *hard]))
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

    def _hard_values(self, problem, state, points, tighten: bool) -> list[float]:
        """Hard primal at some points; the messages of the best one may be improved."""
        hard = [problem.primal(weights, messages) for weights, messages in points]
        if tighten and problem.can_tighten and state.calls:
            best = int(np.argmin(hard))
            weights, messages = points[best]
            messages = problem.tightened(weights, messages, _SWEEPS)
            hard[best] = min(hard[best], problem.primal(weights, messages))
        return hard

    def _soft_values(self, problem, state, points, dual_weights):
        sigma = float(self.smoothing)
        kappa = state.kappa
        values = [problem.primal(w, d, rho=1.0 / kappa, sigma=sigma) for w, d in points]
        bare = state.weights if dual_weights is None else dual_weights
        dual = problem.soft_dual(state.dual, bare, kappa, sigma)
        lowest, highest = min([state.soft_primal, *values]), max(state.soft_dual, dual)
        return values, dual, state._replace(soft_primal=lowest, soft_dual=highest)

    def estimate(self, problem, state, apart=0.0):
        """The gap, extrapolated from the last two checks."""
        return expected_gap(state.trace, state.calls / problem.n_examples)

    def bounds(self, problem, state):
        """Certified values, by name.

        ``hard_primal - hard_dual`` bounds the distance to the optimum of the hard problem (the
        relaxation to the local polytope). For a soft problem, the values of Meshi et al. are
        included; they are known in advance and usually far larger: see :mod:`.soft_bounds`.
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
            steps = state.calls * self.rounds * blocks_per_visit(problem)
            reached = found.get("hard_gap", gap)
            found |= known_in_advance(problem, rho, gap, reached, steps, float(self.smoothing))
        return found
