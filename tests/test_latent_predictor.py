"""The estimator of latent variables: interface, files, promises, and errors that name the place."""

from __future__ import annotations

import math
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import maxmargin
from latent_models import LEARNABLE, SPACES, NoLatent, OwnPairs, examples, loss
from maxmargin import (
    DAG,
    LBFGS,
    AffineMap,
    AnyPairs,
    Arborescence,
    Averaged,
    BlockFrankWolfe,
    HiddenStates,
    LabelSequence,
    Latent,
    LatentPredictor,
    Permutation,
    SharedPairs,
    Subset,
    certificates,
)
from maxmargin.latent.objective import ExplainedProblem
from maxmargin.latent.problem import MARGIN, SLACK
from maxmargin.latent.solvers import LatentSubgradient, WorkingSetAscent

TREES = Latent(SPACES["trees"], SharedPairs(), superset=AnyPairs())
SETS = Latent(LEARNABLE, SharedPairs(), superset=AnyPairs())
X, Y = examples("trees", 12)
_, Z = examples("learnable", 12)  # the same bits: 6 elements both times


@pytest.fixture(scope="module")
def of_trees():
    return LatentPredictor(TREES, "all", alpha=0.05, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def fitted():
    return LatentPredictor(SETS, "all", alpha=0.05, random_state=0).fit(X, Z)


def test_outputs_are_not_all_alike():
    assert len({tuple(y) for y in Y}) >= 3 and len({tuple(z) for z in Z}) >= 3


# --- interface -----------------------------------------------------------------------------------


@pytest.mark.parametrize("trainer", ["random", "all", "lssvm"])
def test_same_seed_same_model_and_clone(trainer):
    model = LatentPredictor(SETS, trainer, alpha=0.05, random_state=3).fit(X, Z)
    again = clone(model).fit(X.tolist(), [np.array(z).tolist() for z in Z])
    assert np.array_equal(again.coef_, model.coef_) and again.objective_ == model.objective_
    assert model.score(X, Z) > 0.8
    assert model.n_iter_ >= 1 and model.n_searches_ >= len(X) and len(model.history_) >= 2
    assert model.get_params()["latent__structure__size"] == 4
    assert model.alpha_ == 0.05 and LatentPredictor(SETS).fit(X, Z).alpha_ == 2 / 12


FITTED = (
    "alpha_", "primal_", "dual_", "gap_", "oracle_error_", "certificate_", "status_", "n_iter_",
    "history_",
)  # fmt: skip


@pytest.mark.parametrize(
    ("trainer", "settings"),
    [("all", {}), ("all", {"search": "listed"}), ("lssvm", {}), ("lssvm", {"n_restarts": 2}),
     ("random", {}), ("random", {"solver": "subgradient", "n_iter": 3})],
)  # fmt: skip
def test_fitted_attributes_of_every_trainer(trainer, settings, tmp_path):
    model = LatentPredictor(SETS, trainer, alpha=0.05, random_state=0, **settings).fit(X, Z)
    assert all(hasattr(model, name) for name in FITTED)
    last = model.history_[-1]
    if trainer == "random":
        assert model.primal_ == model.objective_
        assert math.isnan(model.dual_) and math.isnan(model.gap_) and last.gap == math.inf
        assert math.isnan(model.oracle_error_) and "NaN" in model.certificate_
        with pytest.raises(ValueError, match="no certificate: dual_ and gap_ are NaN"):
            certificates.summary(model)
    else:
        # Of one convex problem, which is nowhere below the objective.
        assert model.gap_ == model.primal_ - model.dual_ == last.gap
        assert model.objective_ <= model.primal_ + 1e-12 and model.gap_ >= -1e-12
        assert model.oracle_error_ == 0.0 and "last convex problem" in model.certificate_
        found = certificates.summary(model)
        assert found.local and found.gap == max(model.gap_, 0.0)
    path = tmp_path / "model.mm"
    maxmargin.save(model, path)
    again = maxmargin.load(path)
    for name in FITTED[1:-1]:
        np.testing.assert_equal(getattr(again, name), getattr(model, name))
    model.set_params(trainer="random", solver="cccp").fit(X, Z)
    assert math.isnan(model.gap_) and "NaN" in model.certificate_  # nothing of the fit before


@pytest.mark.parametrize("trainer", ["all", "lssvm"])
def test_certificate_is_that_of_a_convex_problem(trainer):
    """With the latent variables known there is one convex problem: no weights are below dual_."""
    model = LatentPredictor(SETS, trainer, alpha=0.05, tol=1e-6, random_state=0).fit(X, Z)
    objective = MARGIN if trainer == "lssvm" else SLACK
    problem = ExplainedProblem(SETS.pack(X, Z), 0.05, np.ones(len(X)), objective)
    problem = problem.with_truth(problem.explain(model.coef_))  # they had settled
    rng = np.random.RandomState(1)
    assert problem.evaluate(model.coef_).primal == pytest.approx(model.objective_, abs=1e-9)
    for size in (0.0, 1e-3, 0.1, 1.0):
        for _ in range(5):
            other = model.coef_ + size * rng.randn(len(model.coef_))
            assert problem.evaluate(other).primal >= model.dual_ - 1e-9


def test_reports_and_plots_never_call_it_a_global_bound(fitted):
    pytest.importorskip("matplotlib")
    from maxmargin import plot
    from maxmargin.report import Report

    random = LatentPredictor(SETS, alpha=0.05, n_iter=3, random_state=0).fit(X, Z)
    for model in (fitted, random):
        report = Report("latent")
        assert report.add(model, X_train=X, y_train=Z).relative_gap is None
        page = report.html()
        assert "no weights at all" not in page and "nan%" not in page
        title = plot.convergence(model).get_title()
        assert "nan" not in title and ("last convex problem" in title) == (model is fitted)


def test_random_training_has_the_objective_of_its_kind():
    """With many samples of a small space the sampled objective is the enumerated one."""
    latent = Latent(LEARNABLE, SharedPairs())
    model = LatentPredictor(latent, alpha=0.05, n_samples=500, greedy=False, random_state=0)
    model.fit(X, Z)
    losses = [loss(LEARNABLE, x, y, model.coef_, "all") for x, y in zip(X, Z, strict=True)]
    expected = 0.025 * model.coef_ @ model.coef_ + np.mean(losses)
    # A structure is missed by 500 draws of 900 now and then: the sampled maximum is not larger.
    assert 0.9 * expected <= model.objective_ <= expected + 1e-9


def test_grid_search():
    search = GridSearchCV(
        LatentPredictor(SETS, n_iter=5, random_state=0), {"alpha": [0.01, 10.0]}, cv=2
    )
    search.fit(list(X), list(Z))
    found = dict(zip((0.01, 10.0), search.cv_results_["mean_test_score"], strict=True))
    assert found[search.best_params_["alpha"]] == search.best_score_ == max(found.values())
    assert search.best_estimator_.alpha == search.best_params_["alpha"]
    assert len(search.predict(list(X[:2]))) == 2


@pytest.mark.more
def test_weight_zero_is_absence_and_weights_scale(fitted):
    shares = np.ones(12)
    shares[4] = 0.0
    kept = np.flatnonzero(shares)
    common = {"latent": Latent(Subset(4, 2), NoLatent()), "trainer": "lssvm", "alpha": 0.1}
    rows = np.random.RandomState(0).randn(12, 4, 3)
    chosen = [[i % 3, 3] for i in range(12)]
    one = LatentPredictor(**common, tol=1e-8, random_state=0).fit(rows, chosen, shares)
    two = LatentPredictor(**common, tol=1e-8, random_state=0)
    two.fit(rows[kept], [chosen[i] for i in kept], 5.0 * np.ones(11))
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-4)


def test_subgradient_lowers_the_objective_too():
    model = LatentPredictor(SETS, alpha=0.1, solver="subgradient", n_iter=15, random_state=0)
    model.fit(X, Z)
    assert model.objective_ < 0.7 and model.score(X, Z) > 0.7


@pytest.mark.parametrize("trainer", ["random", "all", "lssvm"])
def test_a_solver_is_a_value(trainer):
    named = LatentPredictor(SETS, trainer, alpha=0.05, random_state=0).fit(X, Z)
    solver = WorkingSetAscent(passes=3 if trainer == "random" else 30)
    model = LatentPredictor(SETS, trainer, alpha=0.05, solver=solver, random_state=0).fit(X, Z)
    assert model.coef_.tobytes() == named.coef_.tobytes()
    assert model.get_params()["solver__capacity"] == 50
    averaged = clone(model).set_params(solver=Averaged(solver)).fit(X, Z)
    assert averaged.score(X, Z) > 0.8 and averaged.certificate_ == model.certificate_
    for other in (BlockFrankWolfe(), LatentSubgradient()) if trainer != "random" else (LBFGS(),):
        with pytest.raises(ValueError, match=f"does not go with trainer='{trainer}': it needs"):
            clone(model).set_params(solver=other).fit(X, Z)


def test_formula_of_the_sample_size_is_used():
    model = LatentPredictor(TREES, alpha=0.1, n_samples="formula", n_iter=5, random_state=0)
    problem = TREES.pack(X, Y)
    beta = 1 - (2 / 3) ** 2
    assert model._n_samples(problem, np.zeros(15)) == math.ceil(
        0.5 * math.log(12) / math.log(1 / beta)
    )
    assert model._n_samples(problem, np.ones(15)) == 100  # beyond its domain: capped
    assert model.fit(X, Y).n_searches_ == 6 * 12


@pytest.mark.parametrize("trainer", ["random", "lssvm"])
def test_callbacks_stop_and_interrupts_keep_the_weights(trainer, default_sigint):
    stopped = LatentPredictor(SETS, trainer, callbacks=lambda c: c.passes < 2, random_state=0)
    stopped.fit(X, Z)
    assert stopped.status_ == "stopped" and stopped.n_iter_ == 2
    model = LatentPredictor(
        SETS, trainer, callbacks=lambda c: os.kill(os.getpid(), signal.SIGINT), random_state=0
    )
    model.fit(X, Z)
    assert model.status_ == "interrupted" and len(model.coef_) == 15 and model.n_iter_ <= 2


def test_a_refused_fit_leaves_the_model(fitted):
    model = LatentPredictor(SETS, random_state=0).fit(X, Z)
    before = model.coef_
    with pytest.raises(ValueError, match="y"):
        model.fit(X, Z[:3])
    assert model.coef_ is before


def test_random_inference_is_repeatable_and_below_the_exact_one(fitted):
    model = clone(fitted).set_params(inference="random", n_inference=3)
    model.coef_ = fitted.coef_
    assert np.array_equal(model.predict(X), model.predict(X))
    assert (model.decision_function(X) <= fitted.decision_function(X) + 1e-12).all()
    model.set_params(n_inference=200)
    np.testing.assert_allclose(model.decision_function(X), fitted.decision_function(X))


def test_explanations_and_scores(fitted):
    outputs, latents = fitted.predict(X, return_latent=True)
    assert fitted.explain(X, outputs) == latents
    np.testing.assert_allclose(
        fitted.score(X, Z),
        1 - np.mean([LEARNABLE.distortion(a, b) for a, b in zip(Z, outputs)]),
    )
    shares = np.arange(12.0)
    assert fitted.score(X, Z, shares) == pytest.approx(
        1 - np.average(fitted.distortions(X, Z), weights=shares)
    )


def _points(n, seed=0):
    rng = np.random.RandomState(seed)
    return [(rng.randn(3, 2), rng.randn(3, 2)) for _ in range(n)]


SAVED = {
    "trees": (TREES, X, Y),
    "acyclic": (Latent(SPACES["acyclic"], SharedPairs()), *examples("acyclic", 4)),
    "matchings": (
        Latent(Permutation(), AffineMap((1.0,), (0.0, 0.1), centre=(0.5, 1.0), scale=2.0)),
        _points(4),
        [[0, 1, 2]] * 4,
    ),
    "chains": (Latent(LabelSequence(2), HiddenStates(2)), [np.eye(3)] * 2, [[0, 1, 1]] * 2),
}


@pytest.mark.parametrize("kind", SAVED)
def test_files(kind, tmp_path):
    latent, inputs, outputs = SAVED[kind]
    model = LatentPredictor(latent, n_iter=3, random_state=0).fit(inputs, outputs)
    maxmargin.save(model, tmp_path / "model")
    loaded = maxmargin.load(tmp_path / "model")
    assert repr(loaded) == repr(model)
    assert loaded.history_ == model.history_ and loaded.objective_ == model.objective_
    for one, two in zip(loaded.predict(inputs), model.predict(inputs), strict=True):
        assert np.array_equal(one, two)


def test_the_page_runs_from_top_to_bottom():
    page = Path(__file__).resolve().parent.parent / "docs" / "latent.md"
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {"__name__": "document"}
    for code in blocks:
        exec(compile(code, "latent.md", "exec"), names)


# --- promises ------------------------------------------------------------------------------------


def test_sample_size_by_hand():
    assert certificates.sample_size(100, 0.0, 3.0, 2 / 3) == math.ceil(2.302585 / 0.405465)
    limit = 1 / math.sqrt(128 * 9 * math.log(3))
    assert certificates.largest_norm(3.0, 2 / 3) == pytest.approx(limit)
    inner = 2 / 3 + math.exp(-1 / (128 * 9 * 0.02**2))
    expected = math.ceil(0.5 * math.log(100) / math.log(1 / inner))
    assert certificates.sample_size(100, 0.02, 3.0, 2 / 3) == expected
    assert math.isnan(certificates.sample_size(100, 1.001 * limit, 3.0, 2 / 3))
    assert certificates.sample_size(100, 0.999 * limit, 3.0, 2 / 3) > 100


def test_bounds_by_hand(of_trees):
    w, n, r = of_trees.coef_, 12, 9 * 60
    found = certificates.generalisation_bound(of_trees, X, Y, 1, delta=0.1)
    square, gamma2 = w @ w, 1.0  # two edges make one pair
    deviation = 4 * square * gamma2 * math.log(r * n / square) + math.log(2 * n / 0.1)
    empirical = []
    for x, y in zip(X, Y, strict=True):
        from latent_models import tables

        outputs, features = tables(SPACES["trees"], x)
        d = np.array([SPACES["trees"].distortion(y, z) for z in outputs])[:, None]
        scores = features @ w
        margins = scores[d[:, 0] == 0].max() - scores
        empirical.append((d * (margins <= 1)).max())
    expected = np.mean(empirical) + square / n + math.sqrt(deviation / 22)
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert found.vacuous == (expected >= 1) and found.holds
    assert found.constants["r"] == r and found.constants["gamma"] == 1.0
    assert "vacuous" in str(found)
    # Theorems 1 and 2 hold with probability 1 - delta/2.
    assert found.confidence == pytest.approx(0.95) and "probability 95%" in str(found)
    with pytest.raises(ValueError, match="delta must be between 0 and 1; received 2"):
        certificates.generalisation_bound(of_trees, X, Y, 1, delta=2)
    huge = clone(of_trees)
    huge.coef_ = 1e3 * w  # log(r n / |w|^2) is below 0
    assert certificates.generalisation_bound(huge, X, Y, 1).vacuous
    relaxed = certificates.generalisation_bound(of_trees, X, Y, 2, delta=0.1)
    assert relaxed.terms["empirical"] <= found.terms["empirical"]  # a larger margin


def test_third_bound_by_hand(of_trees):
    model = clone(of_trees)
    model.coef_ = np.zeros(15)
    model.coef_[3] = 1e-3
    beta, delta, n, r = 0.6, 0.05, 12, 540
    found = certificates.generalisation_bound(
        model, X, Y, 3, beta=beta, n_nonzero=1, random_state=0
    )
    assert found.confidence == pytest.approx(0.95)
    assert found.constants["T"] == certificates.sample_size(n, 1e-3, 1.0, beta)
    assert found.constants["s"] == 1 and found.constants["l"] == 15
    assert found.constants["r_superset"] == math.comb(15, 2)
    orderings = 3 * math.sqrt((math.log(15) + 2 * math.log(n * r) + math.log(4 / delta)) / n)
    sets = math.sqrt(3 * math.log(15 * (n * 105 + 1) + 1) * math.log(13) ** 3 / n)
    assert found.terms["orderings"] == pytest.approx(orderings)
    assert found.terms["random sets"] == pytest.approx(sets / math.log(1 / beta))
    assert found.value == pytest.approx(sum(found.terms.values())) and not found.holds
    assert [name for name, met in found.conditions.items() if not met] == [
        "Assumption B (low norm) at these weights"
    ]
    # The theorem fixes s before training: by default it is the number of weights, not of those
    # that training left.
    wide = certificates.generalisation_bound(model, X, Y, 3, beta=beta, random_state=0)
    orderings = 3 * math.sqrt((15 * (math.log(15) + 2 * math.log(n * r)) + math.log(80)) / n)
    assert wide.constants["s"] == 15 and wide.terms["orderings"] == pytest.approx(orderings)
    # The known beta is that of uniform proposals; those of the model climb.
    unknown = certificates.generalisation_bound(model, X, Y, 3, random_state=0)
    assert not unknown.holds and "beta is that of the proposals in use" in str(unknown)
    model.coef_[4] = 1e-3
    more = certificates.generalisation_bound(model, X, Y, 3, beta=beta, n_nonzero=1, random_state=0)
    assert not more.conditions["at most s weights are not zero"] and not more.holds
    model.coef_ = np.ones(15)
    outside = certificates.generalisation_bound(model, X, Y, 3, beta=beta, random_state=0)
    assert not outside.holds and outside.vacuous and "not met" in str(outside)


def test_gibbs_distortion(of_trees):
    model = clone(of_trees)
    model.coef_ = 0.05 * of_trees.coef_
    found = certificates.gibbs_distortion(model, X, Y, n_draws=300, random_state=0)
    square = model.coef_ @ model.coef_
    assert found.scale == pytest.approx(math.sqrt(8 * math.log(540 * 12 / square)))
    assert found.low < found.value < found.high and found.high - found.low < 0.1
    rng, distortions = np.random.RandomState(5), []
    for _ in range(300):
        model.coef_ = found.scale * 0.05 * of_trees.coef_ + rng.randn(15)
        distortions.append(model.distortions(X, Y).mean())
    spread = np.std(distortions) / math.sqrt(300)
    assert abs(np.mean(distortions) - found.value) < 5 * spread


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_beta_of_uniform_permutations(n):
    """Claim ii: at most 2/3; the truth is one minus the share of derangements."""
    rng = np.random.RandomState(n)
    points = [(rng.randn(n, 2), rng.randn(n, 2)) for _ in range(2)]
    model = LatentPredictor(Latent(Permutation(), AffineMap((1.0,), (0.0, 0.1))))
    model.coef_ = np.array([1.0])
    truths = [rng.permutation(n) for _ in range(2)]
    found = certificates.estimate_beta(
        model, points, truths, n_draws=2000, greedy=False, random_state=0
    )
    derangements = {2: 1, 3: 2, 4: 9, 5: 44}[n] / math.factorial(n)
    assert found.low <= 1 - derangements <= found.high and 1 - derangements <= 2 / 3 + 1e-12
    assert found.mean == pytest.approx(1 - derangements, abs=5 * 0.5 / math.sqrt(4000))


def test_low_norm_is_that_of_the_enumeration(of_trees):
    """Uniform proposals: the mean over all outputs and latent variables."""
    from latent_models import tables

    space, expected = SPACES["trees"], []
    for x, y in zip(X, Y, strict=True):
        outputs, features = tables(space, x)
        true = next(k for k, z in enumerate(outputs) if space.distortion(y, z) == 0.0)
        best = features[true][(features[true] @ of_trees.coef_).argmax()]
        expected.append(np.linalg.norm(best - features.mean(axis=(0, 1))))
    found = certificates.check_low_norm(of_trees, X, Y, n_draws=4000, greedy=False, random_state=0)
    assert np.abs(found.norms - expected).max() <= found.error <= 0.1
    assert np.abs(found.norms - expected).max() <= 5 / math.sqrt(4000)
    assert found.limit == pytest.approx(0.5 / math.sqrt(12)) and found.worst == found.norms.max()
    assert found.holds is False and "does not hold" in str(found)
    # Two pairs of the two trees differ at most, by 1; n = 12 is above 15 / 4 and 1 / (4 * 15).
    assert found.n_differing == 2 and found.largest_difference == 1.0
    assert not found.claim_iii and not found.claim_iv


def test_low_norm_of_small_features_holds_and_few_draws_do_not_decide():
    latent = Latent(Permutation(), AffineMap((1.0,), (0.0, 0.1), scale=1.0))
    model = LatentPredictor(latent)
    model.coef_ = np.array([1.0])
    truths = [[0, 1, 2]] * 4
    for size, n_draws, holds, claim in ((1e-3, 50, True, False), (0.1, 1, None, False)):
        points = [(size * left, size * right) for left, right in _points(4)]
        found = certificates.check_low_norm(model, points, truths, n_draws=n_draws, random_state=0)
        assert found.holds is holds and found.claim_iii is claim
    model.coef_ = np.array([3.0])  # |w| > sqrt(n)
    points = [(1e-3 * left, 1e-3 * right) for left, right in _points(4)]
    assert certificates.check_low_norm(model, points, truths, random_state=0).holds is False
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        certificates.check_low_norm(model, points, truths, confidence=1.0)


def test_beta_of_climbs_with_good_weights_is_larger():
    bits, chosen = examples("subsets", 12)
    model = LatentPredictor(Latent(SPACES["subsets"], SharedPairs()), random_state=0)
    model.fit(bits, chosen)
    uniform = certificates.estimate_beta(model, bits, chosen, greedy=False, random_state=0)
    climbs = certificates.estimate_beta(model, bits, chosen, random_state=0)
    assert uniform.mean == 1.0  # two sets of 3 of 5 elements always share one
    assert climbs.mean == 1.0
    trees = TREES.pack(X, Y)
    model = LatentPredictor(TREES)
    model.coef_ = np.random.RandomState(0).randn(15)
    uniform = certificates.estimate_beta(model, X, Y, greedy=False, random_state=0)
    climbs = certificates.estimate_beta(model, X, Y, random_state=0)
    assert uniform.mean == pytest.approx(trees.uniform_beta(), abs=0.05)
    # Good for some truths, bad for others: a climb ends at few outputs.
    assert np.ptp(climbs.shares) > 0.5 > np.ptp(uniform.shares) and climbs.worst > uniform.worst
    graphs = Latent(DAG(4, 2), SharedPairs()).pack([np.zeros(66)])
    assert graphs.uniform_beta() == pytest.approx(1 - 73 / 443)


# --- bad input -----------------------------------------------------------------------------------


class EmptyFor(NoLatent):
    def enumerate(self, x):
        return [] if x[0][0] == 7 else [0]


class Leaves(NoLatent):
    def moves(self, x, h):
        return [h + 1]


class WrongMoves(Subset):
    def moves(self, y):
        return [[0, 1, 2]]


class Fewer(OwnPairs):
    def enumerate(self, x):
        return super().enumerate(x)[1:]


ROWS, CHOSEN = np.ones((2, 4, 3)), [[0, 1], [1, 2]]
SEVEN = ROWS.copy()
SEVEN[1, 0, 0] = 7
BITS = np.zeros((2, 10), int)


@pytest.mark.parametrize(
    ("latent", "inputs", "outputs", "message"),
    [
        (TREES, X[:2], [Y[0], [1, 0, 0]], r"y\[1\] is not a tree: the edge \(\d, \d\) is on a cyc"),
        (TREES, X[:2], [Y[0]], "X has 2 examples but y has 1"),
        (TREES, X[:2, :4], Y[:2], r"X\[0\] has shape \(4,\); expected 15 bits"),
        (TREES, 2 * X[:2] + 1, Y[:2], r"X\[0\] holds 3.0 at pair|X\[0\] holds .*expected 0 or 1"),
        (TREES, [], [], "X is empty"),
        (TREES, X[:1], None, "requires y"),
        (Latent(Arborescence(1), SharedPairs()), [[0]], [[-1]], "at least 2 nodes"),
        (Latent(Arborescence(2), SharedPairs()), [[0]], [[-1, 0]], r"is empty for X\[0"),
        (Latent(Subset(4, 2), EmptyFor()), SEVEN, CHOSEN, r"latent space is empty for X\[1\]"),
        (Latent(Subset(4, 2), Leaves()), ROWS, CHOSEN, r"latent_space.moves leaves .* for X\[0\]"),
        (Latent(WrongMoves(4, 2), NoLatent()), ROWS, CHOSEN, r"structure.moves leaves .*X\[0\]"),
        (
            Latent(Subset(5, 2), OwnPairs(5), superset=Fewer(5)), BITS, CHOSEN,
            r"superset does not contain the latent space of X\[0\]",
        ),
        (
            Latent(Subset(5, 2), SharedPairs(), superset=SharedPairs()), BITS, CHOSEN,
            "does not contain the latent space",
        ),
        (
            Latent(Permutation(), AffineMap(), superset=AffineMap((1.0,))), _points(1), [[0, 1, 2]],
            "superset does not contain the latent space: it lacks the map",
        ),
        (
            Latent(Permutation(), AffineMap(scale=2.0), superset=AffineMap()), _points(1),
            [[0, 1, 2]], "superset of AffineMap must have the same centre and scale",
        ),
        (
            Latent(Permutation(), AffineMap(centre=(1, 2, 3))), _points(1), [[0, 1, 2]],
            r"centre must be 'mean' or a point \(x, y\); received \(1, 2, 3\)",
        ),
        (
            Latent(Permutation(), AffineMap(centre=(1.0, np.nan))), _points(1), [[0, 1, 2]],
            "centre must be a number; received nan",
        ),
        (
            Latent(Permutation(), AffineMap(scale="image")), _points(1), [[0, 1, 2]],
            "scale must be 'each', 'pair' or a number > 0; received 'image'",
        ),
        (
            Latent(Permutation(), AffineMap(scale=0.0)), _points(1), [[0, 1, 2]],
            "scale must be a finite number > 0; received 0.0",
        ),
        (Latent(Permutation(), AffineMap()), [3], [[0]], r"X\[0\] must be a pair"),
        (Latent(Permutation(), AffineMap()), _points(1), [[0, 1, 1]], r"y\[0\] is not a perm"),
        (Latent(LabelSequence(2), HiddenStates()), [np.eye(2)], [[0, 5]], r"y\[0\] holds 5 at pos"),
        (
            Latent(LabelSequence(2), HiddenStates()), [np.full((2, 2), np.nan)], [[0, 1]],
            r"X\[0\] contains NaN",
        ),
    ],
)  # fmt: skip
def test_bad_data(latent, inputs, outputs, message):
    with pytest.raises(ValueError, match=message):
        LatentPredictor(latent).fit(inputs, outputs)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"trainer": "some"}, "trainer must be one of 'random', 'all', 'lssvm'"),
        ({"alpha": 0.0}, "alpha must be a finite number > 0"),
        ({"n_iter": 0}, "n_iter must be an integer >= 1"),
        ({"n_passes": 0}, "n_passes must be an integer >= 1"),
        ({"n_samples": 0}, "n_samples must be an integer >= 1"),
        ({"n_samples": "many"}, "n_samples must be an integer >= 1"),
        ({"beta": 1.0}, "beta must be < 1"),
        ({"greedy": "no"}, "greedy must be True or False"),
        ({"inference": "best"}, "inference must be one of"),
        ({"n_restarts": 0}, "n_restarts must be an integer >= 1"),
        ({"trainer": "all", "solver": "subgradient"}, "needs random structures .trainer='random'"),
        ({"n_explanations": 0}, "n_explanations must be an integer >= 1"),
        ({"trainer": "all", "n_explanations": 3}, "n_explanations is for trainer='random'"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        LatentPredictor(TREES, **parameters).fit(None, None)


def test_wrong_kinds():
    with pytest.raises(TypeError, match="latent must be a Latent"):
        LatentPredictor(SPACES["trees"]).fit(X, Y)
    with pytest.raises(TypeError, match="SharedPairs needs a structure of kind Arborescence"):
        LatentPredictor(Latent(Permutation(3), SharedPairs())).fit(X, Y)
    with pytest.raises(TypeError, match="structure must be an object; received the class Subset"):
        LatentPredictor(Latent(Subset, NoLatent())).fit(ROWS, CHOSEN)
    with pytest.raises(TypeError, match="lacks enumerate, features"):
        LatentPredictor(Latent(Subset(4, 2), object())).fit(ROWS, CHOSEN)
    with pytest.raises(NotFittedError):
        LatentPredictor(TREES).predict(X)
    model = LatentPredictor(TREES, n_iter=1, random_state=0).fit(X, Y)
    model.set_params(latent=Latent(Subset(5, 2), SharedPairs()))
    with pytest.raises(ValueError, match="needs 10 weights, but .* fitted with 15"):
        model.predict(BITS)
    large = Latent(Permutation(), AffineMap((1.0,), (0.0, 0.1)))
    points = [(np.random.RandomState(0).randn(8, 2),) * 2]
    with pytest.raises(ValueError, match="Use trainer='random' or 'lssvm'"):
        LatentPredictor(large, "all").fit(points, [np.arange(8)])
    sequences = Latent(LabelSequence(2), HiddenStates())
    inputs, labels = [np.eye(2), np.ones((3536, 2))], [[0, 1], np.zeros(3536, int)]
    with pytest.raises(ValueError, match=r"at most 3535 positions with 4 states; X\[1\] has 3536"):
        LatentPredictor(sequences, "all").fit(inputs, labels)
    with pytest.raises(ValueError, match="use search='exact'"):
        LatentPredictor(sequences, "all", search="listed").fit(inputs[:1], labels[:1])
