"""Acceleration of any solver that climbs a dual: the proximal point method, with momentum.

The inner solver climbs the dual of

    P(w) + inertia * alpha / 2 |w - centre|^2,    w = (w(mu) + inertia * centre) / (1 + inertia),

which is better conditioned for larger inertia: the same blocks, with ``scales / (1 + inertia)``.
After every round the centre moves to ``w + momentum * (w - w before)``. Values reported are always
those of P, and of its own dual at mixtures of the dual points so far: a dual point is represented
by its concave part and its w(mu), which mix linearly (H is concave, so this value of a mixture is a
lower bound), and the best mixture of the last point with the earlier ones has a closed form.

References
----------
Lin, Mairal, Harchaoui. A universal catalyst for first-order optimization. NeurIPS 2015.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._validation import check_number, is_auto
from ._centre_kernel import (
    bare_products,
    mix_bare,
    mix_in,
    move_centre,
    movement,
    pull_centre,
    write_bare,
)
from .base import Candidate, Momentum, Wrapper, check_inner, trusted_ratio, with_bound
from .problem import DualPoint, best_share

# Rounds between two mixtures of dual points; each costs a pass without oracles.
_MIXED_ROUNDS = 2
# Factor of the inertia when momentum points in the wrong direction.
_LESS_INERTIA = 0.7
# How fast inertia follows the cosine between two movements, up and down; after this number of
# rounds more and more slowly. Bounds on the inertia, in units of the first one.
_GAIN_UP, _GAIN_DOWN, _SETTLING = 0.2, 0.1, 20.0
_LEAST, _MOST = 0.75, 3.0
# How fast the factor of the momentum grows with the cosine, in units of their ranges.
_SLOPE = 4.0
# Largest inertia: the weights of the dual point are a difference of numbers larger by this factor,
# and their rounding error must stay far below any useful tolerance.
_MOST_INERTIA = 1e6
# Number of rounds without a smaller gap after which inertia is halved and momentum reset.
_PATIENCE = 20
# The same for solvers without a target of the cosine, whose gaps after a round vary too much: the
# distance of the weights to those of the dual point counts, where it is this share of the gap.
_MATTERS = 0.1


class AcceleratedState(NamedTuple):
    """``inner`` climbs around ``centre``; ``before`` are its weights after the last round, and
    ``best`` is the best mixture of dual points."""

    inner: Any
    centre: np.ndarray
    before: np.ndarray
    inertia: float
    first: float  # inertia at the start
    best: DualPoint | None
    ratio: float  # of the true gap to its estimate, at the last check
    centred_at: int  # oracle calls when the centre moved
    lowest: float  # smallest estimate of the gap after a round
    stale: int  # rounds since then
    calm: float  # factor of the bounds on the inertia: decreases when the gap stops shrinking
    apart: float = 0.0  # alpha/2 |w - w(mu)|^2 when the centre moved

    @property
    def weights(self) -> np.ndarray:
        return self.inner.weights

    @property
    def dual(self) -> Any:
        return self.inner.dual

    @property
    def calls(self) -> int:
        return self.inner.calls

    @property
    def pending(self) -> np.ndarray:
        return self.inner.pending


class Accelerated(Wrapper):
    """Acceleration around a solver.

    Parameters
    ----------
    solver : Solver or str, default="auto"
        Climbs a dual by steps that depend on the strength of the regularisation only through
        ``problem.scales``. A name stands for the solver that is chosen for the problem, without its
        own acceleration.
    inertia : "auto" or float, default="auto"
        Weight of the proximal term in units of alpha at the start; 0 is the solver itself. "auto"
        is chosen for the solver and the problem.

    Notes
    -----
    Solvers that have a ``momentum.cosine`` adapt their inertia after every round: a is the cosine
    between the last two movements of the weights, and inertia changes by the factor
    ``exp(gain * (cosine - a))``, within bounds. With a ``momentum.most`` the factor of the momentum
    grows with the cosine, up to this value; where it is largest, the centre of weights that are
    hardly coupled with others (``apartness`` of the solver) moves towards w(mu) instead: their
    curvature is far below the inertia, and momentum alone leaves them behind. The others
    halve the inertia when the weights of the dual point stay away from the iterate, as they do with
    weak regularisation.
    """

    accelerated = True

    def __init__(self, solver: Any = "auto", inertia: float | str = "auto"):
        self.solver = solver
        self.inertia = inertia

    def validate(self):
        check_inner(self.solver)
        if not is_auto("inertia", self.inertia):
            check_number("inertia", self.inertia, at_least=0)

    def missing(self, problem):
        found = self.solver.missing(problem)
        if not self.solver.visits_blocks:
            found = [*found, f"a solver that visits blocks: {self.solver!r} cannot be accelerated"]
        if problem.in_kernel_space and not is_auto("inertia", self.inertia) and self.inertia > 0.0:
            found = [*found, "weights of features (kernel='linear', or inertia='auto')"]
        return found

    def init(self, problem, start, rng):
        inner = self.solver.init(problem, start, rng)
        weights = inner.weights
        chosen = is_auto("inertia", self.inertia)
        inertia = self.solver.default_inertia(problem) if chosen else self.inertia
        inertia = min(float(inertia), _MOST_INERTIA)
        inner = self.solver.started(problem.with_inertia(inertia), inner)
        best = self._scaled_start(problem, inner) if inertia > 0.0 else None
        centre = weights.copy() if best is None else best.weights.copy()
        if best is not None:
            inner = inner._replace(weights=(weights + inertia * centre) / (1.0 + inertia))
        return AcceleratedState(
            inner, centre, inner.weights.copy(), inertia, inertia, best, 1.0, -1, np.inf, 0, 1.0
        )

    def _scaled_start(self, problem, inner) -> DualPoint | None:
        """The best mixture of the first dual point and the true outputs, where that is better.

        With linear H, 0 at the truths, the mixture with share t has the concave part ``t H`` and
        the weights ``t w(mu)``. Starting from the dual point of a stronger regularisation, w(mu)
        grows as alpha falls and is too large; the mixture is about as large as it was there.
        """
        square = problem.squared_norm(inner.weights) if problem.cost.linear else 0.0
        if square == 0.0 or problem.in_python or problem.clamped is not None:
            return None
        concave = self.solver.concave(problem, inner)
        share = 1.0 if concave is None else best_share(concave, problem.alpha * square)
        return DualPoint(share * concave, share * inner.weights) if share < 1.0 else None

    def advance(self, problem, state, steps):
        if state.inertia == 0.0:
            return state._replace(inner=self.solver.advance(problem, state.inner, steps))
        near = problem.with_inertia(state.inertia)
        inner = self.solver.advance(near, state.inner, steps)
        state = state._replace(inner=inner)
        return state if len(inner.pending) else self._end_round(problem, state)

    def _end_round(self, problem, state):
        """Update the mixture by the dual point; move the centre when it is due."""
        momentum, inner = self.solver.momentum, state.inner
        if inner.rounds % _MIXED_ROUNDS == 0:
            state = state._replace(best=self._better_mixture(problem, state))
        if inner.rounds % momentum.rounds:
            return state
        inner, unsettled = self.solver.unsettled(problem, inner)
        own, ahead, product = movement(state.centre, inner.weights, state.before, problem.n_threads)
        inertia, damping, steady = state.inertia, momentum.damping, 0.0
        apart = 0.5 * problem.alpha * inertia**2 * (ahead - 2.0 * product + own)
        if momentum.cosine is None:
            calm = state.calm
            if apart > _MATTERS * self.solver.estimate(problem, inner, apart):
                state = _with_progress(state, apart)
            if state.calm < calm:  # and the weights of the dual point do not come closer
                inertia, damping = 0.5 * inertia, 0.0
            elif unsettled or product > own:  # momentum points backwards
                inertia, damping = _LESS_INERTIA * inertia, 0.0
        else:
            state = _with_progress(state, self.solver.estimate(problem, inner, apart))
            damping = 0.0 if state.lowest == np.inf else damping
            if own * ahead > 0.0:  # a product of tiny squares may underflow
                cosine = product / np.sqrt(own * ahead)
                inertia = _adapted_inertia(state, momentum.cosine - cosine)
                if damping:
                    excess = (cosine - momentum.cosine) / (1.0 - momentum.cosine)
                    damping, steady = _larger_damping(momentum, excess), _steadiness(excess)
        root = np.sqrt(1.0 / (1.0 + inertia))
        ahead = damping * (1.0 - root) / (1.0 + root)
        vectors = inner.weights, state.before, state.centre
        numbers = ahead, state.inertia, inertia, problem.n_threads
        alone = self.solver.apartness(problem) if steady == 1.0 else None
        if alone is None:
            move_centre(*vectors, *numbers)
        else:
            pull_centre(*vectors, alone, *numbers)
        return state._replace(
            inner=inner, inertia=inertia, centred_at=inner.calls, apart=float(apart)
        )

    def _better_mixture(self, problem, state) -> DualPoint | None:
        """``problem.better_mixture`` with the present dual point, whose weights are not stored."""
        concave = self.solver.concave(problem, state.inner)
        if concave is None:
            return None
        if state.best is None:
            return DualPoint(concave, self._dual_weights(state, problem.n_threads))
        best, weights = state.best, state.inner.weights
        n_threads = problem.n_threads
        old, new, cross = bare_products(
            best.weights, weights, state.centre, state.inertia, n_threads
        )
        slope = concave - best.concave - problem.alpha * (cross - old)
        curvature = problem.alpha * (new - 2.0 * cross + old)
        step = best_share(slope, curvature)
        mix_bare(best.weights, weights, state.centre, state.inertia, step, n_threads)
        return DualPoint((1.0 - step) * best.concave + step * concave, best.weights)

    def _dual_weights(self, state, n_threads=1, room=None) -> np.ndarray:
        """``w(mu)``, of which the iterate is a mixture with the centre."""
        if state.inertia == 0.0:
            return state.inner.weights
        room = np.empty(len(state.centre)) if room is None else room
        write_bare(room, state.inner.weights, state.centre, state.inertia, n_threads)
        return room

    def settled(self, state) -> np.ndarray:
        """The iterate. Right after a move of the centre, the weights do not yet belong to it."""
        return state.before if state.inner.calls == state.centred_at else state.inner.weights

    def point(self, problem, state):
        weights, *others = self.solver.point(problem, state.inner)
        return (self.settled(state), *others)

    def mixed(self, problem, state, mean, share, at=None):
        return self.solver.mixed(problem, state.inner, mean, share, self.settled(state))

    def check(
        self, problem, state, at=None, dual_weights=None
    ) -> tuple[AcceleratedState, list[Candidate]]:
        room = problem.workspace.array("dual weights", len(state.centre))
        settled, bare = self.settled(state), self._dual_weights(state, problem.n_threads, room)
        guess = self.estimate(problem, state) / state.ratio
        inner, candidates = self.solver.check(problem, state.inner, settled, bare)
        state = state._replace(inner=inner)
        if state.best is not None:
            dual = problem.dual_value(state.best)
            candidates = [(weights, with_bound(found, dual)) for weights, found in candidates]
        if state.calls:
            state = state._replace(ratio=trusted_ratio(candidates, guess, state.ratio))
        return state, candidates

    def estimate(self, problem, state, apart=0.0):
        """``P(w) - D(mu)``, the mean gap of the blocks at w plus ``alpha/2 |w - w(mu)|^2``, times
        the ratio of true gap to estimate at the last check: better points are known."""
        if state.inner.calls == state.centred_at:
            apart += state.apart
        elif state.inertia > 0.0:
            weights = state.inner.weights
            _, square, _ = movement(state.centre, weights, weights, problem.n_threads)
            apart += 0.5 * problem.alpha * state.inertia**2 * square
        return state.ratio * self.solver.estimate(problem, state.inner, apart)

    def refreshed(self, problem, state):
        fresh = super().refreshed(problem, state)
        if fresh is state or state.inertia == 0.0:
            return fresh
        mix_in(fresh.inner.weights, state.centre, state.inertia / (1.0 + state.inertia))
        return state._replace(inner=fresh.inner)


def _adapted_inertia(state: AcceleratedState, missing: float) -> float:
    """More inertia if the weights change direction, because rounds are not accurate enough; less if
    they keep it, because the centre lags behind."""
    gain = _GAIN_UP if missing > 0.0 else _GAIN_DOWN
    gain *= min(1.0, _SETTLING / state.inner.rounds)
    unit = state.first * state.calm
    return float(min(max(state.inertia * np.exp(gain * missing), _LEAST * unit), _MOST * unit))


def _larger_damping(momentum: Momentum, excess: float) -> float:
    """The factor of the momentum where the cosine is above its target, by a share of its range."""
    return momentum.damping + _steadiness(excess) * max(momentum.most - momentum.damping, 0.0)


def _steadiness(excess: float) -> float:
    """1 if the weights keep their direction, 0 if the cosine is at most its target."""
    return min(max(_SLOPE * excess, 0.0), 1.0)


def _with_progress(state: AcceleratedState, guess: float) -> AcceleratedState:
    """Update the state by the estimate of the gap after a round, or of a part of it.

    Rounds are not exact, and with too much inertia for their accuracy the weights can oscillate
    around the optimum. Without inertia the dual never decreases, so less inertia ends this.
    """
    if guess < state.lowest:
        return state._replace(lowest=guess, stale=0)
    if state.stale < _PATIENCE:
        return state._replace(stale=state.stale + 1)
    return state._replace(lowest=np.inf, stale=0, calm=0.5 * state.calm)  # start again
