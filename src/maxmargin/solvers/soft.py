"""Soft agreement: training on any factor graph by local steps, without an LP solver.

A variable and a factor that holds it may believe different things; messages ``delta`` make them
agree. With ``agreement="soft"`` the disagreement costs ``rho/2 |delta|^2`` and the soft problem
is solved as such. With ``"multipliers"``, the default, the penalty is that of an augmented
Lagrangian: ``delta = eta + (implied - belief) / rho``, and ``eta`` follows ``delta`` after every
round, so that the optimum is that of the hard problem whatever rho is. ``"annealed"`` is soft with
a rho that shrinks.

Around it runs an accelerated proximal point method in the weights, as in
:mod:`~maxmargin.solvers.flow`: tables that all examples share couple them all, and it is this that
block steps alone take long to settle. The average of late iterates, weights and messages
together, has a lower primal value than the last one.

References
----------
Meshi, Srebro, Hazan. Efficient training of structured SVMs via soft constraints. AISTATS 2015.
Lin, Mairal, Harchaoui. A universal catalyst for first-order optimization. NeurIPS 2015.
"""

from __future__ import annotations

import numpy as np

from .._kernels.agreement import Beliefs, Penalty
from ..structures.graph import COUNT, TREE, Graphs
from ._centre_kernel import mix_in, move_centre, points_back
from ._soft_check import mix_messages, slots_of_states, write_messages
from ._soft_kernel import soft_steps, start_beliefs
from .bcfw import BlockStepper
from .graph_problem import GraphProblem
from .problem import DualPoint, Evaluation

AGREEMENTS = ("multipliers", "soft", "annealed")
# Rounds between two moves of the centre.
_ROUNDS = 1
# Inertia in units of the curvature of an example.
_INERTIA = 0.8
# Share of the momentum that theory allows to exact stages. Stages here are one round, and with all
# of it messages and weights can swing each other up.
_DAMPING = 0.8
# Share of the inertia that is left when momentum pointed the wrong way.
_LESS_INERTIA = 0.7
# Disagreement is small below this share of its largest value, and grows if it is so many times its
# smallest one. With fewer examples it varies too much to tell.
_NEARLY_AGREED, _DRIFT, _ENOUGH_EXAMPLES = 0.03, 10.0, 10
# Rounds over an example in one visit.
_VISIT_ROUNDS = 2
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


class SoftAgreement(BlockStepper):
    """Stepper of soft agreement.

    Parameters
    ----------
    problem : GraphProblem
    agreement : {"multipliers", "soft", "annealed"}
    rho : float, optional
        Strength of the penalty on messages, in units of one example: ``rho / n`` in the notation
        of Meshi et al. is the same whatever n is. By default from the size of loss and features.
    sigma : float
        Smoothing of the maxima: each is that of ``theta @ mu - sigma/2 |mu|^2``. Counts and trees
        are not smoothed. The hard values reported are those without smoothing.
    steps : {"exact", "frank-wolfe"}
        Exact steps of variables and pairwise moves in tables, or Frank-Wolfe steps in both. Counts
        and max-min variables have exact steps either way.
    inertia : float, optional
        Weight of the proximal term in units of alpha; 0 is plain block ascent.
    order, average, rng, dual_state
        As in :class:`~maxmargin.solvers.bcfw.BlockFrankWolfe`.
    """

    _state = Beliefs

    def __init__(
        self,
        problem: GraphProblem,
        *,
        agreement: str = "multipliers",
        rho: float | None = None,
        sigma: float = 0.0,
        steps: str = "exact",
        rounds: int | None = None,
        inertia: float | None = None,
        order: str = "permutation",
        average: bool | float = True,
        rng,
        dual_state: Beliefs | None = None,
        certify: bool = True,
    ):
        self._certify = certify
        if sigma == 0.0 and steps == "exact":
            problem = problem.with_short_potts()
        expected = int(problem.graphs.first_mass[-1])
        if dual_state is not None and len(dual_state.tables) != expected:
            dual_state = None  # of a fit with other steps
        super().__init__(problem, order=order, average=False, rng=rng, dual_state=dual_state)
        self.agreement = agreement
        self.rounds = _VISIT_ROUNDS if rounds is None else int(rounds)
        self._set_inertia(default_inertia(problem) if inertia is None else float(inertia))
        self.centre = self.weights.copy()
        self._before = self.weights.copy()
        exact = steps == "exact"
        kappa = default_kappa(problem, self._scales, exact) if rho is None else 1.0 / float(rho)
        self._kappa = kappa  # at the start
        # Frank-Wolfe steps, which trees always take, lag behind whatever the penalty is: their
        # disagreement says little about it.
        lags = not exact or bool((problem.graphs.kind == TREE).any())
        self._balances = rho is None and agreement == "multipliers" and not lags
        self._slots = np.empty_like(self.dual_state.variables)
        slots_of_states(problem.graphs, self._slots)
        self._beliefs_before = self.dual_state.variables.copy()
        self.penalty = Penalty(kappa, float(sigma), problem.max_min, exact)
        if agreement != "multipliers":
            self.dual_state.eta[:] = 0.0
        self.residuals = np.zeros(problem.n_examples)
        self._squares = np.zeros(problem.n_examples)  # of the messages
        self._most_apart, self._least_apart = 0.0, np.inf
        self._centred_at = 0
        is_switch = isinstance(average, (bool, np.bool_))
        self.power = 3.0 if is_switch else float(average)
        self._keeps_average = bool(average) if is_switch else True
        self._mean_weights = np.zeros(0)
        self._mean_messages = np.zeros(0)
        self._mean_mass = 0.0
        self._rounds_done = 0
        self._hard: DualPoint | None = None
        self._hard_primal = np.inf
        self._soft_primal, self._soft_dual = np.inf, -np.inf
        self._trace: list[tuple[float, float]] = []

    def _start(self) -> Beliefs:
        return start_beliefs(self.problem.graphs, self.problem.truth)

    def _kernel(self):
        return None

    @property
    def kappa(self) -> float:
        """Inverse strength of the penalty."""
        return self.penalty.kappa

    @property
    def rho(self) -> float:
        """Strength of the penalty, in units of one example."""
        return 1.0 / self.penalty.kappa

    def _visit(self, order, draws) -> None:
        problem = self.problem
        matrix, factor = problem.split(self.weights)
        if not len(self._mean_messages):
            self._mean_weights = np.zeros_like(self.weights)
            self._mean_messages = np.zeros_like(self.dual_state.eta)
        # In other orders an example may be visited twice in a round, or not at all.
        share = self._share() if self.order == "permutation" else 0.0
        soft_steps(
            problem.graphs, problem.rows, problem.features, problem.truth, problem.costs,
            self._scales, self.penalty, self.rounds, self.agreement == "multipliers", order, draws,
            self._tree, self.gaps, self.residuals, matrix, factor, self.dual_state, share,
            self._mean_messages, self._squares,
        )  # fmt: skip
        self.oracle_calls += len(order)
        if self.between_rounds:
            self._end_round()

    def _end_round(self) -> None:
        """Take in the iterate; move the centre and cool down when it is due."""
        share = self._share()
        self._rounds_done += 1
        self._mean_mass += self._rounds_done**self.power
        if self._keeps_average:
            mix_in(self._mean_weights, self.weights, share)
        if self.order != "permutation":
            mix_messages(
                self.problem.graphs, self.dual_state, self.kappa, share, self._mean_messages,
                self._squares,
            )  # fmt: skip
        if self._balances:
            self._balance(float(self._squares.sum()))
        if self.agreement == "annealed":
            done = self.oracle_calls / self.problem.n_examples
            self.penalty = self.penalty._replace(kappa=self._kappa * (1.0 + done / _COOLING))
        due = self.oracle_calls >= self._centred_at + _ROUNDS * self.problem.n_examples
        if self.inertia > 0.0 and due:
            self._move_centre()

    def _share(self) -> float:
        """What the present round counts among those averaged."""
        mass = (self._rounds_done + 1) ** self.power
        return mass / (self._mean_mass + mass)

    def _balance(self, square: float) -> None:
        """Change the penalty when disagreement and movement shrink at different speeds.

        Both are relative: disagreement to the beliefs, what the penalty makes of a round's movement
        to the messages. A stiff penalty holds the beliefs where they are, a loose one lets them
        drift apart.
        """
        beliefs = self.dual_state.variables
        moved = float(self._slots @ (beliefs - self._beliefs_before) ** 2)
        size = float(self._slots @ beliefs**2)
        self._beliefs_before = beliefs.copy()
        if self._rounds_done < _FIRST_BALANCE or not (moved > 0.0 and square > 0.0 and size > 0.0):
            return
        apart = float(self.residuals.sum())
        ratio = np.sqrt(apart / size) / (self.kappa * np.sqrt(moved / square))
        factor = _ADJUSTMENT ** min(1.0, _SETTLING / self._rounds_done)
        if ratio > _LOOSE:
            self.penalty = self.penalty._replace(kappa=self.kappa * factor)
        elif ratio < _STIFF:
            self.penalty = self.penalty._replace(kappa=self.kappa / factor)

    def _move_centre(self) -> None:
        """A step of the accelerated proximal point method.

        Momentum that points away from where the weights go is forgotten, and some of the inertia
        with it: the steps within a stage are not exact, and too much of it would swing. The same if
        disagreement grows that had nearly gone.
        """
        momentum = self.momentum
        if points_back(self.centre, self.weights, self._before) or self._drifts_apart():
            momentum = 0.0
            bare = self._dual_weights()
            self._set_inertia(_LESS_INERTIA * self.inertia)
            self.weights = (bare + self.inertia * self.centre) / (1.0 + self.inertia)
        share = self.inertia / (1.0 + self.inertia)
        move_centre(self.weights, self._before, self.centre, momentum, share)
        self._centred_at = self.oracle_calls

    def _drifts_apart(self) -> bool:
        """Whether the disagreement, once small, has become a multiple of what it was."""
        if self.problem.n_examples < _ENOUGH_EXAMPLES:
            return False
        apart = float(self.residuals.sum())
        self._most_apart = max(self._most_apart, apart)
        self._least_apart = min(self._least_apart, apart)
        small = self._least_apart < _NEARLY_AGREED * self._most_apart
        if small and apart > _DRIFT * self._least_apart:
            self._most_apart = self._least_apart = apart
            return True
        return False

    def _set_inertia(self, inertia: float) -> None:
        self.inertia = inertia
        root = np.sqrt(1.0 / (1.0 + inertia))
        self.momentum = _DAMPING * (1.0 - root) / (1.0 + root)
        self._scales = self.problem.scales / (1.0 + inertia)

    def _dual_weights(self) -> np.ndarray:
        """``w(mu)``, of which the iterate is a mixture with the centre."""
        return (1.0 + self.inertia) * self.weights - self.inertia * self.centre

    def messages(self) -> np.ndarray:
        """Messages of all slots."""
        out = np.empty_like(self.dual_state.eta)
        write_messages(self.problem.graphs, self.dual_state, self.kappa, out)
        return out

    def points(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and messages that may be good."""
        # Right after the centre has moved the weights are not yet those of the beliefs.
        settled = self.oracle_calls == self._centred_at and self.oracle_calls > 0
        points = [(self._before if settled else self.weights, self.messages())]
        if self._keeps_average and self._rounds_done:
            points.append((self._mean_weights, self._mean_messages))
        return points

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """True values at the last iterate and at the average.

        With ``agreement="soft"`` they are those of the soft problem, otherwise those of the hard
        one, to which multipliers and annealing lead.
        """
        problem = self.problem
        sigma = self.penalty.sigma
        soft = self.agreement == "soft"
        points = self.points()
        hard = [problem.primal(weights, messages) for weights, messages in points]
        if not soft and problem.can_tighten and self.oracle_calls:
            # The better point may have better messages than those that training left it with.
            best = int(np.argmin(hard))
            weights, messages = points[best]
            messages = problem.tightened(weights, messages, _SWEEPS)
            hard[best] = min(hard[best], problem.primal(weights, messages))
        self._hard_primal = min([self._hard_primal, *hard])
        if self._certify or not soft:
            found = problem.hard_dual(self.dual_state)
            self._hard = problem.better_mixture(self._hard, found)
        values, dual = hard, -np.inf
        if soft:
            values = [problem.primal(w, d, rho=self.rho, sigma=sigma) for w, d in points]
            dual = problem.soft_dual(self.dual_state, self._dual_weights(), self.kappa, sigma)
            self._soft_primal = min([self._soft_primal, *values])
            self._soft_dual = max(self._soft_dual, dual)
        elif self._hard is not None:
            dual = problem.dual_value(self._hard)
        gap = max(min(values) - dual, 1e-300)
        self._trace.append((self.oracle_calls / problem.n_examples, gap))
        return [
            (weights, Evaluation(value, dual, 0.0))
            for (weights, _), value in zip(points, values, strict=True)
        ]

    def estimate(self) -> float:
        """The gap, if it goes on falling as between the last two checks."""
        if len(self._trace) < 3:
            return np.inf
        (before, old), (then, new) = self._trace[-2:]
        now = self.oracle_calls / self.problem.n_examples
        if not new < old or then <= before:
            return np.inf
        return new * (new / old) ** ((now - then) / (then - before))

    def refresh(self) -> bool:
        """Rebuild the weights from the dual state."""
        stale = self._fresh_at != self.oracle_calls
        if stale:
            bare = self.problem.weights_of(self.dual_state)
            self.weights = (bare + self.inertia * self.centre) / (1.0 + self.inertia)
            self._fresh_at = self.oracle_calls
        return stale

    def bounds(self) -> dict[str, float]:
        """What is certified, by name.

        ``hard_primal - hard_dual`` bounds the distance to the optimum of the hard problem (the
        relaxation to the local polytope). ``agreement_bound`` and ``hard_suboptimality`` are those
        of Theorems 4.1 and 4.2 of Meshi et al.: a-priori, and usually far larger; infinite where
        there are counts.
        """
        found = {"hard_primal": self._hard_primal}
        if self._hard is not None:
            dual = self.problem.dual_value(self._hard)
            dual = min(dual, self._hard_primal)  # above it only by rounding
            found |= {"hard_dual": dual, "hard_gap": self._hard_primal - dual}
        if np.isfinite(self._soft_dual):
            gap = max(0.0, self._soft_primal - self._soft_dual)
            found |= {
                "soft_primal": self._soft_primal,
                "soft_dual": self._soft_dual,
                "soft_gap": gap,
                "rho": self.rho,
            }
            slack = 0.5 * self.rho / self.problem.total_weight * theorem_h(self.problem)
            # The theorems are about plain maxima; a smoothed one is at most sigma/2 below.
            smoothed = 0.5 * self.penalty.sigma * most_blocks(self.problem.graphs)
            found |= {"agreement_bound": slack, "hard_suboptimality": gap + slack + smoothed}
        return found


def default_inertia(problem: GraphProblem) -> float:
    """Inertia in proportion to the curvature of an example, features of all its parts together."""
    if problem.in_kernel_space:
        return 0.0  # a centre would keep all rows that ever moved
    return _INERTIA * mean_square(problem) * float(problem.scales.mean())


def mean_square(problem: GraphProblem) -> float:
    """Mean over examples of the squared norms of the features of all variables and factors."""
    graphs = problem.graphs
    total = 0.0
    counts = np.bincount(graphs.shape, minlength=len(graphs.variables) - 1)
    own = np.diff(graphs.first_row)
    rows = np.diff(graphs.first_variable)
    shared = own < rows  # one row for many variables
    repeated = np.repeat(np.where(shared, rows / np.maximum(own, 1), 1.0), own)
    total += float(repeated @ problem.rows.squares[: len(repeated)])
    squares = (problem.features**2).sum(axis=1)
    plain = np.add.reduceat(
        np.append(((graphs.factor_step == 0) & (graphs.kind != COUNT)).astype(float), 0.0),
        graphs.factors[:-1],
    ) * (np.diff(graphs.factors) > 0)
    total += float(counts @ plain) * float(squares[0]) + float(squares[1:].sum())
    return total / problem.n_examples


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
