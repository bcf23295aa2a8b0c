"""Every kind of output: estimator, report and command line say the same, for every input format."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import kendalltau
from sklearn import metrics
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import KFold, cross_val_score
from sklearn.svm import LinearSVC

from latent_models import LEARNABLE
from marks import split
from maxmargin import (
    GraphLabeler,
    GridLabeler,
    LabelRanker,
    Latent,
    LatentPredictor,
    Matcher,
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    SequenceLabeler,
    SharedPairs,
    StructuredPredictor,
    SubsetSelector,
    TreeParser,
    datasets_made,
)
from maxmargin.conllu import Sentence
from maxmargin.report import Report
from maxmargin.tasks import TASKS, Outputs, task_of
from maxmargin.tasks.base import Data
from maxmargin.tasks.baselines import fit_tuned
from maxmargin.tasks.measures import are_spans, malformed_spans, span_scores
from test_interpreted import Rows

FEW = {"max_iter": 3, "random_state": 0}
IRIS, SPECIES = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
# Of every task two sets of examples: the second one is scored.
SENTENCES = datasets_made.make_sentences(30)
NETWORKS = datasets_made.make_networks(12)
PICTURES = datasets_made.make_pictures(6, size=6)
ARTICLES = datasets_made.make_label_sets(60)
TOPICS = ARTICLES._replace(y=np.array([[n in y for n in ARTICLES.names] for y in ARTICLES.y], int))
DRINKS = datasets_made.make_rankings(40)
POINTS = datasets_made.make_matchings(14)
RANDOM = np.random.RandomState(0)
ELEMENTS = [RANDOM.randn(5, 2) for _ in range(20)]
CHOICES = [np.sort(np.argsort(-x[:, 0] + 0.5 * RANDOM.randn(5))[: 1 + i % 3]) for i, x in
           enumerate(ELEMENTS)]  # fmt: skip
LETTERS = [RANDOM.randn(4, 3) for _ in range(24)]
TAGS = [np.array(["O", "B-X", "I-X"])[x.argmax(axis=1)] for x in LETTERS]
BITS = [RANDOM.randint(2, size=15).astype(float) for _ in range(16)]


def words_of(sentence):
    return [{"word": form, "tag": tag} for form, tag in sentence]


# name: model, X, y
CASES = {
    "multiclass": (MulticlassClassifier(**FEW), IRIS, NAMES),
    "ordinal": (OrdinalClassifier(**FEW), IRIS, SPECIES),
    "multilabel": (MultiLabelClassifier(**FEW), TOPICS.X, TOPICS.y),
    "sequence": (SequenceLabeler(**FEW), LETTERS, TAGS),
    "graph": (GraphLabeler(pairwise="potts", **FEW), NETWORKS.X, NETWORKS.y),
    "grid": (GridLabeler(pairwise="potts", **FEW), PICTURES.X, PICTURES.y),
    "ranking": (LabelRanker(y_format="ranks", **FEW), DRINKS.X, DRINKS.y),
    "matching": (Matcher(**FEW), POINTS.X, POINTS.y),
    "tree": (TreeParser(hash_bits=10, **FEW), SENTENCES.X, SENTENCES.y),
    "subset": (SubsetSelector(**FEW), ELEMENTS, CHOICES),
    "structured": (StructuredPredictor(Rows(3), **FEW), IRIS, SPECIES),
    "latent": (
        LatentPredictor(Latent(LEARNABLE, SharedPairs()), "lssvm", alpha=0.1, random_state=0),
        BITS, [np.arange(4) + i % 2 for i in range(16)],
    ),
}  # fmt: skip


def half(values, which):
    if hasattr(values, "iloc"):
        return values.iloc[which::2]
    return values[which::2]


def trained(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few passes are enough
        return model.fit(half(X, 0), half(y, 0))


@pytest.fixture(scope="module")
def fitted():
    """A trained model of each task, with what was held out."""
    known = {}

    def get(name):
        if name not in known:
            model, X, y = CASES[name]
            known[name] = trained(model, X, y)
        return known[name], *CASES[name][1:]

    return get


def section(model, X, y):
    """What a report says about a model."""
    report = Report("test")
    summary = report.add(
        model, X_train=half(X, 0), y_train=half(y, 0), X_test=half(X, 1), y_test=half(y, 1)
    )
    assert report.html().startswith("<!doctype html>")
    return summary, report._sections[0]


# --- they agree --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_score_report_and_command_line_agree(fitted, name):
    model, X, y = fitted(name)
    assert task_of(model).key == name
    summary, found = section(model, X, y)
    score = model.score(half(X, 1), half(y, 1))
    assert summary.score == pytest.approx(-score if summary.lower_is_better else score, abs=1e-12)
    assert 0.0 <= summary.score, "all measures of the first place are"
    if name not in ("multiclass", "ordinal", "multilabel", "sequence", "graph", "ranking", "tree"):
        return
    from maxmargin.cli._tasks import baseline_of, scores_of

    baseline = baseline_of(model, half(X, 0), half(y, 0))
    told = scores_of(model, half(X, 1), half(y, 1), baseline)
    trivial_name, trivial = found.others[0]
    assert trivial_name == baseline["says"]
    assert [(s.measure, s.value, s.larger_is_better) for s in told.measures] == [
        (m.name, m.value, not m.lower_is_better) for m in found.measures
    ]
    assert [s.baseline for s in told.measures] == [m.value for m in trivial]


def test_every_task_is_covered():
    assert set(CASES) | {"other"} == set(TASKS)


@pytest.mark.parametrize("name", CASES)
def test_weights_count_as_copies(fitted, name):
    """A weight of 2 is the same as having an example twice, for score too."""
    model, X, y = fitted(name)
    X, y = half(X, 1), half(y, 1)
    weights = np.ones(len(y))
    weights[0], weights[1] = 2.0, 0.0
    kept = [0, *range(2, len(y)), 0]
    if isinstance(X, np.ndarray):
        again = model.score(X[kept], y[kept])
    else:
        again = model.score([X[i] for i in kept], [y[i] for i in kept])
    assert model.score(X, y, sample_weight=weights) == pytest.approx(again, abs=1e-12)


# --- every input format ------------------------------------------------------------------------

FRAME = pd.DataFrame(IRIS, columns=list("abcd"))
ORDERINGS = np.array(list("abcdefgh"))[: DRINKS.y.shape[1]][np.argsort(DRINKS.y, axis=1)]
FORMATS = {
    "multiclass, CSR": (MulticlassClassifier(**FEW), sp.csr_array(IRIS), NAMES),
    "multiclass, data frame": (MulticlassClassifier(**FEW), FRAME, pd.Series(NAMES)),
    "multiclass, lists": (MulticlassClassifier(**FEW), IRIS.tolist(), NAMES.tolist()),
    "multiclass, kernel": (MulticlassClassifier(kernel="rbf", **FEW), IRIS, NAMES),
    "multiclass, two classes": (MulticlassClassifier(**FEW), IRIS[:100], NAMES[:100]),
    "ordinal, data frame": (OrdinalClassifier(**FEW), FRAME, SPECIES),
    "multilabel, CSR": (MultiLabelClassifier(**FEW), sp.csr_array(TOPICS.X),
                        sp.csr_array(TOPICS.y)),
    "multilabel, sets": (MultiLabelClassifier(**FEW), ARTICLES.X, ARTICLES.y),
    "multilabel, sets of 0 and 1": (MultiLabelClassifier(edges="none", **FEW), IRIS,
                                    [{0, 1} - {k} for k in SPECIES]),
    "multilabel, data frame": (MultiLabelClassifier(**FEW), pd.DataFrame(TOPICS.X),
                               pd.DataFrame(TOPICS.y, columns=TOPICS.names)),
    "sequence, CSR": (SequenceLabeler(**FEW), [sp.csr_array(x) for x in LETTERS], TAGS),
    "sequence, lists": (SequenceLabeler(**FEW), [x.tolist() for x in LETTERS],
                        [list(t) for t in TAGS]),
    "sequence, dicts": (SequenceLabeler(**FEW), [words_of(s) for s in SENTENCES.X],
                        [[tag for _, tag in s] for s in SENTENCES.X]),
    "sequence, feature names": (SequenceLabeler(**FEW),
                                [[[f"w={form}", "bias"] for form, _ in s] for s in SENTENCES.X],
                                [[tag for _, tag in s] for s in SENTENCES.X]),
    "sequence, kernel": (SequenceLabeler(kernel="rbf", **FEW), LETTERS, TAGS),
    "ranking, orderings": (LabelRanker(y_format="orderings", **FEW), DRINKS.X, ORDERINGS),
    "ranking, data frame": (LabelRanker(y_format="ranks", **FEW), pd.DataFrame(DRINKS.X),
                            pd.DataFrame(DRINKS.y)),
    "matching, features of pairs": (Matcher(**FEW), [
        np.abs(a[:, None] - b[None]) for a, b in POINTS.X], POINTS.y),
    "tree, words": (TreeParser(hash_bits=10, **FEW), [[w for w, _ in s] for s in SENTENCES.X],
                    SENTENCES.y),
    "tree, dicts": (TreeParser(hash_bits=10, **FEW),
                    [[{"form": w, "upos": t} for w, t in s] for s in SENTENCES.X], SENTENCES.y),
    "tree, sentences": (TreeParser(hash_bits=10, **FEW), [
        Sentence(*[tuple(w for w, _ in s)] * 2, *[tuple(t for _, t in s)] * 3, tuple(h), ("_",) *
                 len(h)) for s, h in zip(SENTENCES.X, SENTENCES.y, strict=True)], SENTENCES.y),
    "tree, features of arcs": (TreeParser(**FEW), [
        np.eye(len(h) + 1)[:, 1:, None] + RANDOM.rand(len(h) + 1, len(h), 2)
        for h in SENTENCES.y], SENTENCES.y),
    "subset, CSR": (SubsetSelector(**FEW), [sp.csr_array(x) for x in ELEMENTS], CHOICES),
    "subset, dicts": (SubsetSelector(**FEW), [
        [{"a": float(a), "b": float(b)} for a, b in x] for x in ELEMENTS], CHOICES),
    "subset, masks": (SubsetSelector(**FEW), ELEMENTS, [
        np.isin(np.arange(len(x)), c) for x, c in zip(ELEMENTS, CHOICES, strict=True)]),
    "graph, features of edges": (GraphLabeler(**FEW), [
        (nodes, edges, np.ones((len(edges), 1))) for nodes, edges in NETWORKS.X], NETWORKS.y),
    "grid, lists": (GridLabeler(pairwise="potts", **FEW), [x.tolist() for x in PICTURES.X],
                              [np.asarray(labels).tolist() for labels in PICTURES.y]),
}  # fmt: skip


@pytest.mark.parametrize("name", split(FORMATS, {"subset, CSR"}))  # which compiles
def test_report_takes_every_format(name):
    model, X, y = FORMATS[name]
    trained(model, X, y)
    summary, _ = section(model, X, y)
    score = model.score(half(X, 1), half(y, 1))
    assert summary.score == pytest.approx(-score if summary.lower_is_better else score, abs=1e-12)
    assert len(summary.baselines) >= 1


def test_scores_are_told_before_the_report(tmp_path, monkeypatch, capsys):
    """A report that cannot be written loses no scores."""
    pytest.importorskip("click", reason="needs the extra cli")
    import maxmargin.report
    from maxmargin.cli import main

    def fails(*given, **options):
        raise RuntimeError("no report today")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(maxmargin.report, "write_report", fails)
    code = main(["train", "multiclass", "@iris", "-o", "a.mm", "--holdout", "0.3",
                 "--report", "a.html"])  # fmt: skip
    captured = capsys.readouterr()
    assert code == 1 and "no report today" in captured.err
    assert "balanced accuracy" in captured.out and (tmp_path / "a.mm").exists()


# --- measures are those of scikit-learn and scipy -------------------------------------------------


def values(task, truth, found):
    return {measure.name: measure.value for measure in task.measures(truth, found)}


def test_measures_of_classes(fitted):
    model = fitted("multiclass")[0]
    y = NAMES[1::2].astype(object)
    y[:3] = ["new", "newer", "new"]  # labels that the model does not know
    task = task_of(model)
    truth, predicted = task.compare(IRIS[1::2], y)
    found = model.predict(IRIS[1::2]).astype(object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "accuracy": metrics.accuracy_score(y, found),
            "balanced accuracy": metrics.balanced_accuracy_score(y, found),
            "macro F1": metrics.f1_score(y, found, average="macro"),
        }
    assert values(task, truth, predicted) == pytest.approx(expected)
    assert set(task.unseen) == {"new", "newer"}


def test_measures_of_ordered_classes(fitted):
    model = fitted("ordinal")[0]
    task = task_of(model)
    truth, predicted = task.compare(IRIS[1::2], SPECIES[1::2])
    found = model.predict(IRIS[1::2])
    assert values(task, truth, predicted) == pytest.approx({
        "mean absolute error": metrics.mean_absolute_error(SPECIES[1::2], found),
        "accuracy": metrics.accuracy_score(SPECIES[1::2], found),
        "balanced accuracy": metrics.balanced_accuracy_score(SPECIES[1::2], found),
    })  # fmt: skip
    unknown = task.measures(*task.compare(IRIS[:1], [7]))[0]
    assert unknown.value == 2.0, "a label that is not known is as far away as possible"
    # Of an even number of labels the lower median; either is best.
    assert task.trivial(task.encode(IRIS[:4], [0, 0, 1, 1]))["label"] == 0


def test_measures_of_label_sets(fitted):
    model = fitted("multilabel")[0]
    task = task_of(model)
    X, y = TOPICS.X[1::2], TOPICS.y[1::2]
    found = np.asarray(model.predict(X))
    assert values(task, *task.compare(X, y)) == pytest.approx({
        "subset accuracy": metrics.accuracy_score(y, found),
        "Hamming loss": metrics.hamming_loss(y, found),
        "micro F1": metrics.f1_score(y, found, average="micro"),
        "macro F1": metrics.f1_score(y, found, average="macro", zero_division=np.nan),
    })  # fmt: skip
    sets, counts = np.unique(y, axis=0, return_counts=True)
    trivial = task.trivial(task.encode(X, y))
    assert counts[(sets == trivial["labels"]).all(axis=1)] == counts.max()


def test_hidden_entries_of_label_sets_do_not_count(fitted):
    model = fitted("multilabel")[0]
    task = task_of(model)
    X, y = TOPICS.X[1::2], TOPICS.y[1::2].astype(float)
    found = np.asarray(model.predict(X))
    y[:, 0] = -1
    y[3] = -1
    known = np.delete(np.arange(len(y)), 3)
    right = (y[known, 1:] == found[known, 1:]).all(axis=1)
    truth, predicted = task.compare(X, y)
    told = values(task, truth, predicted)
    assert told["subset accuracy"] == pytest.approx(right.mean())
    assert told["Hamming loss"] == pytest.approx((y[known, 1:] != found[known, 1:]).mean())
    assert model.score(X, y) == pytest.approx(right.mean())
    with pytest.raises(ValueError, match="all entries of y are hidden"):
        model.score(X, np.full(y.shape, None))


def test_measures_of_parts(fitted):
    model = fitted("sequence")[0]
    task = task_of(model)
    found, true = np.concatenate(model.predict(LETTERS[1::2])), np.concatenate(TAGS[1::2])
    told = values(task, *task.compare(LETTERS[1::2], TAGS[1::2]))
    assert told["accuracy"] == pytest.approx(metrics.accuracy_score(true, found))
    assert told["balanced accuracy"] == pytest.approx(metrics.balanced_accuracy_score(true, found))
    assert told["macro F1"] == pytest.approx(metrics.f1_score(true, found, average="macro"))
    whole = [(a == b).all() for a, b in zip(TAGS[1::2], model.predict(LETTERS[1::2]), strict=True)]
    assert told["exact match"] == pytest.approx(np.mean(whole)) and "span F1" in told


def test_spans():
    assert are_spans(["O", "B-X"]) and not are_spans(["B-X"]) and not are_spans(["O", "NOUN"])
    assert are_spans(["B-X", "I-X", "B-Y"]) and not are_spans(["B-X", "I-Y"])
    assert not are_spans(["O", "B-"])
    truth, found = ["B-X I-X O B-Y".split()], ["B-X O O B-Y".split()]
    assert [measure.value for measure in span_scores(truth, found)] == pytest.approx([0.5] * 3)
    precision, recall, _ = span_scores(truth, ["O O O O".split()])
    assert precision.text() == "not defined" and recall.text() == "0.0%"


@pytest.mark.parametrize(
    ("truth", "found", "malformed"),
    [
        ("B-X I-X O B-X", "B-X I-X O B-X", {}),
        ("I-X I-X O I-X", "I-X O I-X O", {}),  # IOB1
        ("B-X E-X O S-X", "S-X O O S-X", {}),  # BIOES
        ("B-X I-X B-Y I-X", "B-X I-X O I-X", {"scheme": "IOB2", "true": 1, "predicted": 1}),
        ("B-X B-X O B-X", "O I-X I-X O", {"scheme": "IOB2", "true": 0, "predicted": 2}),
        ("S-X B-X O S-X", "O O O O", {"scheme": "BIOES", "true": 1, "predicted": 0}),
    ],
)
def test_labels_that_break_the_scheme_of_their_spans(truth, found, malformed):
    assert malformed_spans([truth.split()], [found.split()]) == malformed


def test_measures_of_rankings(fitted):
    model = fitted("ranking")[0]
    X, y = DRINKS.X[1::2], DRINKS.y[1::2]
    found = model.predict(X)
    told = values(task_of(model), *task_of(model).compare(X, y))
    taus = [kendalltau(a, b).statistic for a, b in zip(y, found, strict=True)]
    assert told["Kendall tau"] == pytest.approx(np.mean(taus))
    assert told["position accuracy"] == pytest.approx((y == found).mean())
    assert told["exact match"] == pytest.approx((y == found).all(axis=1).mean())


def test_baselines_of_subsets_choose_as_many_as_are_true(fitted):
    """To choose everything is no way to find all that is true."""
    model, X, y = fitted("subset")
    _, found = section(model, X, y)
    task = task_of(model)
    truth = task.encode(half(X, 1), half(y, 1))
    assert (truth.sums(task.predict(half(X, 1), truth).codes) == truth.sums(truth.codes)).all()
    assert all(measured[0].value < 1.0 for _, measured in found.others)


def test_baseline_of_trees():
    task = TASKS["tree"](TreeParser())
    truth = Outputs.of_list([[2, 3, 0], [2, 0]])
    trivial = task.trivial(truth)
    assert trivial == {"says": "the head is always 1 word to the right", "offset": 1}
    assert task.constant(trivial, truth).codes.tolist() == [2, 3, 0, 2, 0]
    # Files of models that say nothing of an offset.
    assert task.constant({"says": "..."}, truth).codes.tolist() == [0, 1, 2, 0, 1]


def test_baseline_of_words_learns_distances_to_heads(fitted):
    # The distance to its head is the same for every occurrence of a word.
    X = [[("go", "VERB"), ("dog", "NOUN"), *[("the", "DET"), ("cat", "NOUN")] * n] for n in (0, 1)]
    X, y = X * 6, [[0, 1], [0, 1, 4, 2]] * 6
    task = task_of(fitted("tree")[0])
    hidden = [[None, *row[1:]] if k < 3 else row for k, row in enumerate(y)]
    train, test = (Data(X, X, task.encode(X, heads)) for heads in (hidden, y))
    found = task.alone(train, test)
    assert "distance" in found.name
    assert found.found.codes.tolist() == [head for row in y for head in row]


def test_regularisation_of_baselines_is_chosen():
    X, y = make_classification(200, 40, n_informative=3, flip_y=0.3, random_state=0)
    chosen = fit_tuned(LinearSVC(random_state=0), X, y, "accuracy").C
    # The same again by hand.
    order = np.random.RandomState(0).permutation(len(y))
    folds = KFold(3, shuffle=True, random_state=0)
    scores = {
        C: cross_val_score(LinearSVC(C=C, random_state=0), X[order], y[order], cv=folds).mean()
        for C in (0.01, 0.1, 1.0, 10.0)
    }
    assert scores[chosen] == max(scores.values()) > scores[1.0]


@pytest.mark.parametrize("name", ["sequence", "graph", "tree", "multilabel"])
def test_reports_on_labels_that_are_not_known(fitted, name):
    model, X, y = fitted(name)
    nothing = None if name in ("sequence", "graph") else -1
    hidden = [[nothing, *list(labels)[1:]] for labels in y]
    hidden = np.array(hidden) if name == "multilabel" else hidden
    summary, found = section(model, X, hidden)
    counted = found.test.truth.counted
    assert 0 < (~counted).sum() == len(half(hidden, 1))
    assert summary.score == pytest.approx(model.score(half(X, 1), half(hidden, 1)), abs=1e-12)
    marked = found.html("one").count("miss") if name == "multilabel" else 0
    assert marked <= (found.found.codes != found.test.truth.codes)[counted].sum()
