"""Measures of structured predictions: spans, trees, label images, whole outputs."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, jaccard_score
from sklearn.model_selection import cross_val_score

from maxmargin import MulticlassClassifier, SequenceLabeler, metrics

# Labels, then the spans that conlleval's rules find, as start:end:type.
CONLL = [
    ("", ""),
    ("O", ""),
    ("O O O", ""),
    ("B-X", "0:1:X"),
    ("I-X", "0:1:X"),
    ("B-X I-X", "0:2:X"),
    ("I-X I-X", "0:2:X"),
    ("B-X B-X", "0:1:X 1:2:X"),
    ("I-X B-X", "0:1:X 1:2:X"),
    ("B-X I-Y", "0:1:X 1:2:Y"),
    ("I-X I-Y", "0:1:X 1:2:Y"),
    ("B-X B-Y", "0:1:X 1:2:Y"),
    ("B-X O I-X", "0:1:X 2:3:X"),
    ("O I-X I-X O", "1:3:X"),
    ("O B-X I-X I-X", "1:4:X"),
    ("B-X I-X B-X I-X", "0:2:X 2:4:X"),
    ("B-X I-X I-Y I-X", "0:2:X 2:3:Y 3:4:X"),
    ("B-X O O B-Y I-Y O", "0:1:X 3:5:Y"),
    ("B-NP-SBJ I-NP-SBJ", "0:2:NP-SBJ"),
    ("B-NP-SBJ I-NP", "0:1:NP-SBJ 1:2:NP"),
    ("S-X", "0:1:X"),
    ("S-X S-X", "0:1:X 1:2:X"),
    ("B-X E-X", "0:2:X"),
    ("B-X I-X E-X O", "0:3:X"),
    ("E-X E-X", "0:1:X 1:2:X"),
    ("E-X I-X", "0:1:X 1:2:X"),
    ("O E-X", "1:2:X"),
    ("B-X E-X B-X", "0:2:X 2:3:X"),
    ("S-X I-X", "0:1:X 1:2:X"),
    ("B-X I-X O O I-Y B-Y I-Y", "0:2:X 4:5:Y 5:7:Y"),
    ("I-X O I-X I-X B-X O", "0:1:X 2:4:X 4:5:X"),
]
# Scheme, labels, spans, number of malformed labels.
STRICT = [
    ("IOB2", "B-X I-X O B-Y", "0:2:X 3:4:Y", 0),
    ("IOB2", "I-X I-X B-X", "2:3:X", 2),
    ("IOB2", "B-X I-Y I-X", "0:1:X", 2),
    ("IOB2", "O I-X", "", 1),
    ("IOB1", "I-X I-X O I-Y", "0:2:X 3:4:Y", 0),
    ("IOB1", "I-X B-X I-X", "0:1:X 1:3:X", 0),
    ("IOB1", "O B-X I-X", "2:3:X", 1),
    ("IOB1", "I-Y B-X", "0:1:Y", 1),
    ("IOE2", "I-X E-X O E-Y", "0:2:X 3:4:Y", 0),
    ("IOE2", "I-X O E-X", "2:3:X", 1),
    ("IOE1", "I-X E-X I-X", "0:2:X 2:3:X", 0),
    ("IOE1", "I-X E-X O", "0:1:X", 1),
    ("BIOES", "B-X I-X E-X S-Y O", "0:3:X 3:4:Y", 0),
    ("BIOES", "B-X I-X O", "", 2),
    ("BIOES", "B-X B-X E-X", "1:3:X", 1),
    ("BIOES", "I-X E-X S-X", "2:3:X", 2),
    ("BIOES", "B-X I-Y E-X", "", 3),
    ("BILOU", "B-X I-X L-X U-Y O", "0:3:X 3:4:Y", 0),
]


def read_spans(text):
    parts = [span.split(":") for span in text.split()]
    return [metrics.Span(int(a), int(b), kind) for a, b, kind in parts]


@pytest.mark.parametrize("labels, spans", CONLL)
def test_spans_by_the_rules_of_conlleval(labels, spans):
    assert metrics.find_spans(labels.split()) == read_spans(spans)


@pytest.mark.parametrize("scheme, labels, spans, malformed", STRICT)
def test_spans_of_strict_schemes(scheme, labels, spans, malformed):
    labels = labels.split()
    counts = metrics.count_spans([labels], [labels], scheme)
    assert (counts.malformed_true, counts.malformed_predicted) == (malformed, malformed)
    if malformed:
        with pytest.warns(metrics.MalformedSpanWarning, match=f"{malformed} of labels"):
            found = metrics.find_spans(labels, scheme)
    else:
        found = metrics.find_spans(labels, scheme)
    assert found == read_spans(spans)


TRUE = [line.split() for line in ("B-X I-X O B-Y", "B-Y O B-X", "O O")]
FOUND = [line.split() for line in ("B-X I-X O B-X", "B-Y O B-X", "B-Z O")]


def test_scores_of_spans():
    counts = metrics.count_spans(TRUE, FOUND)
    assert counts.types == {"X": (2, 3, 2), "Y": (2, 1, 1), "Z": (0, 1, 0)}
    assert metrics.span_precision_score(TRUE, FOUND) == pytest.approx(3 / 5)
    assert metrics.span_recall_score(TRUE, FOUND) == pytest.approx(3 / 4)
    assert metrics.span_f1_score(TRUE, FOUND) == pytest.approx(2 * 3 / 9)
    each = [2 * 2 / 5, 2 * 1 / 3, 0]
    assert metrics.span_f1_score(TRUE, FOUND, average="macro") == pytest.approx(np.mean(each))
    weighted = metrics.span_f1_score(TRUE, FOUND, average="weighted")
    assert weighted == pytest.approx((2 * each[0] + 2 * each[1]) / 4)
    assert metrics.span_f1_score([["O"]], [["O"]]) == 0.0


def test_spans_of_one_position_are_scored_as_scikit_learn_scores_labels():
    rng = np.random.default_rng(0)
    true, found = rng.choice(["O", "S-X", "S-Y", "S-Z"], (2, 30, 5))
    for average in ("micro", "macro", "weighted"):
        wanted = f1_score(
            true.ravel(), found.ravel(), labels=["S-X", "S-Y", "S-Z"], average=average
        )
        for scheme in ("conll", "BIOES"):
            ours = metrics.span_f1_score(list(true), list(found), scheme=scheme, average=average)
            assert ours == pytest.approx(wanted)


def test_report_of_spans():
    report = metrics.span_classification_report(TRUE, FOUND, output_dict=True)
    assert list(report) == ["X", "Y", "Z", "micro avg", "macro avg", "weighted avg", "malformed"]
    assert report["X"] == {
        "precision": pytest.approx(2 / 3), "recall": 1.0, "f1-score": pytest.approx(0.8),
        "support": 2,
    }  # fmt: skip
    assert report["malformed"] == {"y_true": 0, "y_pred": 0}
    text = metrics.span_classification_report([["B-X"]], [["I-X"]], scheme="IOB2")
    assert "malformed labels, counted as O: 0 of y_true, 1 of y_pred" in text


def test_attachment_scores():
    true = [[(2, "det"), (0, "root"), (None, "obj")], [(0, "root")]]
    found = [[(2, "amod"), (0, "root"), (2, "obj")], [(0, "root")]]
    heads = [[[head for head, _ in sentence] for sentence in y] for y in (true, found)]
    assert metrics.unlabeled_attachment_score(*heads) == 1.0
    assert metrics.unlabeled_attachment_score(true, found) == 1.0
    assert metrics.labeled_attachment_score(true, found) == pytest.approx(2 / 3)
    assert metrics.exact_match_score([[2, 0], [0]], [[2, 0], [1]]) == 0.5


def test_mean_iou_is_the_mean_of_scikit_learns_jaccard_score():
    rng = np.random.default_rng(0)
    true = [rng.integers(4, size=shape) for shape in ((3, 4), (5, 2))]
    found = [rng.integers(4, size=image.shape) for image in true]
    flat = [np.concatenate([image.ravel() for image in y]) for y in (true, found)]
    wanted = jaccard_score(*flat, average="macro")
    assert metrics.mean_iou_score(true, found) == pytest.approx(wanted)
    known = flat[0] != 3
    wanted = jaccard_score(flat[0][known], flat[1][known], average="macro")
    assert metrics.mean_iou_score(true, found, void=3) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: metrics.span_f1_score([["B-X"]], [["B-X", "O"]]), r"y_true\[0\] has 1 labels but"),
        (lambda: metrics.span_f1_score([["B-X"]], []), "y_true has 1 examples but y_pred has 0"),
        (lambda: metrics.span_f1_score("B-X", "B-X"), "y_true must be a list"),
        (lambda: metrics.span_f1_score([["O"], ["NP"]], TRUE[:2]), "y_true"),
        (lambda: metrics.find_spans(["S-X"], "IOB2"), r"labels\[0\] is 'S-X'; the scheme 'IOB2'"),
        (lambda: metrics.find_spans(["O"], "iob"), "scheme must be one of"),
        (lambda: metrics.span_f1_score(TRUE, FOUND, average="none"), "average must be one of"),
        (lambda: metrics.labeled_attachment_score([[2]], [[2]]), "is 2; expected a pair"),
        (lambda: metrics.unlabeled_attachment_score([[None]], [[2]]), "no head is known"),
        (lambda: metrics.mean_iou_score([np.zeros((2, 3))], [np.zeros((2, 2))]), "the shape"),
        (lambda: metrics.mean_iou_score([], []), "y_true is empty"),
        (lambda: metrics.get_scorer("spanf1"), "is not known; expected one of exact_match"),
        (lambda: metrics.get_scorer(3), "scoring must be a name or a callable"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_scorers_in_cross_validation():
    rng = np.random.default_rng(0)
    y = [list(rng.choice(["O", "S-X"], 4)) for _ in range(20)]
    X = [np.array([[label == "O", 1.0] for label in labels]) for labels in y]
    model = SequenceLabeler(alpha=0.01)
    scores = cross_val_score(model, X, y, cv=2, scoring=metrics.get_scorer("span_f1"))
    assert np.all(scores == 1.0)
    assert set(metrics.scorer_names()) >= {"span_f1", "uas", "las", "kendall_tau", "mean_iou"}
    scores = cross_val_score(model, X, y, cv=2, scoring=metrics.get_scorer("token_f1_macro"))
    assert np.all(scores == 1.0)


def test_measures_of_one_label_say_what_to_use_for_sequences():
    X, y = [np.eye(2), np.eye(2)], [["a", "b"], ["a", "b"]]
    scorer = metrics.get_scorer("f1_macro")
    with pytest.raises(ValueError, match="scoring='f1_macro' of scikit-learn .* token_f1_macro"):
        scorer(SequenceLabeler(alpha=0.01).fit(X, y), X, y)
    model = MulticlassClassifier(alpha=0.01).fit(np.eye(2), [0, 1])
    assert scorer(model, np.eye(2), [0, 1]) == 1.0
    weighted = metrics.get_scorer("accuracy")(model, np.eye(2), [0, 0], sample_weight=[3, 1])
    assert weighted == 0.75


def test_token_f1_is_that_of_all_positions():
    true, found = [["a", "b"], [], ["c", "a"]], [["a", "a"], [], ["b", "a"]]
    for average in ("macro", "micro", "weighted"):
        wanted = f1_score(list("abca"), list("aaba"), average=average, zero_division=0.0)
        assert metrics.token_f1_score(true, found, average=average) == wanted
    with pytest.raises(ValueError, match="y_true has no labels"):
        metrics.token_f1_score([[]], [[]])
