"""DLPW: dual losses, primal weights. A baseline of training on factor graphs.

Minimises the hard primal ``g(w, delta)`` itself: a visit to an example improves its messages by
block minimisation, then moves the weights along a stochastic subgradient. With a temperature the
maxima are soft (``temperature * log sum exp``), so that block minimisation does not get stuck.

There is no dual: the lower bound reported is 0, which the true labels always certify.

References
----------
Meshi, Sontag, Jaakkola, Globerson. Learning efficiently with approximate inference via dual
losses. ICML 2010.
Hazan, Urtasun. A primal-dual message-passing algorithm for approximated large scale structured
prediction. NeurIPS 2010.
"""

from __future__ import annotations

import numpy as np

from experiments.baselines.dlpw_kernel import dlpw_steps
from maxmargin.graphs._tighten_kernel import make_answers
from maxmargin.graphs.graph import TABLE
from maxmargin.graphs.kernels.agreement import make_room
from maxmargin.graphs.problem import GraphProblem
from maxmargin.solvers.problem import Evaluation

from .visits import PermutedPasses


class DLPW(PermutedPasses):
    """Stepper of DLPW.

    Parameters
    ----------
    problem : GraphProblem
        Max-margin; all factors are tables.
    rate : float
        Step t of the weights is ``rate / (alpha (t + n))``.
    temperature : float
        Of the soft maxima; 0 is plain DLPW.
    sweeps : int
        Sweeps over the messages of an example in one visit.
    average : bool or float
        Also keep the average of the iterates at the ends of the passes, weights and messages, the
        t-th weighted by ``t ** average`` (True is 3).
    rng : numpy.random.RandomState
    """

    def __init__(
        self,
        problem: GraphProblem,
        *,
        rate: float = 1.0,
        temperature: float = 0.0,
        sweeps: int = 1,
        average: bool | float = True,
        rng,
    ):
        if problem.max_min or (problem.graphs.kind != TABLE).any():
            raise ValueError(
                "DLPW trains the max-margin surrogate on graphs whose factors are all tables; "
                "received max_min=True, a tree or a count. Use SoftAgreement."
            )
        super().__init__(problem, rng)
        self.rate, self.temperature, self.sweeps = float(rate), float(temperature), int(sweeps)
        self.messages = np.zeros(int(problem.graphs.first_message[-1]))
        self._stored = np.zeros(problem.n_weights)
        self._scale = np.ones(1)
        self._factors = problem.scales * (problem.alpha * problem.n_examples)
        is_switch = isinstance(average, (bool, np.bool_))
        self.power = 3.0 if is_switch else float(average)
        self._keeps_average = bool(average) if is_switch else True
        self._mass = 0.0
        self._mean: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def weights(self) -> np.ndarray:
        """The present weights."""
        return self._scale[0] * self._stored

    def _visit(self, order: np.ndarray) -> None:
        problem = self.problem
        dlpw_steps(
            problem.data(), self._factors, problem.alpha, self.rate, float(problem.n_examples),
            self.temperature, self.sweeps, order, self.oracle_calls, self.messages,
            problem.split(self._stored), self._scale, make_room(problem.graphs),
            make_answers(problem.graphs),
        )  # fmt: skip
        if self._scale[0] < 1e-100:
            self._stored *= self._scale[0]
            self._scale[0] = 1.0
        if self.between_rounds and self._keeps_average:
            self._take_in()

    def _take_in(self) -> None:
        """Add the iterate to the average."""
        now = (self.weights, self.messages)
        if self._mean is None:
            self._mean = (np.zeros_like(self._stored), np.zeros_like(self.messages))
        passes = self.oracle_calls // self.problem.n_examples + 1
        share = float(passes) ** self.power
        self._mass += share
        for mean, value in zip(self._mean, now, strict=True):
            mean += (share / self._mass) * (value - mean)

    def check(self) -> list[tuple[np.ndarray, Evaluation]]:
        """True values of the hard problem at the last iterate and at the average."""
        points = [(self.weights, self.messages)]
        if self._mean is not None:
            points.append(self._mean)
        return [
            (weights, Evaluation(self.problem.primal(weights, messages), 0.0, 0.0))
            for weights, messages in points
        ]
