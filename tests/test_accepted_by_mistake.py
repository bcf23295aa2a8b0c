"""Input that reads as something else than it is: quantities as classes, dates and texts as numbers,
orderings as ranks, and weights for some of the classes only."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pytest

from maxmargin import (
    GraphLabeler,
    GridLabeler,
    LabelRanker,
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    SequenceLabeler,
)

RNG = np.random.RandomState(0)
X = RNG.randn(12, 3)
Y = np.arange(12) % 3
EDGES = np.array([[0, 1], [1, 2]])
GRAPHS = [(x, EDGES) for x in RNG.randn(4, 3, 2)]
QUICK = {"max_iter": 2, "tol": 0.9, "random_state": 0}


# --- quantities as labels ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "features", "y", "place"),
    [
        (MulticlassClassifier, X, np.linspace(1, 2, 12), r"y\[1\] is 1\.0909"),
        (MulticlassClassifier, X, np.linspace(1, 2, 12).astype(object), r"y\[1\] is 1\.0909"),
        (OrdinalClassifier, X, [*range(11), 2.5], r"y\[11\] is 2\.5"),
        (SequenceLabeler, [X, X[:2]], [Y, [0.0, 0.5]], r"y\[1\]\[1\] is 0\.5"),
        (SequenceLabeler, [X], [np.array([0.25, *Y[1:]], object)], r"y\[0\]\[0\] is 0\.25"),
        (GraphLabeler, GRAPHS, RNG.rand(4, 3), r"y\[0\]\[0\] is 0\."),
        (GridLabeler, RNG.randn(2, 2, 2, 1), RNG.rand(2, 2, 2), r"y\[0\]\[0, 0\] is 0\."),
    ],
)
def test_quantities_are_no_classes(model, features, y, place):
    with pytest.raises(ValueError, match=rf"label type: continuous\. {place}.*OrdinalClassifier"):
        model(**QUICK).fit(features, y)


@pytest.mark.parametrize("dtype", [float, object])
def test_whole_floats_and_declared_fractions_are_classes(dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MulticlassClassifier(**QUICK).fit(X, (Y + 1.0).astype(dtype))
        assert model.classes_.tolist() == [1.0, 2.0, 3.0]
        halves = OrdinalClassifier(classes=[0.0, 0.5, 1.0], **QUICK).fit(X, (Y / 2).astype(dtype))
        assert set(halves.predict(X)) <= {0.0, 0.5, 1.0}
        SequenceLabeler(**QUICK).fit([X], [(Y + 1.0).astype(dtype)])


# --- dates and texts as numbers ------------------------------------------------------------------

DAYS = np.datetime64("2024-01-01") + np.arange(12)


def with_value(value):
    values = X.astype(object)
    values[4, 1] = value
    return values


FLAT = [
    pytest.param(lambda x: MulticlassClassifier(**QUICK).fit(x, Y), id="MulticlassClassifier"),
    pytest.param(
        lambda x: MultiLabelClassifier(**QUICK).fit(x, np.eye(3, dtype=int)[Y]),
        id="MultiLabelClassifier",
    ),
    pytest.param(
        lambda x: LabelRanker(y_format="ranks", **QUICK).fit(x, np.tile([0, 1, 2], (12, 1))),
        id="LabelRanker",
    ),
    pytest.param(lambda x: MulticlassClassifier(**QUICK).fit(X, Y).predict(x), id="predict"),
]


@pytest.mark.parametrize("use", FLAT)
@pytest.mark.parametrize(
    ("features", "said"),
    [
        (np.stack([DAYS] * 3, axis=1), r"dates or times \(datetime64\[D\]\) in column 0"),
        (np.stack([DAYS - DAYS[0]] * 3, axis=1), r"\(timedelta64\[D\]\) in column 0"),
        (with_value(np.datetime64("2024-01-01")), r"\(datetime64\) in column 1 at row 4"),
        (with_value(np.timedelta64(3, "D")), r"\(timedelta64\) in column 1 at row 4"),
        (with_value(datetime.datetime(2024, 1, 1)), r"\(datetime\) in column 1 at row 4"),
        (with_value("1.5"), r"string '1\.5' at row 4, column 1.*X\.astype\(float\)"),
        (with_value("1.5").tolist(), r"string '1\.5' at row 4, column 1.*X\.astype\(float\)"),
        (X.astype(str), r"string '.*' at row 0, column 0"),
        (X.astype("S"), r"string .* at row 0, column 0"),
    ],
)  # fmt: skip
def test_dates_and_texts_are_no_features(use, features, said):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=f"X holds .*{said}"):
            use(features)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (DAYS, r"dates or times \(datetime64.*\) in column 'when'"),
        (DAYS - DAYS[0], r"\(timedelta64.*\) in column 'when'"),
        (np.array([*map(str, range(12))], object), r"string '0' at row 0, column 'when'"),
        (np.array([0.5] * 11 + ["7"], object), r"string '7' at row 11, column 'when'"),
        (np.array([datetime.date(2024, 1, 1)] * 12, object), r"\(date\) in column 'when' at row 0"),
    ],
)
@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_columns_of_data_frames_are_named(package, column, said):
    frames = pytest.importorskip(package)
    if package == "polars" and column.dtype == object:
        column = column.astype(str) if isinstance(column[-1], str) else column.tolist()
        said = said.replace(r"\(date\) in column 'when' at row 0", r"\(Date\) in column 'when'")
        said = said.replace("'7' at row 11", r"'0\.5' at row 0")
    said = said.replace("datetime64", "[dD]ate(time64)?").replace("timedelta64", "(td|timede|Dur)")
    frame = frames.DataFrame({"x": X[:, 0], "when": column})
    with pytest.raises(ValueError, match=said):
        MulticlassClassifier(**QUICK).fit(frame, Y)


def test_numbers_in_objects_and_data_frames_are_features():
    pandas = pytest.importorskip("pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = MulticlassClassifier(**QUICK).fit(X, Y).coef_
        for same in (X.astype(object), pandas.DataFrame(X), pandas.DataFrame(X).astype("Float64")):
            assert np.array_equal(MulticlassClassifier(**QUICK).fit(same, Y).coef_, whole)


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        (lambda x: SequenceLabeler(**QUICK).fit([X, x], [Y, Y]), "position"),
        (lambda x: GraphLabeler(**QUICK).fit([(X, EDGES), (x, EDGES)], [Y, Y]), "node"),
        (lambda x: GridLabeler(**QUICK).fit([X[:, None], x[:, None]], [Y[:, None]] * 2), "node"),
    ],
)
def test_dates_and_texts_in_sequences_and_graphs(fit, said):
    with pytest.raises(ValueError, match=rf"X\[1\] holds the string '1\.5' at {said} 4, column 1"):
        fit(with_value("1.5"))
    with pytest.raises(ValueError, match=rf"X\[1\] holds dates .* in column 1 at {said} 4"):
        fit(with_value(np.datetime64("2024-01-01")))
    with pytest.raises(ValueError, match=r"X\[1\] holds dates or times \(datetime64\[D\]\)"):
        fit(np.stack([DAYS] * 3, axis=1))
    with pytest.raises(ValueError, match=r"X\[1\] (holds the string|must hold real numbers)"):
        fit(X.astype(str))


# --- rankings ------------------------------------------------------------------------------------

ROUND = np.array([[1, 2, 0], [0, 1, 2]] * 6)  # the first row is not its own inverse
SWAP = np.array([[1, 0, 2], [0, 1, 2]] * 6)


def fit_quietly(model, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*(did not converge|all zero)")
        return model.fit(X, y)


@pytest.mark.parametrize("base", [0, 1])
def test_rankings_of_two_meanings_are_not_taken_in_silence(base):
    said = (
        rf"y_format was not given.*y\[0\] == \[{1 + base}, {2 + base}, {base}\] puts the item of "
        rf"column 2 first, whereas as an ordering it would put item {1 + base} first"
    )
    with pytest.warns(UserWarning, match=said) as caught:
        model = LabelRanker(**QUICK).fit(X, ROUND + base)
    assert caught[0].filename == __file__
    assert model.y_format_ == "ranks"
    same = fit_quietly(LabelRanker(y_format="ranks", **QUICK), ROUND + base)
    assert np.array_equal(same.predict(X), model.predict(X))
    assert same.score(X, ROUND + base) == model.score(X, ROUND + base)


def test_rankings_of_one_meaning_need_no_word():
    assert fit_quietly(LabelRanker(y_format="orderings", **QUICK), ROUND).y_format_ == "orderings"
    assert fit_quietly(LabelRanker(items=list("abc"), **QUICK), ROUND).y_format_ == "ranks"
    assert fit_quietly(LabelRanker(**QUICK), SWAP).y_format_ == "ranks"
    with pytest.warns(UserWarning, match="y_format was not given"):
        LabelRanker(items=[0, 1, 2], **QUICK).fit(X, ROUND)


# --- class weights -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fit",
    [
        lambda weights: MulticlassClassifier(class_weight=weights, **QUICK).fit(X, Y),
        lambda weights: OrdinalClassifier(class_weight=weights, **QUICK).fit(X, Y),
        lambda weights: SequenceLabeler(class_weight=weights, **QUICK).fit([X], [Y]),
        lambda weights: GraphLabeler(class_weight=weights, **QUICK).fit([(X, EDGES)], [Y]),
        lambda weights: GridLabeler(class_weight=weights, **QUICK).fit([X[:, None]], [Y[:, None]]),
        lambda weights: MultiLabelClassifier(class_weight=weights, **QUICK).fit(
            X, [{int(k), 0} for k in Y]
        ),
    ],
)
def test_classes_without_a_weight_are_named(fit):
    with pytest.warns(UserWarning, match="class_weight leaves out 0, 2, which get the weight 1"):
        fit({1: 3.0})
    with pytest.raises(ValueError, match="class_weight names 7, which is not among the classes"):
        fit({0: 1.0, 1: 3.0, 2: 1.0, 7: 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*(did not converge|all zero)")
        fit({0: 1.0, 1: 3.0, 2: 1.0})
        fit("balanced")
