"""Runs that are killed and go on from the state in a file: the same bits, for every solver."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from graph_models import small_problem
from latent_models import LEARNABLE, examples
from maxmargin import (
    LBFGS,
    Accelerated,
    Averaged,
    BlockFrankWolfe,
    Flow,
    Latent,
    SequenceLabeler,
    SharedPairs,
    SoftAgreement,
    Subgradient,
)
from maxmargin.checkpoint import Recorder, read_checkpoint, write_checkpoint
from maxmargin.latent.objective import DrawnProblem, ExplainedProblem
from maxmargin.latent.problem import SLACK, Random
from maxmargin.latent.solvers import LatentSubgradient, WorkingSetAscent
from maxmargin.solvers.climb import Climb
from maxmargin.solvers.loop import run
from test_interpreted import make_problems, packed_problem, sequences_data


class Killed(BaseException):
    """In the place of a signal."""


def sequences():
    return make_problems("sequences")[0]


def likelihood():
    return packed_problem(SequenceLabeler("crf", alpha=0.1, solver="lbfgs"), *sequences_data())


def interpreted():
    return make_problems("sequences")[1]


def graphs():
    return small_problem("pairs")


def latent():
    X, y = examples("learnable", 12)
    return Latent(LEARNABLE, SharedPairs()).pack(X, y)


def explained():
    return ExplainedProblem(latent(), 0.05, np.ones(12), SLACK)


def drawn():
    def draw(weights, rng):
        return Random(2, int(rng.randint(2**31)))

    return DrawnProblem(latent(), 0.05, np.ones(12), False, draw)


CASES = {
    "plain": (sequences, BlockFrankWolfe()),
    "plain, averaged over steps": (sequences, BlockFrankWolfe(order="active", step_average=3.0)),
    "pairwise by gap": (sequences, BlockFrankWolfe(order="gap", steps="pairwise")),
    "accelerated": (sequences, Averaged(Accelerated(BlockFrankWolfe(steps="pairwise")))),
    "flow": (sequences, Averaged(Accelerated(Flow()))),
    "subgradient": (sequences, Subgradient()),
    "L-BFGS": (likelihood, LBFGS()),
    "interpreted": (interpreted, Accelerated(BlockFrankWolfe(order="uniform"))),
    "graphs": (graphs, Accelerated(SoftAgreement())),
    "graphs, soft": (graphs, SoftAgreement(agreement="soft", rho=1.0)),
    "working set": (explained, WorkingSetAscent()),
    "working set, averaged": (explained, Averaged(WorkingSetAscent(capacity=2))),
    "random structures": (drawn, WorkingSetAscent(passes=3)),
    "random structures by subgradients": (drawn, LatentSubgradient()),
}


def run_recorded(name, recorder=None, **options):
    make, solver = CASES[name]
    stepper = Climb(solver, make(), rng=np.random.RandomState(0))
    callbacks = ()
    if recorder is not None:
        recorder.attach(stepper)
        stepper, callbacks = recorder, (recorder.hear,)
    options = {"tol": 1e-9, "max_iter": 14} | options
    result = run(stepper, callbacks=callbacks, **options)
    if recorder is not None:
        result.history[:] = recorder.history
    return result


def numbers(result):
    """Everything about a run that a clock does not change."""
    found = dataclasses.asdict(result)
    found["history"] = [check._replace(seconds=0.0) for check in result.history]
    del found["seconds"], found["dual_state"]
    return found | {"weights": result.weights.tobytes()}


@pytest.mark.parametrize("options", [{}, {"check_every": 3}, {"validation": True}], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_a_killed_run_ends_with_the_same_bits(name, options, tmp_path):
    if options.get("validation"):
        direction = np.random.RandomState(1).randn(CASES[name][0]().n_weights)
        # Patience beyond the last kill: when scores stop to rise depends on the processor.
        options = {"validate": lambda weights: float(np.sin(direction @ weights)), "patience": 10}
    whole = run_recorded(name, **options)
    state = None
    for number in (1, 3, 4):
        left = [number]

        def write(state, left=left):
            left[0] -= 1
            if not left[0]:
                write_checkpoint(tmp_path / "c", {}, state)
                raise Killed

        with pytest.raises(Killed):
            run_recorded(name, Recorder(write, 0.0, state), **options)
        state = read_checkpoint(tmp_path / "c")[1]
    resumed = run_recorded(name, Recorder(lambda state: None, np.inf, state), **options)
    np.testing.assert_equal(numbers(resumed), numbers(whole))
