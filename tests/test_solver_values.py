"""Solvers as values: parameters that can be searched, saved and printed; wrappers that add nothing
where they should not; states that are all a solver knows."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import steppers
from marks import more, split
from maxmargin import (
    LBFGS,
    Accelerated,
    Averaged,
    BlockFrankWolfe,
    Flow,
    Hidden,
    MulticlassClassifier,
    MultiLabelClassifier,
    SequenceLabeler,
    SoftAgreement,
    Subgradient,
    load,
    save,
)
from maxmargin.solvers.loop import run
from test_interpreted import make_problems

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(40, 3)
Y = (X @ RANDOM.randn(3, 3) + RANDOM.randn(40, 3)).argmax(axis=1)
SEQUENCES, LABELS = np.split(X, [3, 10, 11, 30]), np.split(Y, [3, 10, 11, 30])
SOLVERS = {
    "plain": BlockFrankWolfe(),
    "pairwise": BlockFrankWolfe(steps="pairwise"),
    "accelerated": Averaged(Accelerated(BlockFrankWolfe(steps="pairwise"))),
    "accelerated, by gap": Accelerated(BlockFrankWolfe(order="gap")),
    "flow": Averaged(Accelerated(Flow())),
    "subgradient": Subgradient(),
}


def labeler(solver, **settings):
    return SequenceLabeler(**{"alpha": 0.05, "random_state": 0, "solver": solver, **settings})


@functools.cache
def reference_fit():
    return labeler("pairwise", tol=1e-6, max_iter=20_000).fit(SEQUENCES, LABELS)


@pytest.mark.parametrize("name", split(SOLVERS, {"flow"}))
def test_every_solver_has_the_same_optimum_and_a_true_certificate(name):
    reference = reference_fit()
    tol = 1e-3 if name in ("accelerated", "flow") else 0.05
    model = labeler(SOLVERS[name], tol=tol, max_iter=5000).fit(SEQUENCES, LABELS)
    assert model.status_ == "converged"
    assert model.dual_ <= reference.primal_ and model.primal_ >= reference.dual_
    assert model.primal_ - reference.dual_ <= 1.001 * tol * model.primal_


def test_parameters_are_found_copied_printed_and_saved(tmp_path):
    solver = Averaged(Accelerated(BlockFrankWolfe(steps="pairwise"), inertia=2.0), power=4.0)
    model = labeler(solver)
    assert model.get_params()["solver__solver__solver__steps"] == "pairwise"
    assert repr(clone(model).solver) == repr(solver)
    assert "inertia=2.0" in repr(model)
    model.fit(SEQUENCES, LABELS)
    save(model, tmp_path / "model.mm")
    loaded = load(tmp_path / "model.mm")
    assert repr(loaded.solver) == repr(solver)
    for one, other in zip(loaded.predict(SEQUENCES), model.predict(SEQUENCES), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_search_over_the_parameters_of_a_solver():
    model = MulticlassClassifier(solver=Averaged(BlockFrankWolfe()), random_state=0)
    search = GridSearchCV(model, {"solver__solver__order": ["permutation", "active"]}, cv=2)
    assert search.fit(X, Y).best_params_["solver__solver__order"] in ("permutation", "active")


@pytest.mark.parametrize(
    "make, solver, needs",
    [
        (lambda s: labeler(s, surrogate="max-min"), BlockFrankWolfe(), "max-min oracle"),
        (lambda s: labeler(s), LBFGS(), "smooth surrogate"),
        (lambda s: labeler(s), Accelerated(SoftAgreement()), "a factor graph"),
        (lambda s: labeler(s, surrogate="crf"), Flow(), "label sequences|a loss"),
        (lambda s: labeler(s), Accelerated(Subgradient()), "visits blocks"),
        (lambda s: labeler(s), Accelerated(Averaged(BlockFrankWolfe())), "visits blocks"),
        (lambda s: labeler(s), Averaged(Subgradient()), "another solver to average"),
        (lambda s: labeler(s, surrogate="max-min"), Subgradient(), "max-min oracle"),
        (
            lambda s: labeler(s, kernel="rbf"),
            Accelerated(BlockFrankWolfe(), inertia=1.0),
            "weights of features",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_by_what_is_missing(make, solver, needs):
    with pytest.raises(ValueError, match=f"does not go with this SequenceLabeler: .*({needs})"):
        make(solver).fit(SEQUENCES, LABELS)


@pytest.mark.parametrize(
    "solver",
    [BlockFrankWolfe(), Subgradient(), Flow(), LBFGS(), Averaged(BlockFrankWolfe())],
    ids=lambda solver: type(solver).__name__,
)
def test_graphs_refuse_what_knows_no_graphs(solver):
    model = MultiLabelClassifier(edges="full", solver=solver)
    with pytest.raises(ValueError, match="does not go with this MultiLabelClassifier"):
        model.fit(X, RANDOM.randint(0, 2, (40, 3)))


@pytest.mark.parametrize(
    "solver, message",
    [
        (BlockFrankWolfe(order="gaps"), "order must be one of"),
        (BlockFrankWolfe(steps="pair"), "steps must be one of"),
        (Accelerated(BlockFrankWolfe(), inertia=-1.0), "inertia must be a finite number >= 0"),
        (Accelerated(BlockFrankWolfe(), inertia="none"), "inertia must be one of 'auto'"),
        (Averaged(BlockFrankWolfe(), power=100.0), "power must be at most 50"),
        (Accelerated(SoftAgreement(agreement="hard")), "agreement must be one of"),
        (Accelerated(SoftAgreement(rho=0.0)), "rho must be a finite number > 0"),
    ],
)
def test_parameters_of_solvers_are_checked(solver, message):
    soft = isinstance(getattr(solver, "solver", None), SoftAgreement)
    model = MultiLabelClassifier(edges="full") if soft else MulticlassClassifier()
    y = RANDOM.randint(0, 2, (40, 3)) if soft else Y
    with pytest.raises(ValueError, match=message):
        model.set_params(solver=solver).fit(X, y)


@pytest.mark.more
def test_a_refit_with_another_solver_starts_afresh():
    model = MulticlassClassifier("crf", solver="lbfgs", warm_start=True, random_state=0).fit(X, Y)
    for settings in (
        {"surrogate": "max-margin", "solver": "auto"},
        {"solver": "pairwise"},
        {"solver": "bcfw"},
        {"surrogate": "crf", "solver": "lbfgs"},
    ):
        assert model.set_params(**settings).fit(X, Y).status_ == "converged"
    assert model.fit(X[:, :2], Y).status_ == "converged"  # weights of other features


def test_starts_of_hidden_labels_do_not_share_a_dual_state():
    """Solvers work on a dual state in place, and pools of it are moved when they grow."""
    hidden = [list(labels) for labels in LABELS]
    hidden[1][2] = hidden[3][5] = hidden[3][6] = None
    model = SequenceLabeler(
        alpha=0.05, hidden=Hidden(starts=3), warm_start=True, solver="pairwise", random_state=0
    )
    model.fit(SEQUENCES, hidden)
    first = model.objective_
    for _ in range(3):
        model.fit(SEQUENCES, hidden)
        assert np.isfinite(model.dual_) and model.dual_ <= model.primal_
    assert model.objective_ <= first * 1.01


@pytest.mark.parametrize(
    "solver", [BlockFrankWolfe(), BlockFrankWolfe(steps="pairwise"), Flow()], ids=repr
)
def test_without_inertia_acceleration_is_the_solver_itself(solver):
    plain, accelerated = (
        labeler(each, tol=0.0, max_iter=20).fit(SEQUENCES, LABELS)
        for each in (solver, Accelerated(solver, inertia=0.0))
    )
    assert plain.coef_.tobytes() == accelerated.coef_.tobytes()
    assert (plain.primal_, plain.dual_) == (accelerated.primal_, accelerated.dual_)


def test_soft_agreement_without_inertia_too():
    labels = RANDOM.randint(0, 2, (40, 3))
    one, other = (
        MultiLabelClassifier(
            alpha=0.05, random_state=0, tol=0.0, max_iter=10, edges="full", solver=solver
        ).fit(X, labels)
        for solver in (SoftAgreement(), Accelerated(SoftAgreement(), inertia=0.0))
    )
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert (one.primal_, one.dual_) == (other.primal_, other.dual_)


@pytest.mark.parametrize("inertia", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("kind", ["rows", more("sequences")])
def test_accelerated_values_hold_at_every_check(kind, inertia):
    """The dual of mixtures never passes the optimum, and weights are those of the dual point."""
    problem, plain = make_problems(kind)
    best = run(steppers.pairwise(problem, rng=np.random.RandomState(1)), tol=1e-9, max_iter=50_000)
    for each in (problem, plain):
        solver = Averaged(Accelerated(BlockFrankWolfe(), inertia=inertia))
        stepper = steppers.Stepper(solver, each, rng=np.random.RandomState(0))
        for check in range(60):
            for _, found in stepper.check():
                assert found.dual <= best.primal + 1e-9
                assert found.primal >= best.dual - 1e-9
            bare = stepper.problem.weights_of(stepper.dual_state)
            np.testing.assert_allclose(stepper.dual_weights(), bare, atol=1e-8)
            stepper.advance(1.0, 1 if check % 3 else 1000)
        assert found.primal - found.dual < 0.5 * best.primal


def test_the_state_is_all_that_a_solver_knows():
    """From a copy of the state another process would take the same steps."""
    import copy

    problem, _ = make_problems("sequences")
    solver = Averaged(Accelerated(BlockFrankWolfe(steps="pairwise")))
    first = steppers.Stepper(solver, problem, rng=np.random.RandomState(0))
    for _ in range(25):
        first.advance(1.0, 3)
    second = steppers.Stepper(clone(solver), problem, rng=np.random.RandomState(5))
    second.state = copy.deepcopy(first.state)
    for _ in range(25):
        for stepper in (first, second):
            stepper.advance(1.0, 2)
            stepper.check()
    assert first.weights.tobytes() == second.weights.tobytes()
    assert first.check()[0][1] == second.check()[0][1]
