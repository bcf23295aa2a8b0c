"""A training problem whose examples are in parts: what the driver stores about them.

With parts p of weight W_p,

    w(mu) = sum_p w_p(mu_p),    mean loss = sum_p (W_p / W) mean loss of p,    H likewise,

summed in the order of the parts: results depend on the partition alone, not on the engine. A lost
part starts again at its last saved state, or at the truth, which is feasible: the dual decreases,
and the certificate stays true, because the contribution of the part to w(mu) is known.
"""

from __future__ import annotations

import copy
import hashlib
from functools import partial
from typing import Any

import numpy as np

from .parts import Maker, Part, PartState, Reply, Size, Threads, lost_among
from .problem import MeanAnswer, TrainingProblem

# Largest number of repetitions of a call with a new part in place of a lost one.
_MOST_LOSSES = 3


class Crew:
    """The parts of a problem on an engine, and what is needed to replace a lost one."""

    def __init__(self, engine: Any, makers: list[Maker]):
        self.engine = engine
        self.makers = makers
        self.n_parts = len(makers)
        self.share = 0.0  # of the last iterate in an average; sent to the parts with the next call
        # Contributions of lost parts to w(mu), not yet subtracted from the weights.
        self.shift: np.ndarray | None = None
        # How little each weight is coupled with others; None where that is unknown or always much.
        self.apartness: np.ndarray | None = None
        self._owned: list[np.ndarray] = []  # w_p(mu_p), if parts can be lost
        self._saved: tuple[PartState, ...] | None = None
        self._begin: tuple[Any, ...] = ()
        self._round = 0
        self._inertia = 0.0
        self.losses = 0
        engine.start(makers)

    def all(self, name: str, *args: Any) -> list[Any]:
        """Results of a method of all parts, with the same arguments."""
        return self.each(name, [args] * self.n_parts)

    def each(self, name: str, each: list[tuple]) -> list[Any]:
        """Results of a method of all parts, with arguments per part; lost parts are replaced."""
        share, self.share = self.share, 0.0
        answers = self.engine.call(list(range(self.n_parts)), name, share, each)
        for attempt in range(_MOST_LOSSES):
            for k, reason in lost_among(answers).items():
                if attempt == 1:
                    self._explain(k, reason)
                self._replace(k, name)
                answers[k] = self.engine.call([k], name, 0.0, [each[k]])[0]
        for k, reason in lost_among(answers).items():
            raise RuntimeError(f"partition {k} was lost {_MOST_LOSSES} times in a row: {reason}")
        return answers

    def begin(self, solver: Any, starts: list[Any], rngs: list[Any]) -> list[np.ndarray]:
        """Start the solver in all parts; returns the weights of their dual points."""
        self._begin = (solver, rngs)
        self.shift, self._saved, self._round, self._inertia = None, None, 0, 0.0
        self._owned = []
        found = self.each("start", [(solver, s, r) for s, r in zip(starts, rngs, strict=True)])
        if self.engine.fallible:
            self._owned = [weights.copy() for weights in found]
        return found

    def round(self, *args: Any) -> list[Reply]:
        """A round of all parts."""
        number, before, inertia = args[:3]
        self._round, self._inertia = number, inertia
        replies = self.all("round", *args)
        for k, owned in enumerate(self._owned):
            change = replies[k].change
            owned += (1.0 + inertia) * (change - before if self.n_parts == 1 else change)
        return replies

    def saved(self) -> tuple[PartState, ...]:
        """The states of all parts, where lost ones will continue."""
        found = tuple(self.all("give"))
        self._saved = found if self.engine.fallible else None
        return found

    def restore(self, states: tuple[PartState, ...]) -> None:
        """Continue from earlier states of all parts."""
        self.each("take", [(state,) for state in states])
        self._saved = states if self.engine.fallible else None
        self._round = states[0].rounds
        self.own()

    def own(self) -> list[np.ndarray]:
        """``w_p(mu_p)`` of all parts, from scratch."""
        found = self.all("weights_of")
        if self.engine.fallible:
            self._owned = [weights.copy() for weights in found]
        self.shift = None
        return found

    def _replace(self, k: int, name: str) -> None:
        """A new part: at its last saved state, or at the truth, which is always feasible."""
        self.losses += 1
        self.engine.restart(k, self.makers[k])
        if name in ("size", "mean_answer", "mean_square") or not self._begin:
            return
        solver, rngs = self._begin
        rng = rngs[k] if self.n_parts == 1 else np.random.RandomState(self._round)
        steps: list[tuple] = [("start", (solver, None, rng)), ("started", (self._inertia,))]
        weights = np.empty(0)
        if self._saved is not None:
            steps.append(("take", (self._saved[k],)))
        steps.append(("follow", (self._round,)))
        if self._owned:
            steps.append(("weights_of", ()))
        for step, args in steps if name != "start" else []:
            answers = self.engine.call([k], step, 0.0, [args])
            for reason in lost_among(answers).values():
                raise RuntimeError(f"partition {k} could not be started again: {reason}")
            weights = answers[0]
        if self._owned and name != "start":
            shift = weights - self._owned[k]
            self.shift = shift if self.shift is None else self.shift + shift
            self._owned[k] = weights.copy()

    def _explain(self, k: int, reason: str) -> None:
        """A part was lost twice in one call: find the example that ends its worker, if any."""
        solver, _ = self._begin or (None, None)
        if solver is None or not self._owned:
            return
        self.engine.restart(k, self.makers[k])
        size = self.engine.call([k], "size", 0.0, [()])[0]
        first, last, weights = 0, size.n_examples, np.zeros_like(self._owned[k])
        while True:
            found = self._first_fatal(k, first, last, weights)
            if found is None:
                return
            first, last = found
            if last - first == 1:
                raise RuntimeError(
                    f"partition {k} was lost twice, and its example {first} alone ends a worker "
                    f"({reason}); remove or repair the example."
                )

    def _first_fatal(self, k: int, first: int, last: int, weights: np.ndarray) -> Any:
        """The first of a few ranges of examples that ends a worker; None if none does."""
        solver, _ = self._begin
        bounds = np.unique(np.linspace(first, last, 33).astype(int))
        for low, high in zip(bounds[:-1], bounds[1:], strict=True):
            self.engine.call([k], "start", 0.0, [(solver, None, np.random.RandomState(0))])
            answers = self.engine.call([k], "probe", 0.0, [(int(low), int(high), weights)])
            if lost_among(answers):
                self.engine.restart(k, self.makers[k])
                return int(low), int(high)
        return None


class PartitionedProblem(TrainingProblem):
    """A problem in parts, as the driver uses it.

    Parameters
    ----------
    problem : TrainingProblem
        The whole, or one with the same surrogate, structure, alpha and number of weights.
    crew : Crew
    sizes : list of Size
        Sizes of the parts.
    """

    in_parts = True

    def __init__(self, problem: Any, crew: Crew, sizes: list[Size]):
        super().__init__(problem.alpha, np.array([size.total_weight for size in sizes]))
        if len(sizes) == 1:
            self.total_weight = sizes[0].total_weight
        self.n_examples = sum(size.n_examples for size in sizes)
        self.shares = [size.total_weight / self.total_weight for size in sizes]
        self.crew = crew
        self.inertia = 0.0
        self.surrogate, self.traits = problem.surrogate, problem.traits
        self.clamped, self.in_kernel_space = problem.clamped, problem.in_kernel_space
        self.n_weights = problem.n_weights
        self.tolerance, self.from_scratch = problem.tolerance, problem.from_scratch
        self.engine = problem.engine
        self.passes_per_round = int(len(sizes) > 1)

    @property
    def n_parts(self) -> int:
        return self.crew.n_parts

    def with_inertia(self, inertia: float) -> PartitionedProblem:
        changed = copy.copy(self)
        changed.inertia = inertia
        return changed

    def mean(self, values: list[float]) -> float:
        """The mean over all examples of means over those of the parts."""
        return sum(share * value for share, value in zip(self.shares, values, strict=True))

    def mean_square(self) -> float:
        """Mean over examples of the squared norms of all their rows."""
        return self.mean(self.crew.all("mean_square"))

    def mean_answer(self, weights: np.ndarray) -> MeanAnswer:
        """Mean surrogate, its gradient and the error of the oracle."""
        found = self.crew.all("mean_answer", weights)
        slopes = [share * part.slopes for share, part in zip(self.shares, found, strict=True)]
        loss, error = (self.mean([part[at] for part in found]) for at in (0, 2))
        return MeanAnswer(loss, total(slopes), error)

    def signature(self) -> bytes | None:
        """Hash of the output spaces of all parts."""
        found = self.crew.all("signature")
        if any(part is None for part in found):
            return None
        return found[0] if len(found) == 1 else hashlib.sha256(b"parts".join(found)).digest()


def total(vectors: list[np.ndarray]) -> np.ndarray:
    """The sum, in order."""
    if len(vectors) == 1:
        return vectors[0]
    found = vectors[0] + vectors[1]
    for vector in vectors[2:]:
        found += vector
    return found


def in_parts(problem: Any, n_parts: int) -> PartitionedProblem:
    """A problem cut into parts, example i in part ``i % n_parts``."""
    n = problem.n_examples
    if n_parts > n:
        raise ValueError(
            f"n_partitions={n_parts} is more than there are examples to train on ({n}); use at "
            f"most {n}."
        )
    several = n_parts > 1
    engine = problem.engine or Threads(min(problem.n_threads, n_parts) if several else 1)
    parts, sizes = [], []
    for k in range(n_parts):
        part = copy.copy(problem)
        if several:
            part = problem.subset(np.arange(k, n, n_parts))
            part.tolerance, part.from_scratch = problem.tolerance, problem.from_scratch
            part.n_threads = 1
        part.engine = None
        parts.append(part)
        sizes.append(Size(part.n_examples, part.total_weight))
    makers = [Maker(partial(Part, part, n_parts)) for part in parts]
    return PartitionedProblem(problem, Crew(engine, makers), sizes)
