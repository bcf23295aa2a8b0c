"""Training with latent variables: rounds of explaining, searching, and convex steps.

Three objectives, all ``alpha/2 |w|^2 + mean_i loss_i(w)`` with ``s = w @ Phi(x_i, y, h)``::

    lssvm    loss_i = max_(y,h) [ d(y_i, y) + s(y, h) ] - max_h s(y_i, h)          margin re-scaling
    all      loss_i = max_(y,h) d(y_i, y) (1 - [ max_h' s(y_i, h') - s(y, h) ])_+  slack re-scaling
    random   the same, with the maximum over a random set T(w, x_i) of structures

None is convex, because of the explanation ``max_h s(y_i, h)``. With the explanations held fixed all
are convex, not smaller, and equal at the weights that chose the explanations. So a round
explains the truths at the present weights, and lowers the convex problem: the structures that
searches have found are remembered (``_working_set_kernel.py``), and dual coordinate ascent over
what is remembered takes no search at all.

- :func:`train_exact` solves each convex problem until its duality gap is small, before it
  explains again (CCCP). The objective never rises from one round to the next.
- :func:`train_random` explains and searches once a round. ``T(w, x_i)`` is drawn anew in each
  round, at the weights of that round; the worst structure of each draw is remembered.
- :func:`train_subgradient` is the plain alternative, for comparison: stochastic subgradient steps
  ``1/(alpha t)``, a new draw or search at each, averaged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._progress import ProgressReporter
from ..solvers.interrupt import InterruptGuard
from ..solvers.result import CONVERGED, INTERRUPTED, MAX_ITER, STOPPED, Check
from .kernels.working_set import WorkingSet, ascend, rebuild, remember, set_truths
from .problem import MARGIN, SLACK, LatentProblem, Random, Rows

_MOST_STEPS = 3  # of one visit
_PASSES = 30  # over what is remembered, between two exact searches
_SEARCHES = 100  # for one convex problem


class LatentResult(NamedTuple):
    """Weights and how they were found."""

    weights: np.ndarray
    objective: float
    primal: float  # of the last convex problem at the weights; the objective where there is none
    dual: float  # a lower bound on the last convex problem; NaN where there is none
    status: str
    history: list[Check]
    searches: int


class Session:
    """Remembered structures of a problem, and the weights of its dual point."""

    def __init__(
        self,
        problem: LatentProblem,
        alpha: float,
        shares: np.ndarray,
        objective: int,
        capacity: int,
        rng: np.random.RandomState,
    ):
        n, width = problem.n_examples, problem.width
        self.problem, self.alpha, self.shares, self.rng = problem, alpha, shares, rng
        self.objective = objective
        self.examples = np.flatnonzero(shares > 0)
        self.store = WorkingSet(
            np.zeros((n, width), np.int32),
            np.zeros((n, width)),
            np.zeros(n, np.int32),
            np.zeros((n, capacity, width), np.int32),
            np.zeros((n, capacity, width)),
            np.zeros((n, capacity), np.int32),
            np.zeros((n, capacity)),
            np.zeros((n, capacity)),
            np.zeros((n, capacity)),
            np.zeros(n, np.int32),
        )
        self.weights = np.zeros(problem.n_weights)
        self.searches = 0
        self._scratch = np.zeros(problem.n_weights)
        self._values = np.zeros(capacity)
        self._truths: Rows | None = None

    def explain(self, at: np.ndarray, relaxed: bool) -> int:
        """Best explanations at some weights; returns how many changed."""
        found = self.problem.complete(at, relaxed, self.examples)
        self._truths = self.problem.rows(found, self.examples)
        return set_truths(
            self.store, self.weights, self.shares, self.alpha, self.examples, *self._truths
        )

    def search(self, at: np.ndarray, how: Any) -> tuple[float, Any, Rows]:
        """Objective of the convex problem at some weights, and the structures it comes from."""
        assert self._truths is not None
        references = self._truths.scores(at)
        found = self.problem.search(at, references, self.objective, self.examples, how)
        rows = self.problem.rows(found, self.examples)
        self.searches += len(self.examples)
        values = losses_of(self.objective, found.losses, references, rows.scores(at))
        mean = float(self.shares @ np.maximum(values, 0.0)) / self.shares.sum()
        return 0.5 * self.alpha * float(at @ at) + mean, found, rows

    def remember(self, found: Any, rows: Rows) -> int:
        """Keep what a search found; returns how many structures are new."""
        return remember(
            self.store, self.weights, self.shares, self.alpha, self.examples, *rows, found.losses,
            self.objective == MARGIN, self._values,
        )  # fmt: skip

    def ascend(self, passes: int, goal: float = 0.0) -> None:
        """Passes over what is remembered, until the gap met on the way is at most ``goal``."""
        orders = np.array([self.rng.permutation(self.examples) for _ in range(passes)])
        ascend(
            self.store, self.weights, self.shares, self.alpha, orders, _MOST_STEPS, goal,
            self._scratch, self._values,
        )  # fmt: skip

    def dual(self) -> float:
        """Value of the dual point; the weights are computed anew."""
        linear = rebuild(self.store, self.shares, self.alpha, self.weights)
        return linear - 0.5 * self.alpha * float(self.weights @ self.weights)


def losses_of(
    objective: int, distortions: np.ndarray, references: np.ndarray, scores: np.ndarray
) -> np.ndarray:
    """Training losses before the maximum with zero."""
    margins = references - scores
    return distortions * (1.0 - margins) if objective == SLACK else distortions - margins


class Reporter:
    """History, callbacks, progress, Ctrl-C."""

    def __init__(self, callbacks: Sequence[Callable[[Check], Any]], progress: Any, guard: Any):
        self.history: list[Check] = []
        self._callbacks, self._progress, self._guard = callbacks, progress, guard
        self._began = time.perf_counter()

    def report(
        self, done: float, objective: float, searches: int, convex: tuple[float, float] | None
    ) -> str | None:
        """Record a round, with primal and dual of its ``convex`` problem if there is a dual.

        Returns the status with which to stop, or None.
        """
        seconds = time.perf_counter() - self._began
        primal, dual = convex or (objective, -np.inf)
        gap = float(primal - dual)
        check = Check(done, seconds, float(objective), float(dual), gap, 0.0, searches)
        self.history.append(check)
        self._progress.update(check)
        answers = [callback(check) for callback in self._callbacks]
        if self._guard.requested:
            return INTERRUPTED
        if any(isinstance(answer, (bool, np.bool_)) and not answer for answer in answers):
            return STOPPED
        return None


def _solve(session: Session, how: Any, tol: float, goal: float, guard: Any) -> tuple[float, float]:
    """Lower the convex problem until its relative gap is ``tol`` and its value below ``goal``.

    Returns its value at the weights of the session, and a lower bound on it at all weights.
    """
    value = dual = -np.inf
    for left in reversed(range(_SEARCHES)):
        value, found, rows = session.search(session.weights, how)
        dual = session.dual()
        # Below the goal by less than the gap can mean that there is nothing more to gain.
        near = value - dual <= tol * abs(value)
        if (near and (value <= goal or value - dual <= 1e-9 * abs(value))) or guard.requested:
            break
        if not left:  # the value is that of the weights
            break
        session.remember(found, rows)
        session.ascend(_PASSES, 0.1 * (value - dual))
    return value, dual


def train_exact(
    problem: LatentProblem,
    alpha: float,
    shares: np.ndarray,
    objective: int,
    *,
    how: Any = "exact",
    relaxed: bool = False,
    tol: float = 1e-2,
    max_iter: int = 50,
    capacity: int = 50,
    start: np.ndarray | None = None,
    rng: np.random.RandomState,
    callbacks: Sequence[Callable[[Check], Any]] = (),
    verbose: int = 0,
) -> LatentResult:
    """CCCP with exact searches; ``objective`` is MARGIN (lssvm) or SLACK (all).

    Ends when a round lowers the objective by at most ``tol`` (relative), or cannot lower it.
    ``primal`` and ``dual`` of the result are those of one convex problem, the last one that says
    something about the weights that are kept.
    """
    session = Session(problem, alpha, shares, objective, capacity, rng)
    best = np.zeros(problem.n_weights) if start is None else start.astype(float)
    status, inner = None, max(tol, 0.1)
    with InterruptGuard() as guard, ProgressReporter(verbose, max_iter, "Latent") as progress:
        reporter = Reporter(callbacks, progress, guard)
        session.explain(best, relaxed)
        lowest, _, _ = session.search(best, how)
        convex, of_best = (lowest, -np.inf), True
        status = reporter.report(0.0, lowest, session.searches, convex)
        for done in range(1, max_iter + 1):
            if status is not None:
                break
            solved = _solve(session, how, inner, lowest, guard)
            candidate = session.weights.copy()
            changed = session.explain(candidate, relaxed)
            value, _, _ = session.search(candidate, how)
            fell = lowest - value
            if fell > 0.0:
                best, lowest, convex = candidate, value, solved
            elif of_best:  # the best weights chose the explanations: the convex value is theirs
                convex = (lowest, solved[1])
            of_best = fell > 0.0
            status = reporter.report(float(done), lowest, session.searches, convex)
            small = fell <= tol * abs(lowest) or changed == 0
            if status is None and small:
                if inner <= 0.1 * tol * (1.0 + 1e-9):
                    status = CONVERGED
                inner = max(0.1 * tol, 0.1 * inner)
    return LatentResult(
        best, lowest, *convex, status or MAX_ITER, reporter.history, session.searches
    )


def train_random(
    problem: LatentProblem,
    alpha: float,
    shares: np.ndarray,
    *,
    n_samples: Callable[[np.ndarray], int],
    relaxed: bool,
    max_iter: int = 20,
    passes: int = 3,
    capacity: int = 50,
    greedy: bool = True,
    how: Any = None,
    start: np.ndarray | None = None,
    rng: np.random.RandomState,
    callbacks: Sequence[Callable[[Check], Any]] = (),
    verbose: int = 0,
) -> LatentResult:
    """Slack re-scaling over random structures; ``n_samples`` gives |T| at some weights.

    With ``how`` the search is another one, for example an exact one: the same rounds over all
    structures.
    """
    session = Session(problem, alpha, shares, SLACK, capacity, rng)
    status, value = None, np.inf
    at = session.weights if start is None else start.astype(float)
    with InterruptGuard() as guard, ProgressReporter(verbose, max_iter, "Latent") as progress:
        reporter = Reporter(callbacks, progress, guard)
        for done in range(1, max_iter + 1):
            session.explain(at, relaxed)
            draw = how or Random(n_samples(at), int(rng.randint(2**31)), greedy)
            value, found, rows = session.search(at, draw)
            session.remember(found, rows)
            session.ascend(passes)
            at = session.weights
            status = reporter.report(float(done), value, session.searches, None)
            if status is not None:
                break
        session.dual()  # weights free of rounding
        weights = session.weights.copy()
        session.explain(weights, relaxed)
        draw = how or Random(n_samples(weights), int(rng.randint(2**31)), greedy)
        value, _, _ = session.search(weights, draw)
    return LatentResult(
        weights, value, value, np.nan, status or MAX_ITER, reporter.history, session.searches
    )


def train_subgradient(
    problem: LatentProblem,
    alpha: float,
    shares: np.ndarray,
    *,
    n_samples: Callable[[np.ndarray], int],
    relaxed: bool,
    max_iter: int = 20,
    greedy: bool = True,
    how: Any = None,
    rng: np.random.RandomState,
    callbacks: Sequence[Callable[[Check], Any]] = (),
    verbose: int = 0,
) -> LatentResult:
    """Averaged stochastic subgradient steps on the slack objective."""
    session = Session(problem, alpha, shares, SLACK, 1, rng)
    weights, mean = np.zeros(problem.n_weights), np.zeros(problem.n_weights)
    scale = shares * len(session.examples) / shares.sum()
    status, step = None, 0
    with InterruptGuard() as guard, ProgressReporter(verbose, max_iter, "Latent") as progress:
        reporter = Reporter(callbacks, progress, guard)
        for done in range(1, max_iter + 1):
            for i in session.examples[rng.permutation(len(session.examples))]:
                step += 1
                chosen = np.array([i])
                truth = problem.rows(problem.complete(weights, relaxed, chosen), chosen)
                draw = how or Random(n_samples(weights), int(rng.randint(2**31)), greedy)
                references = truth.scores(weights)
                found = problem.search(weights, references, SLACK, chosen, draw)
                rows = problem.rows(found, chosen)
                slack = 1.0 - references[i] + rows.scores(weights)[i]
                weights *= 1.0 - 1.0 / step
                if slack > 0.0 and found.losses[i] > 0.0:
                    size = scale[i] * found.losses[i] / (alpha * step)
                    np.add.at(weights, truth.indices[i], size * truth.values[i])
                    np.add.at(weights, rows.indices[i], -size * rows.values[i])
                mean += (weights - mean) * 2.0 / (step + 1.0)
            session.explain(mean, relaxed)
            draw = how or Random(n_samples(mean), int(rng.randint(2**31)), greedy)
            value, _, _ = session.search(mean, draw)
            status = reporter.report(float(done), value, session.searches, None)
            if status is not None:
                break
    return LatentResult(
        mean, value, value, np.nan, status or MAX_ITER, reporter.history, session.searches
    )
