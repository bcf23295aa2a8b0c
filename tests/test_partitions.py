"""Partitions of the examples: the same certificate, whatever happens to them."""

from __future__ import annotations

import copy

import cvxpy as cp
import numpy as np
import pytest

from maxmargin import (
    LBFGS,
    Accelerated,
    Averaged,
    BlockFrankWolfe,
    Checked,
    Interior,
    MulticlassClassifier,
    MultiLabelClassifier,
    Partitioned,
    SequenceLabeler,
    SoftAgreement,
    TreeParser,
    VertexFrankWolfe,
    load,
    save,
)
from maxmargin.checkpoint import Recorder, read_checkpoint, write_checkpoint
from maxmargin.solvers.acceleration import _larger_damping
from maxmargin.solvers.auto import make_solver
from maxmargin.solvers.partitions import PartitionedAscent, PartitionedGradients
from maxmargin.solvers.parts import Lost, Threads

RNG = np.random.RandomState(0)
X = RNG.randn(40, 4)
Y = (X[:, 0] + 0.5 * RNG.randn(40) > 0).astype(int) + (X[:, 1] > 0.5)
WORDS = [RNG.randn(length, 3) for length in RNG.randint(1, 5, 16)]
TAGS = [(x[:, 0] > 0).astype(int) + (x[:, 1] > 0.7) for x in WORDS]
LABELS = np.c_[Y > 0, Y > 1, X[:, 2] > 0].astype(int)
ALPHA = 0.05


def flat(surrogate="max-margin", **params):
    return MulticlassClassifier(surrogate, **{"alpha": ALPHA, "random_state": 0, **params})


def chains(surrogate="max-margin", **params):
    return SequenceLabeler(surrogate, **{"alpha": ALPHA, "random_state": 0, **params})


def graphs(surrogate="max-margin", **params):
    params = {"alpha": ALPHA, "random_state": 0, "edges": "full", **params}
    return MultiLabelClassifier(surrogate, **params)


KINDS = [(flat, X, Y), (chains, WORDS, TAGS), (graphs, X, LABELS)]


def on(engine, model, X, y, n_partitions):
    """Fit on an engine."""
    model._engine, model._n_partitions = engine, n_partitions
    try:
        return model.fit(X, y)
    finally:
        del model._engine, model._n_partitions


def bits(model):
    weights = getattr(model, "weights_", model.coef_)
    return weights.tobytes(), model.primal_, model.dual_, model.n_oracle_calls_


def optimum():
    """Minimum of the multiclass objective, by a general convex solver."""
    rows = np.c_[X, np.ones(len(X))]
    W = cp.Variable((rows.shape[1], 3))
    scores = rows @ W
    true = np.eye(3)[Y]
    hinge = cp.max(scores + (1 - true), axis=1) - cp.sum(cp.multiply(scores, true), axis=1)
    problem = cp.Problem(cp.Minimize(ALPHA / 2 * cp.sum_squares(W) + cp.sum(hinge) / len(X)))
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min", "crf"])
@pytest.mark.parametrize(("make", "X", "y"), KINDS[:2])
def test_one_partition_is_the_plain_solver_bit_for_bit(make, X, y, surrogate):
    plain = make(surrogate, tol=1e-2).fit(X, y)
    assert bits(make(surrogate, tol=1e-2, solver=Partitioned("auto", 1)).fit(X, y)) == bits(plain)
    if surrogate == "crf":  # in one thread "auto" may take block steps
        plain = make(surrogate, tol=1e-2, solver="lbfgs").fit(X, y)
    assert bits(on(Threads(1), make(surrogate, tol=1e-2), X, y, 1)) == bits(plain)


@pytest.mark.parametrize("n_partitions", [1, 2, 5])
def test_the_certificate_brackets_the_true_optimum(n_partitions):
    best = optimum()
    model = flat(tol=1e-4, solver=Partitioned("auto", n_partitions)).fit(X, Y)
    assert model.status_ == "converged"
    assert model.dual_ <= best + 1e-7 and best <= model.primal_ + 1e-7
    assert model.gap_ <= 1e-4 * model.primal_


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
@pytest.mark.parametrize(("make", "X", "y"), KINDS[1:])
def test_certificates_of_partitions_and_of_the_whole_agree(make, X, y, surrogate):
    whole = make(surrogate, tol=1e-3).fit(X, y)
    parts = make(surrogate, tol=1e-2, solver=Partitioned("auto", 3)).fit(X, y)
    assert parts.status_ == "converged"
    assert parts.dual_ <= whole.primal_ + 1e-12 and whole.dual_ <= parts.primal_ + 1e-12


@pytest.mark.parametrize(("make", "X", "y"), KINDS)
def test_the_number_of_threads_changes_no_bit(make, X, y):
    solver = Partitioned("auto", 3)
    found = [bits(make(solver=solver, n_jobs=n, tol=0.02).fit(X, y)) for n in (None, 1, 2, 3)]
    assert len(set(found)) == 1


def test_gradients_are_summed():
    whole = flat("crf", tol=1e-6).fit(X, Y)
    parts = flat("crf", tol=1e-6, solver=Partitioned(LBFGS(), 3)).fit(X, Y)
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-9)


def test_local_passes_keep_the_certificate():
    best = optimum()
    model = flat(tol=1e-3, solver=Partitioned("auto", 2, local_passes=3)).fit(X, Y)
    assert model.dual_ <= best + 1e-7 and best <= model.primal_ + 1e-7


# --- lost partitions ---------------------------------------------------------------------------


class Losing(Threads):
    """Threads that lose a partition at one of the calls of a name."""

    fallible = True

    def __init__(self, name, number, part=1):
        super().__init__(1)
        self.name, self.number, self.part = name, number, part
        self.met = 0

    def call(self, ks, name, share, each):
        # Nothing is shared with a worker, so neither with a part.
        answers = super().call(ks, name, share, copy.deepcopy(each))
        if name == self.name and self.part in ks:
            self.met += 1
            if self.met == self.number:
                self._parts[self.part] = None
                answers[ks.index(self.part)] = Lost("test")
        return answers


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(
    ("name", "number"),
    [("start", 1), ("started", 1), ("round", 1), ("round", 6), ("evaluate", 1), ("evaluate", 4),
     ("concave", 1), ("concave", 3), ("weights_of", 1), ("give", 1), ("default_inertia", 1)],
)  # fmt: skip
def test_a_lost_partition_leaves_the_certificate_true(name, number, saved, tmp_path):
    best, engine = optimum(), Losing(name, number)
    model = flat(tol=1e-3)
    if saved:
        model._recorder = Recorder(lambda state: None, 0.0)
    on(engine, model, X, Y, 2)
    assert engine.met >= number or not saved
    assert model.status_ == "converged"
    for check in model.history_:
        assert check.dual <= best + 1e-9 and best <= check.primal + 1e-9


def test_a_lost_partition_of_graphs_and_chains():
    for make, inputs, outputs in KINDS[1:]:
        whole = make(tol=1e-3).fit(inputs, outputs)
        for name in ("round", "evaluate", "dual_point"):
            model = on(Losing(name, 3), make(tol=1e-2), inputs, outputs, 2)
            assert model.status_ == "converged"
            for check in model.history_:
                assert check.dual <= whole.primal_ + 1e-9 and whole.dual_ <= check.primal + 1e-9


class AlwaysLosing(Losing):
    """Loses a partition whenever it meets one example."""

    def call(self, ks, name, share, each):
        if name == "probe" and each[0][0] <= 7 < each[0][1]:
            return [Lost("test")]
        if name == "round" and self.part in ks:
            return [Lost("test") if k == self.part else None for k in ks]
        return Threads.call(self, ks, name, share, each)


def test_an_example_that_ends_workers_is_named():
    with pytest.raises(RuntimeError, match="partition 1 .* example 7 "):
        on(AlwaysLosing("round", 1), flat(), X, Y, 2)


# --- states ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "X", "y"), KINDS)
def test_a_checkpoint_continues_bit_for_bit(make, X, y, tmp_path):
    path, solver = tmp_path / "run", Partitioned("auto", 2)
    whole = make(solver=solver, tol=1e-2).fit(X, y)

    def stop(check):
        return check.passes < 4

    states = 0

    def write(state):
        nonlocal states
        states += 1
        if state.solver.calls <= 3 * len(y):
            write_checkpoint(path, {}, state)

    first = make(solver=solver, tol=1e-2, callbacks=stop)
    first._recorder = Recorder(write, 0.0)
    first.fit(X, y)
    assert states
    second = make(solver=solver, tol=1e-2, n_jobs=2)
    second._recorder = Recorder(lambda state: None, 1e9, read_checkpoint(path)[1])
    assert bits(second.fit(X, y)) == bits(whole)


def test_a_checkpoint_of_another_number_of_partitions_is_refused(tmp_path):
    model = flat(solver=Partitioned("auto", 2))
    model._recorder = Recorder(lambda state: write_checkpoint(tmp_path / "run", {}, state), 0.0)
    model.fit(X, Y)
    other = flat(solver=Partitioned("auto", 3))
    other._recorder = Recorder(lambda state: None, 1e9, read_checkpoint(tmp_path / "run")[1])
    with pytest.raises(ValueError, match="another number of parts"):
        other.fit(X, Y)


def test_a_warm_start_also_from_a_file(tmp_path):
    model = flat(solver=Partitioned("auto", 2), warm_start=True, tol=1e-4).fit(X, Y)
    first = model.n_oracle_calls_
    save(model, tmp_path / "model", dual=True)
    assert load(tmp_path / "model").fit(X, Y).n_oracle_calls_ < first / 2


# --- what goes together ------------------------------------------------------------------------


def test_partitions_go_within_all_wrappers():
    problem = problem_of(flat())
    found = make_solver(Partitioned("auto", 2), problem)
    assert isinstance(found, Averaged) and isinstance(found.solver, Accelerated)
    assert isinstance(found.solver.solver, PartitionedAscent)
    found = make_solver(Averaged(Partitioned(BlockFrankWolfe(), 2), 2.0), problem)
    assert type(found.solver) is PartitionedAscent and found.power == 2.0
    found = make_solver(Partitioned(BlockFrankWolfe(step_average=3.0), 2), problem)
    assert type(found) is Averaged and found.power == 3.0
    assert type(make_solver(Partitioned(LBFGS(), 2), problem)) is PartitionedGradients
    model = flat(solver=Checked(Partitioned("auto", 2), 5)).fit(X, Y)
    assert 5 <= model.history_[1].passes < 6  # a round is one step


def problem_of(model):
    class Handed(Exception):
        pass

    def hand_over(problem):
        raise Handed(problem)

    model._hand_over = hand_over
    with pytest.raises(Handed) as found:
        model.fit(X, Y)
    return found.value.args[0]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (flat(solver=Partitioned("auto", 41)), "n_partitions=41 is more than .* examples .*40"),
        (flat(solver=Partitioned("auto", 0)), "n_partitions"),
        (flat(solver=Partitioned("auto", 2, local_passes=0)), "local_passes"),
        (flat(solver=Partitioned(Interior(), 2)), "rankings or matchings"),
        (flat(solver=Partitioned("auto", 2), kernel="rbf"), "kernel='linear', or n_partitions=1"),
    ],
)
def test_what_does_not_go_together_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


def test_trees_of_order_two_have_no_parts():
    words, heads = [[("a", "N"), ("b", "V")]] * 2, [[2, 0]] * 2
    for params, n_partitions in (({"solver": Partitioned("auto", 2)}, None), ({}, 2)):
        model = TreeParser(order=2, **params)
        with pytest.raises(ValueError, match="order=2 does not train in partitions; use order=1"):
            on(Threads() if n_partitions else None, model, words, heads, n_partitions)


def test_hidden_labels_of_a_crf_have_no_parts():
    hidden = [[None, *tags[1:].tolist()] for tags in TAGS]
    with pytest.raises(ValueError, match=r"complete labels \(n_partitions=1\)"):
        chains("crf", solver=Partitioned("auto", 2)).fit(WORDS, hidden)


def test_soft_penalties_have_no_parts():
    with pytest.raises(ValueError, match="agreement='multipliers'"):
        graphs(solver=Partitioned(SoftAgreement(agreement="soft"), 2)).fit(X, LABELS)


def test_steps_towards_vertices_have_no_parts():
    """They are refused by name; what is chosen for several parts has the same optimum."""
    one_weight = {"interactions": "both-on", "tol": 0.01, "max_iter": 2000}
    with pytest.raises(ValueError, match="SoftAgreement, which can train in parts"):
        graphs(solver=Partitioned(VertexFrankWolfe(), 2), **one_weight).fit(X, LABELS)
    whole = graphs(solver=Accelerated(VertexFrankWolfe()), **one_weight).fit(X, LABELS)
    parts = graphs(solver=Partitioned("auto", 2), **one_weight).fit(X, LABELS)
    assert whole.status_ == parts.status_ == "converged"
    assert parts.dual_ <= whole.primal_ and whole.dual_ <= parts.primal_


@pytest.mark.parametrize(
    ("excess", "factor"), [(-1.0, 0.4), (0.0, 0.4), (0.125, 0.65), (0.25, 0.9), (1.0, 0.9)]
)
def test_momentum_grows_while_the_weights_keep_their_direction(excess, factor):
    """From the factor of the solver to the largest of parts; one part has that of the solver."""
    inner = BlockFrankWolfe()
    parts, alone = PartitionedAscent(inner, 8).momentum, PartitionedAscent(inner, 1).momentum
    assert alone == inner.momentum
    assert _larger_damping(parts, excess) == pytest.approx(factor, rel=1e-12)
    assert _larger_damping(alone, excess) == inner.momentum.damping


def test_averages_of_parts_by_default():
    """Those of parts have another power; a power that is given stays."""
    problem = problem_of(flat())
    assert make_solver(Partitioned("auto", 4), problem).power == 3.0
    assert make_solver(Partitioned("auto", 1), problem).power == 8.0
    given = Partitioned(Averaged("accelerated", power=5.0), 4)
    assert make_solver(given, problem).power == 5.0
