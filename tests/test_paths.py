"""Strengths of regularisation: paths from strong to weak, and alpha by cross-validation."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from maxmargin import (
    CrossValidated,
    GridLabeler,
    HammingLoss,
    LabelRanker,
    MulticlassClassifier,
    MultiLabelClassifier,
    SequenceLabeler,
    TimesAuto,
    load,
    path,
    save,
)
from maxmargin.estimators._base import Limits
from maxmargin.paths import Path

rng = np.random.default_rng(0)
CENTRES = rng.normal(size=(3, 4))
Y = np.repeat(["a", "b", "c"], 20)
X = CENTRES[np.repeat(range(3), 20)] + rng.normal(size=(60, 4))
LABELS = [list(rng.choice(["O", "B-X"], 3)) for _ in range(24)]
SEQUENCES = [np.array([[word != "O", 1.0] for word in y]) + rng.normal(0, 0.3, (3, 2))
             for y in LABELS]  # fmt: skip


def test_points_of_a_path_agree_with_separate_fits_up_to_their_gaps():
    folds = KFold(3, shuffle=True, random_state=0)
    model = MulticlassClassifier(tol=1e-8, max_iter=5000, random_state=0)
    found = path(model, X, Y, grid=[1.0, 0.1, 0.01], cv=folds, tol=0.0)
    assert found.strengths == [1.0, 0.1, 0.01] and np.allclose(found.alphas, found.strengths)
    for k, (train, test) in enumerate(folds.split(X)):
        for j, alpha in enumerate(found.strengths):
            alone = clone(model).set_params(alpha=alpha).fit(X[train], Y[train])
            assert found.relative_gaps[j, k] <= 1e-8 * (1 + 1e-9)
            assert found.scores[j, k] == alone.score(X[test], Y[test])


def test_packed_data_are_fitted_again_as_by_a_new_fit():
    sets = np.column_stack([Y == "a", Y != "b"]).astype(int)
    ranks = np.argsort(np.argsort(X[:, :3], axis=1), axis=1) + 1
    grids = [rng.normal(size=(2, 2, 1)) for _ in range(8)]
    known = {"tol": 1e-4, "random_state": 0}
    for model, features, outputs in [
        (SequenceLabeler(**known), SEQUENCES, LABELS),
        (MultiLabelClassifier(**known), X, sets),
        (LabelRanker(y_format="ranks", **known), X, ranks),
        (GridLabeler(**known), grids, [g[..., 0] > 0 for g in grids]),
    ]:
        model.set_params(alpha=TimesAuto(5.0), warm_start=True)
        model._keeps_packed = True
        model.fit(features, outputs)
        assert model._fit_again(TimesAuto(1.0))
        alone = clone(model).set_params(alpha="auto", warm_start=False).fit(features, outputs)
        assert model.alpha_ == alone.alpha_
        assert max(model.dual_, alone.dual_) <= min(model.primal_, alone.primal_)
        assert model.gap_ <= 1e-4 * model.primal_
        assert model.score(features, outputs) == pytest.approx(alone.score(features, outputs))


def test_results_do_not_depend_on_the_number_of_threads():
    model = MulticlassClassifier(random_state=0)
    one, two = (path(model, X, Y, grid=4, cv=3, n_jobs=jobs) for jobs in (1, 2))
    for name in ("alphas", "scores", "relative_gaps", "n_iter"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


def usual_alpha(features, share=1 / 5):
    """What "auto" means for examples with one row of features each."""
    squares = np.sum(np.asarray(features) ** 2, axis=1) + 1.0
    return share * np.minimum(squares, 20.0).mean() / len(features)


def test_what_auto_means():
    """It follows the features, not how examples are written: weights, or one after another."""
    rows = np.vstack([X, [[10.0, 0.0, 0.0, 0.0]]])  # the last one counts as 20
    labels = np.append(Y, "a")
    fitted = MulticlassClassifier(random_state=0).fit(rows, labels)
    assert fitted.alpha_ == pytest.approx(usual_alpha(rows), rel=1e-12)
    likely = MulticlassClassifier("crf", random_state=0).fit(rows, labels)
    assert likely.alpha_ == pytest.approx(usual_alpha(rows, 1 / 20), rel=1e-12)
    once = MulticlassClassifier(max_iter=1).fit(rows[18:27], labels[18:27], [1, 2, 0] * 3)
    order = [18, 19, 19, 21, 22, 22, 24, 25, 25]
    assert once.alpha_ == pytest.approx(usual_alpha(rows[order]), rel=1e-12)
    lengths = [2, 3, 1]
    parts, tags = np.split(X[:6], np.cumsum(lengths)[:-1]), [["a", "b"], ["b", "a", "a"], ["a"]]
    means = SequenceLabeler(loss=HammingLoss(normalize=True), random_state=0).fit(parts, tags)
    assert means.alpha_ == pytest.approx(usual_alpha(X[:6], 2 / 5) * (6 / 3) ** 2, rel=1e-12)
    chain = SequenceLabeler(random_state=0).fit(parts, tags)
    each = [usual_alpha(part, 2 / 5) * len(part) for part in parts]
    assert chain.alpha_ == pytest.approx(np.mean(each) / 3, rel=1e-12)
    nothing = MulticlassClassifier(fit_intercept=False).fit(np.zeros((4, 2)), list("abab"))
    assert nothing.alpha_ == 1 / 4


def test_alpha_by_cross_validation():
    model = MulticlassClassifier(alpha="cv", random_state=0).fit(X, Y)
    found = path(MulticlassClassifier(random_state=0), X, Y, patience=3)
    results = model.cv_results_
    assert model.alpha == "cv" and np.array_equal(results["mean_test_score"], found.mean_scores)
    best = found.best_strength
    assert best.factor == found.strengths[int(np.argmin(results["rank_test_score"]))].factor
    alone = MulticlassClassifier(alpha=best, random_state=0).fit(X, Y)
    assert model.alpha_ == alone.alpha_ == pytest.approx(best.factor * usual_alpha(X), rel=1e-12)
    assert np.array_equal(model.coef_, alone.coef_) and model.gap_ == alone.gap_
    assert model.status_ == "converged" and model.gap_ <= model.tol * model.primal_
    assert min(model.cv_results_["rank_test_score"]) == 1
    model.set_params(alpha="auto").fit(X, Y)
    assert model.alpha_ == pytest.approx(usual_alpha(X), rel=1e-12)
    assert "cv_results_" not in vars(model)


def test_a_search_computes_the_points_around_the_best():
    model = MulticlassClassifier(random_state=0)
    found = path(model, X, Y, grid=20, cv=3, patience=3)
    grid = [strength.factor for strength in path(model, X, Y, grid=20, cv=2).strengths]
    places = [grid.index(strength.factor) for strength in found.strengths]
    skipped = [grid.index(strength.factor) for strength in found.skipped]
    assert places == sorted(places) and sorted(places + skipped) == list(range(20))
    assert places[:2] == [2, 6] and skipped  # far apart at first
    means, best = found.scores[:, :2].mean(axis=1), found.best_index
    error = found.scores[best, :2].std() / np.sqrt(2)
    near = [k for k in (places[best] - 4, places[best] + 4) if 0 <= k < 20]
    flat = all(k in places and means[places.index(k)] >= means[best] - error for k in near)
    assert flat or {places[best] - 1, places[best] + 1} & set(places)
    # Two more strengths beyond the best, unless the grid ends or the score has fallen.
    assert max(places) == 18 or means[-1] < means[best]
    assert np.nanmax(found.n_iter) <= 10 and np.nanmax(found.relative_gaps) < 1.0


def test_folds_are_left_out_where_a_strength_is_worse_on_all_before():
    grid = np.geomspace(10.0, 0.01, 16)

    def scoring(model, X, y):  # highest at the sixth strength, whatever the fold
        return -abs(np.log(model.alpha_ / grid[5])) + 1e-3 * X[0, 0]

    model = MulticlassClassifier(random_state=0)
    found = path(model, X, Y, grid=grid, cv=5, scoring=scoring, patience=3)
    assert found.strengths == [grid[k] for k in (2, 4, 5, 6, 8, 10)] and len(found.skipped) == 10
    assert list(found.n_folds) == [5, 5, 5, 5, 3, 3] and found.best_strength == grid[5]
    for values in (found.scores, found.relative_gaps, found.n_iter, found.seconds):
        assert np.isfinite(values[:4]).all() and np.isfinite(values[4:, :3]).all()
        assert np.isnan(values[4:, 3:]).all()
    assert np.allclose(found.alphas, found.strengths)
    results = found.as_results()
    assert np.array_equal(results["n_folds"], found.n_folds)
    assert np.isfinite(results["mean_test_score"] + results["std_test_score"]).all()
    assert np.isfinite(results["max_relative_gap"]).all()
    assert results["rank_test_score"][2] == 1 and set(results["rank_test_score"][4:]) == {5, 6}
    whole = path(model, X, Y, grid=grid, cv=5, scoring=scoring)
    assert np.isfinite(whole.scores).all() and np.all(whole.n_folds == 5)


def test_few_checks_have_the_certificate_of_their_end():
    """A fit of a search evaluates primal and dual where it ends; the values are true ones."""
    model = MulticlassClassifier(alpha=0.01, tol=0.1, random_state=0)
    model._limits = Limits(10, 4.0)
    model.fit(X, Y)
    assert model.history_[0].passes >= 4 and len(model.history_) <= 3
    exact = MulticlassClassifier(alpha=0.01, tol=1e-6, max_iter=5000).fit(X, Y)
    assert model.dual_ <= exact.primal_ and exact.dual_ <= model.primal_
    assert model.gap_ == model.primal_ - model.dual_ and model.n_iter_ <= 10


def test_a_fit_that_is_far_from_its_optimum_goes_on():
    """After ten passes the gaps at the weak strength are above one half: its score is no score."""
    model = MulticlassClassifier(random_state=0)
    found = path(model, X, Y, grid=[10.0, 1e-5], cv=3, patience=2)
    n_iter, gaps = found.n_iter[-1], found.relative_gaps[-1]
    done = np.isfinite(gaps)
    assert done.sum() >= 2 and np.all(n_iter[done] > 10) and np.all(n_iter[done] <= 80)
    assert np.all((gaps[done] <= 0.5) | (n_iter[done] == 80))
    few = path(model.set_params(max_iter=15), X, Y, grid=[10.0, 1e-5], cv=3, patience=2)
    assert np.nanmax(few.n_iter) <= 20 and np.nanmax(few.relative_gaps) > 0.5


def test_a_fit_that_is_far_goes_on_only_while_it_leads():
    """With scores that fall, the weak strength gets its passes doubled once."""

    def worse_when_weaker(model, X, y):
        return model.alpha_

    model = MulticlassClassifier(random_state=0)
    found = path(model, X, Y, grid=[10.0, 1e-5], cv=3, patience=2, scoring=worse_when_weaker)
    n_iter, gaps = found.n_iter[-1], found.relative_gaps[-1]
    assert np.nanmax(n_iter) <= 20 and np.nanmax(gaps) > 0.5
    led = path(model, X, Y, grid=[10.0, 1e-5], cv=3, patience=2, scoring=lambda m, X, y: -m.alpha_)
    assert np.nanmax(led.n_iter) > 20


def test_an_interrupt_ends_the_path(monkeypatch):
    class Interrupted(MulticlassClassifier):
        def _fit_again(self, strength):
            return False

        def fit(self, X, y):
            super().fit(X, y)
            self.status_ = "interrupted"
            return self

    with pytest.raises(KeyboardInterrupt):
        path(Interrupted(random_state=0), X, Y, grid=3, cv=2)


def test_a_strength_that_is_better_on_few_folds_is_not_chosen():
    scores = np.array([[0.5, 0.5, 0.6], [0.9, 0.8, np.nan], [0.6, 0.4, 0.65]])
    found = Path([3.0, 2.0, 1.0], np.array([3.0, 2.0, 1.0]), scores, *[np.ones((3, 3))] * 3, [],
                 np.array([3, 2, 3]))  # fmt: skip
    assert found.best_strength == 1.0 and found.mean_scores[1] == pytest.approx(0.85)
    assert list(found.as_results()["rank_test_score"]) == [2, 3, 1]


def test_the_path_does_not_end_before_scores_change():
    """The strongest regularisation gives the same constant prediction twice."""
    sets = np.column_stack([Y == "a", Y == "b"]).astype(int)
    model = MultiLabelClassifier(random_state=0)
    strengths = np.geomspace(50, 5e-4, 12)
    whole = path(model, X, sets, grid=strengths, cv=3)
    means = whole.scores.mean(axis=1)
    assert np.all(means[:2] == means[0]) and means.max() > means[0] + 0.1
    short = path(model, X, sets, grid=strengths, cv=3, patience=1)
    assert short.mean_scores[short.best_index] > means[0]


def test_sequences_scored_by_spans():
    alpha = CrossValidated(grid=3, cv=2, scoring="span_f1")
    model = SequenceLabeler(alpha=alpha, random_state=0).fit(SEQUENCES, LABELS)
    wanted = path(SequenceLabeler(random_state=0), SEQUENCES, LABELS, grid=3, cv=2,
                  scoring="span_f1", patience=3)  # fmt: skip
    assert np.array_equal(model.cv_results_["mean_test_score"], wanted.mean_scores)
    assert 0.5 < wanted.scores.max() <= 1.0


def test_sample_weights_are_split_with_the_folds():
    weights = rng.uniform(0.5, 2.0, len(X))
    train, test = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
    model = MulticlassClassifier(tol=1e-6, random_state=0)
    found = path(model, X, Y, grid=[0.1], cv=[(train, test)], tol=0, sample_weight=weights)
    model.set_params(alpha=0.1).fit(X[train], Y[train], sample_weight=weights[train])
    assert found.scores[0, 0] == model.score(X[test], Y[test])
    assert found.relative_gaps[0, 0] == model.gap_ / model.primal_


def test_other_outputs():
    alpha = CrossValidated(grid=2, cv=2)
    sets = np.column_stack([Y == "a", Y != "b"]).astype(int)
    ranks = np.argsort(np.argsort(X[:, :3], axis=1), axis=1) + 1
    grids = [rng.normal(size=(2, 2, 1)) for _ in range(8)]
    for model, features, outputs in [
        (MultiLabelClassifier(alpha=alpha, random_state=0), X, sets),
        (LabelRanker(alpha=alpha, y_format="ranks", random_state=0), X, ranks),
        (GridLabeler(alpha=alpha, tol=0.5, random_state=0), grids, [g[..., 0] > 0 for g in grids]),
    ]:
        model.fit(features, outputs)
        assert model.cv_results_["param_alpha"].shape == (2,)
        # Both halves have as many examples, so the mean of what "auto" is to them is twice that.
        halves = np.array(model.cv_results_["param_alpha"]) / 2
        assert np.isclose(model.alpha_, halves, rtol=1e-12).sum() == 1


def test_a_model_with_a_chosen_alpha_is_saved(tmp_path):
    model = MulticlassClassifier(alpha=CrossValidated(grid=3, cv=2), random_state=0).fit(X, Y)
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    assert np.array_equal(again.predict(X), model.predict(X)) and again.alpha_ == model.alpha_
    assert again.alpha.get_params() == model.alpha.get_params()
    assert again.cv_results_.keys() == model.cv_results_.keys()


def test_values_are_searched_printed_and_cloned():
    model = MulticlassClassifier(alpha=CrossValidated(cv=3)).set_params(alpha__cv=4)
    assert model.alpha.cv == 4 and "CrossValidated(cv=4)" in repr(model)
    assert clone(model).alpha.cv == 4
    assert MulticlassClassifier(alpha=TimesAuto(10)).fit(X, Y).alpha_ == pytest.approx(
        10 * usual_alpha(X), rel=1e-12
    )


@pytest.mark.parametrize(
    "alpha, message",
    [
        (CrossValidated(grid=0), "alpha.grid must be an integer >= 1; received 0"),
        (CrossValidated(grid=[]), "alpha.grid must be the number of strengths, or a list"),
        (CrossValidated(grid=["a"]), "alpha.grid must be the number of strengths, or a list"),
        (CrossValidated(grid=[1.0, -1.0]), "alpha.grid must be a finite number > 0; received -1"),
        (CrossValidated(cv=1), "alpha.cv must be an integer >= 2; received 1"),
        (CrossValidated(cv=100), "cv=100 folds need as many examples; X has 60"),
        (CrossValidated(scoring="f"), "scoring='f' is not known"),
        (CrossValidated(tol=-1), "alpha.tol must be a finite number >= 0"),
        (CrossValidated(patience=0), "alpha.patience must be an integer >= 1"),
        (TimesAuto(0), "alpha.factor must be a finite number > 0"),
        ("best", "alpha must be a finite number > 0, 'auto' or 'cv'; received 'best'"),
    ],
)
def test_what_cannot_be_chosen_is_refused(alpha, message):
    with pytest.raises(ValueError, match=message):
        MulticlassClassifier(alpha=alpha).fit(X, Y)


def test_a_class_that_a_fold_lacks_and_a_grid_of_one_value():
    y = Y.copy()
    y[0] = "z"
    model = MulticlassClassifier(alpha=CrossValidated(grid=[0.1], cv=3), random_state=0).fit(X, y)
    assert model.alpha_ == 0.1 and "z" in model.classes_
    assert model.cv_results_["mean_test_score"].shape == (1,)
