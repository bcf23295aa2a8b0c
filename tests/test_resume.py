"""Runs that are killed and go on from the state in a file: the same bits, for every solver."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import test_hidden_graphs as hidden_graphs
import test_hidden_labels as hidden_labels
import test_vertices as vertices
from graph_models import small_problem
from latent_models import LEARNABLE, examples
from marks import split
from maxmargin import (
    LBFGS,
    Accelerated,
    Averaged,
    BlockFrankWolfe,
    EarlyStopping,
    Flow,
    Hidden,
    Latent,
    ModelFileError,
    SequenceLabeler,
    SharedPairs,
    SoftAgreement,
    Subgradient,
    VertexFrankWolfe,
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
    "vertices": (vertices.make, VertexFrankWolfe()),
    "vertices, accelerated": (vertices.make, Accelerated(VertexFrankWolfe())),
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
@pytest.mark.parametrize("name", split(CASES, {"flow"}))
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


# --- rounds of fits with hidden labels --------------------------------------------------------


HIDDEN_FITS = {
    "sequences, two starts": lambda: hidden_labels.labeler(hidden=Hidden(2)),
    "sequences, max-min": lambda: hidden_labels.labeler("max-min"),
    "sequences by gap, averaged steps": lambda: hidden_labels.labeler(
        solver=BlockFrankWolfe(order="gap", step_average=3.0), hidden=Hidden(2), tol=0.01
    ),
    "sequences, early stopping": lambda: hidden_labels.labeler(
        early_stopping=EarlyStopping(0.3, 50)
    ),
    "sequences, likelihood": lambda: hidden_labels.labeler("crf"),
    "graphs, two starts": lambda: hidden_graphs.labeler(hidden=Hidden(2)),
}
MORE_FITS = {*HIDDEN_FITS} - {"sequences, two starts", "sequences, likelihood"}


def fit_hidden(name, recorder=None):
    """A fitted model, and what a clock does not change of it."""
    model = HIDDEN_FITS[name]()
    if recorder is not None:
        model._recorder = recorder
    data = hidden_graphs if name.startswith("graphs") else hidden_labels
    model.fit(data.X, data.MARKED if data is hidden_graphs else data.HIDDEN)
    found = {key: value for key, value in vars(model).items() if key.endswith("_")}
    for kind in ("history_", "rounds_"):
        found[kind] = [check._replace(seconds=0.0) for check in found[kind]]
    return found | {"coef_": model.coef_.tobytes(), "layout_": None}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", split(HIDDEN_FITS, MORE_FITS))
def test_a_killed_fit_with_hidden_labels_ends_with_the_same_bits(name, tmp_path):
    whole = fit_hidden(name)
    states = []
    fit_hidden(name, Recorder(states.append, 0.0))
    n_writes = len(states)
    assert n_writes > 6
    for kills in ([1, n_writes // 3, n_writes // 2], [n_writes - 1]):
        state = None
        for number in kills:
            left = [number]

            def write(state, left=left):
                left[0] -= 1
                if not left[0]:
                    write_checkpoint(tmp_path / "c", {}, state)
                    raise Killed

            with pytest.raises(Killed):
                fit_hidden(name, Recorder(write, 0.0, state))
            state = read_checkpoint(tmp_path / "c")[1]
        resumed = fit_hidden(name, Recorder(lambda state: None, np.inf, state))
        np.testing.assert_equal(resumed, whole)
    if "likelihood" not in name:
        assert state.solved


def spoil_weights(solved):
    return solved._replace(weights=solved.weights[:-1])


SPOILT = {
    "the weights of a round must have": spoil_weights,
    "primal must be a number": lambda solved: solved._replace(primal=np.nan),
    "a round has the gap": lambda solved: solved._replace(dual=2.0 * solved.primal + 1.0),
    "oracle_calls must be a count": lambda solved: solved._replace(oracle_calls=-1),
    "a round ended as": lambda solved: solved._replace(status="interrupted"),
    "no random numbers": lambda solved: solved._replace(rng=None),
    "a round must be a Solved": lambda solved: tuple(solved),
}


@pytest.mark.parametrize("message", SPOILT)
def test_rounds_that_do_not_fit_are_refused(message):
    states = []
    fit_hidden("sequences, max-min", Recorder(states.append, 0.0))
    state = states[-1]
    state = state._replace(solved=[SPOILT[message](state.solved[0]), *state.solved[1:]])
    with pytest.raises(ModelFileError, match=message):
        fit_hidden("sequences, max-min", Recorder(lambda state: None, np.inf, state))


def test_a_state_of_other_rounds_is_refused():
    states = []
    fit_hidden("sequences, max-min", Recorder(states.append, 0.0))
    state = next(state for state in states if state.solved)
    with pytest.raises(ModelFileError, match="it has 1 rounds; expected 0"):
        run_recorded("plain", Recorder(lambda state: None, np.inf, state))
