"""Parts of the examples, each with dual blocks of its own, and the engine of one process.

A :class:`Part` is run by an engine, in a thread or on another machine: the problem of some of the
examples, a solver and its state. :mod:`~maxmargin.solvers.crew` has the part of the driver.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..features.couplings import Couplings
from ._centre_kernel import mix_in
from .problem import DualPoint, MeanAnswer


class Size(NamedTuple):
    """Examples of a part, and the sum of their weights."""

    n_examples: int
    total_weight: float


class Reply(NamedTuple):
    """Result of a round of a part."""

    change: np.ndarray  # of the weights, its share of the sum; all weights if there is one part
    calls: int
    pending: int
    estimate: float  # of its mean gap
    unsettled: bool


class PartState(NamedTuple):
    """What a part needs to continue: the state of its solver, and an average beside the weights."""

    inner: Any
    mean: tuple[np.ndarray, ...]
    rounds: int


class PartitionedDual(NamedTuple):
    """The dual points of all parts."""

    parts: tuple[Any, ...]

    @property
    def nbytes(self) -> int:
        return sum(getattr(part, "nbytes", 0) for part in self.parts)


class Lost(NamedTuple):
    """Takes the place of a result: the part was lost."""

    reason: str


def lost_among(answers: list[Any]) -> dict[int, str]:
    """Indices of the results whose parts were lost, with the reasons."""
    return {i: answer.reason for i, answer in enumerate(answers) if isinstance(answer, Lost)}


class Maker(NamedTuple):
    """How a worker makes a part: without data, or from a partition of the data that it holds."""

    make: Callable[..., Any]
    source: Any = None

    def __call__(self) -> Any:
        return self.make() if self.source is None else self.make(self.source)


class StaleRound(RuntimeError):
    """A part does not have the state that the driver expects: its worker was restarted."""


class Part:
    """The problem of some examples, with a solver and its state.

    Parameters
    ----------
    problem : TrainingProblem
        As :meth:`~maxmargin.solvers.problem.TrainingProblem.subset` makes it.
    n_parts : int
        Parts of the whole: the factor by which a part overestimates what its steps change, so that
        the sum of the changes of all parts raises the dual.
    """

    def __init__(self, problem: Any, n_parts: int):
        self.problem = copy.copy(problem)
        self.problem.penalised = False  # the driver adds the penalty
        self.n_parts = n_parts
        self.solver: Any = None
        self.state: Any = None
        self.mean: tuple[np.ndarray, ...] = ()
        self.rounds = 0

    def call(self, name: str, share: float, args: tuple) -> Any:
        """Add the last iterate to the average, if it has a share, and call a method."""
        if share:
            self._mix(share)
        return getattr(self, name)(*args)

    def kept(self) -> tuple[Any, Any]:
        """The problem, and what else changes from call to call."""
        return self.problem, (self.solver, self.state, self.mean, self.rounds)

    def size(self) -> Size:
        return Size(self.problem.n_examples, self.problem.total_weight)

    def strength(self) -> float:
        """``alpha W``."""
        return self.problem.alpha * self.problem.total_weight

    def belong(self, strength: float) -> None:
        """Set ``alpha W`` of the whole: steps and weights of the dual point are in its units."""
        self.problem = self.problem.with_strength(strength)

    def start(self, solver: Any, start: Any, rng: Any) -> np.ndarray:
        """Begin at a dual point; returns its weights."""
        from .._dual_checks import check_dual

        self.solver = solver
        self.problem = solver.adapted(self.problem)
        if start is not None and self.n_parts > 1:
            check_dual(start, self.problem)  # it may have been read from a file
        self.state = solver.init(self.problem, start, rng)
        self.mean, self.rounds = (), 0
        return self.state.weights

    def default_inertia(self) -> float:
        return float(self.solver.default_inertia(self._near(0.0)))

    def started(self, inertia: float) -> None:
        self.state = self.solver.started(self._near(inertia), self.state)

    def _near(self, inertia: float) -> Any:
        """The problem with inertia, and with steps that may be summed over all parts."""
        near = self.problem.with_inertia(inertia)
        if self.n_parts > 1:
            near.scales = near.scales * self.n_parts
        return near

    def round(
        self, number: int, weights: np.ndarray, inertia: float, steps: int, passes: int
    ) -> Reply:
        """Steps from common weights: some of them, or some passes if there are several parts."""
        if number not in (self.rounds, self.rounds + 1):
            raise StaleRound(f"round {number} follows round {self.rounds}")
        self.rounds = number
        near, solver, before = self._near(inertia), self.solver, self.state.calls
        own = weights if self.n_parts == 1 else weights.copy()
        state = self.state._replace(weights=own)
        if self.n_parts == 1:
            state = solver.advance(near, state, steps)
        else:
            for _ in range(passes):
                state = solver.advance(near, state, self.problem.n_examples)
                while len(state.pending):
                    state = solver.advance(near, state, len(state.pending))
        unsettled = False
        if not len(state.pending):
            state, unsettled = solver.unsettled(near, state)
        self.state = state
        change = own
        if self.n_parts > 1:
            change = own - weights
            change *= 1.0 / self.n_parts
        return Reply(
            change, state.calls - before, len(state.pending),
            float(solver.estimate(self.problem, state)), bool(unsettled),
        )  # fmt: skip

    def _mix(self, share: float) -> None:
        beside = self.solver.point(self.problem, self.state)[1:]
        if self.solver.own_mean(self.state) is None:
            self.mean = self.mean or tuple(np.zeros_like(array) for array in beside)
            for average, array in zip(self.mean, beside, strict=True):
                mix_in(average.reshape(-1), array.reshape(-1), share)

    def evaluate(self, weights: np.ndarray, with_dual: bool) -> tuple[float, ...]:
        """Primal, dual and error without penalty, at the iterate, or, without a dual, beside the
        average; and a new estimate of the gap."""
        beside = self.solver.point(self.problem, self.state)[1:]
        if not with_dual:
            beside = self.solver.own_mean(self.state) or self.mean or beside
        found = self.solver.evaluate(
            self.problem, self.state, (weights, *beside), weights if with_dual else None
        )
        guess = self.solver.estimate(self.problem, self.state)
        return float(found.primal), float(found.dual), float(found.oracle_error), float(guess)

    def dual_point(self) -> DualPoint | None:
        """A repaired dual point, where the one of the state is not feasible."""
        return self.solver.dual_point(self.problem, self.state)

    def concave(self) -> float | None:
        return self.solver.concave(self.problem, self.state)

    def weights_of(self) -> np.ndarray:
        return self.problem.weights_of(self.state.dual)

    def mean_square(self) -> float:
        return float(self.problem.mean_square())

    def couplings(self) -> Couplings | None:
        return self.problem.couplings()

    def mean_answer(self, weights: np.ndarray) -> MeanAnswer:
        return self.problem.mean_answer(weights)

    def signature(self) -> bytes | None:
        return self.problem.signature()

    def give(self) -> PartState:
        return PartState(self.state, self.mean, self.rounds)

    def take(self, found: PartState) -> None:
        """Continue from a state, which is checked first: it may come from a file."""
        from .._checkpoint_checks import check_part_state

        check_part_state(found, self.give(), self.problem)
        self.state, self.mean, self.rounds = found

    def follow(self, rounds: int) -> None:
        """Set the number of rounds to that of the other parts."""
        self.rounds = rounds

    def probe(self, first: int, last: int, weights: np.ndarray) -> None:
        """Evaluate some examples, to find one that ends a worker."""
        some = self.problem.subset(np.arange(first, last))
        state = self.solver.init(some, None, np.random.RandomState(0))
        self.solver.evaluate(some, state, self.solver.point(some, state), None)
        self.solver.advance(some, state._replace(weights=weights.copy()), last - first)


class Engine:
    """Runs parts. ``makers`` are functions without arguments that make them."""

    fallible = False  # whether parts can be lost

    @property
    def n_workers(self) -> int:
        return 1

    def partitions_of(self, data: Any, target: Any) -> list[Any] | None:
        """Partitions of data on the workers of the engine; None if the data are in this process."""
        return None

    def start(self, makers: list[Maker]) -> None:
        """Make the parts on the workers."""
        raise NotImplementedError

    def call(self, ks: list[int], name: str, share: float, each: list[tuple]) -> list[Any]:
        """Results of some parts, in their order; :class:`Lost` in place of a lost one."""
        raise NotImplementedError

    def restart(self, k: int, make: Maker) -> None:
        """Make a new part in place of a lost one."""

    def close(self) -> None:
        """End what was started."""


class Threads(Engine):
    """The engine of one process: parts are objects, calls run in threads."""

    def __init__(self, n_threads: int = 1):
        self._n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self._parts: list[Part] = []

    @property
    def n_workers(self) -> int:
        return self._n_threads

    def start(self, makers: list[Maker]) -> None:
        self._parts = [make() for make in makers]

    def call(self, ks: list[int], name: str, share: float, each: list[tuple]) -> list[Any]:
        jobs = [partial(self._parts[k].call, name, share, args) for k, args in zip(ks, each)]
        if self._pool is None or len(jobs) == 1:
            return [job() for job in jobs]
        return [future.result() for future in [self._pool.submit(job) for job in jobs]]

    def restart(self, k: int, make: Maker) -> None:
        self._parts[k] = make()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
