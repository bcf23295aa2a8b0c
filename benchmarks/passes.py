"""One pass of the plain solvers, without acceleration: CPU time per visit of an example.

Handwritten words (6251) for block Frank-Wolfe and flows, label sets (yeast, 1500 examples, all
pairs of 14 labels) for soft agreement. The passes 2 to 6 count, and the fastest of all runs is the
number to compare between versions: it depends least on what else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin import HammingLoss, SequenceLabeler
from maxmargin.graphs.soft import SoftAgreement
from maxmargin.solvers.base import Solver
from maxmargin.solvers.climb import Climb
from maxmargin.solvers.flow import Flow
from maxmargin.solvers.frank_wolfe import BlockFrankWolfe

from .data import words
from .graph_data import TASKS
from .harness import Line, Sample
from .problems import problem_of


def pass_seconds(stepper: Any) -> float:
    """CPU time of one whole pass."""
    goal = stepper.oracle_calls + stepper.problem.n_examples
    began = time.process_time()
    while stepper.oracle_calls < goal:
        stepper.advance(1e9, goal - stepper.oracle_calls)
    return time.process_time() - began


def passes(make: Callable[[int], Any], repeats: int) -> Sample:
    """Times of the passes 2 to 6, in microseconds per visit."""
    found = []
    for seed in range(repeats):
        stepper = make(seed)
        found += [pass_seconds(stepper) for _ in range(6)][1:]
    return Sample(found).scaled(1e6 / stepper.problem.n_examples)


def run(repeats: int) -> list[Line]:
    """Passes of block Frank-Wolfe, flows and soft agreement."""
    train = words("train")
    model = SequenceLabeler(alpha=1.0 / len(train.X), loss=HammingLoss(normalize=True))
    sequences = problem_of(model, train.X, train.y)
    labels = TASKS["yeast"]().problem
    cases: list[tuple[str, Any, Solver]] = [
        ("OCR letters, block Frank-Wolfe", sequences, BlockFrankWolfe()),
        ("OCR letters, flow", sequences, Flow()),
        ("yeast, soft agreement", labels, SoftAgreement(average=None)),
    ]
    lines = []
    for what, problem, solver in cases:
        problem = solver.adapted(problem)

        def make(seed, solver=solver, problem=problem):
            return Climb(solver, problem, rng=np.random.RandomState(seed))

        sample = passes(make, repeats)
        note = f"fastest pass {min(sample.runs):.3g} µs per visit"
        lines.append(Line("passes", what, "µs", sample, note=note))
    return lines
