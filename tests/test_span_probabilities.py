"""Probabilities of spans and samples of sequences, against enumeration."""

import itertools

import numpy as np
import pytest

from maxmargin import SequenceLabeler, UnseenLabelWarning, load, save
from maxmargin.metrics import find_spans

rng = np.random.default_rng(0)
BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]
BIOES = ["O", "B-X", "I-X", "E-X", "S-X"]


def fit(labels, y=None, **params):
    y = y or [list(rng.choice(labels, 5)) for _ in range(12)] + [[label] for label in labels]
    X = [rng.normal(size=(len(each), 3)) for each in y]
    return SequenceLabeler("crf", alpha=0.5, random_state=0, **params).fit(X, y)


def every_labelling(model, x, allowed=None):
    """All labellings and their probabilities."""
    labellings = [list(y) for y in itertools.product(model.classes_, repeat=len(x))]
    given = None if allowed is None else [allowed] * len(labellings)
    logs = model.log_likelihood([x] * len(labellings), labellings, allowed=given)
    return labellings, np.exp(logs)


@pytest.mark.parametrize("labels, length", [(BIO, 4), (BIOES, 4), (BIO, 1)])
def test_probabilities_of_spans_are_those_of_all_labellings_that_have_them(labels, length):
    model = fit(labels)
    for _ in range(4):
        x = 2.0 * rng.normal(size=(length, 3))
        allowed = rng.random((length, len(labels))) < 0.8
        allowed[:, 0] = True
        for mask in (None, allowed):
            given = None if mask is None else [mask]
            (found,) = model.predict_spans([x], allowed=given)
            assert [span[:3] for span in found] == find_spans(model.predict([x], allowed=given)[0])
            labellings, shares = every_labelling(model, x, mask)
            assert shares.sum() == pytest.approx(1.0)
            for span in found:
                has = [span[:3] in find_spans(labelling) for labelling in labellings]
                assert span.probability == pytest.approx(shares[has].sum(), abs=1e-12)


def test_every_possible_span_has_its_probability():
    from maxmargin.estimators._spans import SpanLabels, span_probabilities

    for labels in (BIO, BIOES):
        model = fit(labels)
        x = rng.normal(size=(3, 3))
        labellings, shares = every_labelling(model, x)
        sums = model._sums([x], None, None)[1][0]
        names = [str(label) for label in model.classes_]
        for labelling in labellings:
            for span in span_probabilities(sums, SpanLabels(names), labelling):
                has = [span[:3] in find_spans(other) for other in labellings]
                assert span.probability == pytest.approx(shares[has].sum(), abs=1e-12)


def test_samples_have_the_probabilities_of_the_model():
    model = fit(["O", "B-X"])
    x = rng.normal(size=(3, 3))
    labellings, shares = every_labelling(model, x)
    (drawn,) = model.sample([x], 4000, random_state=0)
    counts = {tuple(labelling): 0 for labelling in labellings}
    for labelling in drawn:
        counts[tuple(labelling)] += 1
    error = np.array(list(counts.values())) / 4000 - shares
    assert np.abs(error).max() < 4 * np.sqrt(0.25 / 4000)
    again = model.sample([x], 2, random_state=0)[0]
    assert all((a == b).all() for a, b in zip(again, drawn[:2]))


def test_constraints_hold_in_samples_and_spans():
    y = [["B-X", "I-X", "O"], ["B-Y", "I-Y", "I-Y"], ["O", "B-X", "B-Y"]]
    model = fit(BIO, y, constraints="bio")
    X = [rng.normal(size=(6, 3)) for _ in range(5)]
    for drawn in model.sample(X, 20, random_state=1):
        for labelling in drawn:
            for before, label in zip(["O", *labelling], labelling):
                assert label[0] != "I" or before[1:] == label[1:]
    assert all(0 < span.probability <= 1 for spans in model.predict_spans(X) for span in spans)


def test_kernels_and_dicts():
    y = [["B-X", "O"], ["O", "B-X"], ["O", "O"]]
    words = [[{"word": label} for label in labels] for labels in y]
    model = SequenceLabeler("crf", alpha=0.1, random_state=0).fit(words, y)
    (found,) = model.predict_spans(words[:1])
    marginal = model.predict_marginals(words[:1])[0][0, list(model.classes_).index("B-X")]
    assert found[0][:3] == (0, 1, "X") and found[0].probability == pytest.approx(marginal)


def test_labels_without_spans_are_refused():
    model = fit(["NOUN", "VERB"])
    with pytest.raises(ValueError, match="predict_spans needs labels O, B-TYPE.*'NOUN'"):
        model.predict_spans([np.zeros((2, 3))])
    with pytest.raises(ValueError, match="n_samples must be an integer >= 1"):
        model.sample([np.zeros((2, 3))], 0)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_uncertainty_and_calibration_against_enumeration(kernel):
    model = fit(BIO, kernel=kernel)
    x = [2.0 * rng.normal(size=(length, 3)) for length in (3, 1)]
    for temperature in (1.0, 2.5):
        model.temperature_ = temperature
        parts = [every_labelling(model, part) for part in x]
        best = [np.sort(shares)[::-1] for _, shares in parts]
        assert model.uncertainty(x) == pytest.approx([1 - each[0] for each in best])
        margins = [1 - each[0] + each[1] for each in best]
        assert model.uncertainty(x, "margin") == pytest.approx(margins)
        marginals = model.predict_marginals(x)
        for (labellings, shares), found in zip(parts, marginals, strict=True):
            assert shares.sum() == pytest.approx(1.0)
            first = [np.sum(shares[[z[0] == k for z in labellings]]) for k in model.classes_]
            assert found[0] == pytest.approx(first, abs=1e-12)
        entropies = [-np.mean(np.sum(p * np.log(p), axis=1)) for p in marginals]
        assert model.uncertainty(x, "entropy") == pytest.approx(entropies)
    with pytest.raises(ValueError, match="kind must be"):
        model.uncertainty(x, "guess")


def test_calibration_leaves_out_labels_that_were_never_seen():
    model = fit(BIO)
    X = [rng.normal(size=(4, 3)) for _ in range(50)]
    y = [drawn[0].tolist() for drawn in model.sample(X, random_state=0)]
    wanted = model.calibrate(X, y).temperature_
    others = [[*y[0][:3], "I-new"], ["B-new", *y[1][1:]]]
    with pytest.warns(UnseenLabelWarning, match="2 of 52 sequences with such labels are left out"):
        assert model.calibrate([X[0], *X, X[1]], [others[0], *y, others[1]]).temperature_ == wanted
    with pytest.warns(UnseenLabelWarning), pytest.raises(ValueError, match="every sequence"):
        model.calibrate(X[:2], others)


def test_calibration_finds_the_temperature_and_changes_no_prediction(tmp_path):
    model = fit(BIO)
    X = [2.0 * rng.normal(size=(4, 3)) for _ in range(200)]
    before = model.predict(X)
    model.temperature_ = 3.0
    y = [drawn[0] for drawn in model.sample(X, random_state=0)]
    primal = model.primal_
    model.calibrate(X, y)
    assert model.temperature_ > 1.0 and model.primal_ == primal
    # The log likelihood is concave in 1 / temperature_, so a local maximum is the maximum.
    here = model.log_likelihood(X, y).mean()
    for factor in (0.98, 1.02):
        model.temperature_ *= factor
        assert model.log_likelihood(X, y).mean() < here
        model.temperature_ /= factor
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    assert np.array_equal(again.log_likelihood(X, y), model.log_likelihood(X, y))
    assert all(map(np.array_equal, again.predict(X), before))
    assert "temperature_" not in vars(model.fit(X, y))
