"""Reports: the numbers are right, everything is there, nothing of a user's text is markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import MulticlassClassifier, OrdinalClassifier, SequenceLabeler, datasets_made
from maxmargin.report import Report, write_report
from maxmargin.report._charts import log_ticks, nice_ticks
from maxmargin.report._drawings import word_of
from maxmargin.report._markup import count, tag
from maxmargin.report._model import formula
from maxmargin.report._scores import advantage, interval, wilson
from maxmargin.report._section import choose
from maxmargin.tasks import Measure

EVIL = "<script>alert('x')</script>\"&'\u202e"
VOID_ELEMENTS = {"meta", "link", "br", "col", "hr"}


class Page(HTMLParser):
    """Elements, attributes and text of a document; elements must be closed in order."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.headings: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "elements that are not closed"

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID_ELEMENTS:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            return
        self.texts.append(data)
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def named(self, name):
        return [attributes for element, attributes in self.elements if element == name]


def check_page(text: str) -> Page:
    """What every report must be: whole, self-contained, accessible."""
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text), "nothing from elsewhere"
    assert not page.named("script") and not page.named("img") and not page.named("iframe")
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for attributes in page.named("a"):
        assert attributes["href"].removeprefix("#") in ids
    for name, attributes in page.elements:
        assert not any(key.startswith("on") for key in attributes), "no code in attributes"
        if name == "th":
            assert attributes["scope"] in ("col", "row")
        if name == "svg":
            assert attributes["role"] == "img"
    assert text.count("<title>") > len(page.named("svg")), "every drawing says what it is"
    assert len(page.named("caption")) == len(page.named("table"))
    assert len(page.named("h1")) == 1 and page.named("html")[0]["lang"] == "en"
    return page


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def flat(iris):
    X, y = iris
    return MulticlassClassifier(random_state=0).fit(X[::2], y[::2])


@pytest.fixture(scope="module")
def words():
    return datasets_made.make_words(30), datasets_made.make_words(12, part="test", random_state=1)


@pytest.fixture(scope="module")
def chain(words):
    return SequenceLabeler(tol=0.1, random_state=0).fit(words[0].X, words[0].y)


# --- numbers --------------------------------------------------------------------------------


def test_wilson_against_its_definition():
    # The bounds are the shares p at which the observed one is 1.96 deviations away.
    for right, n in ((0, 10), (7, 10), (50, 50), (13, 400)):
        low, high = wilson(right, n)
        for bound in (low, high):
            if 0.0 < bound < 1.0:
                deviations = abs(right / n - bound) / np.sqrt(bound * (1 - bound) / n)
                assert deviations == pytest.approx(1.959963984540054, rel=1e-9)
        assert low <= right / n <= high
    assert wilson(0, 10)[0] == 0.0 and wilson(50, 50)[1] == 1.0


def test_intervals_cover():
    """Bootstrap intervals of pooled scores hold the truth about 95 times in 100."""
    rng = np.random.RandomState(0)
    hits = 0
    for _ in range(100):
        sizes = rng.randint(3, 9, 60).astype(float)
        low, high = interval(
            Measure("m", rng.binomial(sizes.astype(int), 0.7).astype(float), sizes)
        )
        hits += low <= 0.7 <= high
    assert 88 <= hits <= 100  # 95 +- 3 deviations of a binomial


def test_intervals_need_examples():
    few = Measure("m", np.ones(7), np.ones(7))
    assert interval(few) is None and advantage(few, few) == (0.0, None)


def test_advantage_is_paired():
    base = np.tile([0.0, 1.0], 50)
    better = Measure("m", np.minimum(base + (np.arange(100) % 10 == 0), 1.0), np.ones(100))
    difference, (low, high) = advantage(better, Measure("m", base, np.ones(100)))
    assert difference == pytest.approx(better.value - 0.5)
    assert 0.0 < low <= difference <= high < 0.2, "never worse, so surely better"
    worse = Measure("m", base + 1.0, np.ones(100), False, lower_is_better=True)
    assert advantage(worse, worse._replace(gained=base))[0] == pytest.approx(-1.0)


def test_scores_are_those_of_the_estimators(iris, flat, chain, words):
    X, y = iris
    report = Report("two")
    summary = report.add(flat, X_train=X[::2], y_train=y[::2], X_test=X[1::2], y_test=y[1::2])
    assert summary.score == pytest.approx(flat.score(X[1::2], y[1::2]), abs=1e-12)
    majority, svm = summary.baselines
    assert majority.score == pytest.approx(1 / 3)
    assert svm.score > 0.8
    assert summary.relative_gap == flat.gap_ / flat.primal_ <= 0.01
    train, test = words
    summary = report.add(chain, X_train=train.X, y_train=train.y, X_test=test.X, y_test=test.y)
    assert summary.score == pytest.approx(chain.score(test.X, test.y), abs=1e-12)
    low, high = summary.interval
    assert low < summary.score < high
    assert report.summaries[1] is summary


def test_ticks():
    assert nice_ticks(0.0, 1.0, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert nice_ticks(3.0, 3.0) == [3.0]
    assert log_ticks(0.001, 1.0) == pytest.approx([0.001, 0.01, 0.1, 1.0])
    assert len(log_ticks(0.2, 0.9)) >= 2
    assert count(1, "pass") == "1 pass" and count(2, "pair of sets") == "2 pairs of sets"
    assert count(1200, "pass") == "1,200 passes"


def test_half_of_the_examples_are_wrong_ones():
    right = np.array([True] * 90 + [False] * 10)
    chosen = choose(right, 6)
    assert len(set(chosen)) == 6 and sum(right[i] for i in chosen) == 3
    assert len(choose(np.ones(4, bool), 6)) == 4
    assert choose(right, 0) == []


# --- pages ----------------------------------------------------------------------------------


def test_types_of_spans_and_malformed_labels():
    X = [["in", "New", "York", "ran"], ["Ann", "ran"], ["ran", "in", "Oslo"]] * 4
    y = [["O", "B-LOC", "I-LOC", "O"], ["B-PER", "O"], ["O", "O", "I-LOC"]] * 4  # the last is B-LOC
    X = [[{"word": word} for word in words] for words in X]
    report = Report("Names")
    report.add(SequenceLabeler(random_state=0).fit(X, y), X_train=X, y_train=y)
    text = check_page(report.html()).text
    assert "Types of spans" in text and "PER" in text
    assert "malformed in IOB2: 4 labels of the data" in text


def test_page_of_two_models(iris, flat, chain, words):
    X, y = iris
    report = Report("Flowers & words", introduction="Both.")
    report.add(flat, X_train=X[::2], y_train=y[::2], X_test=X[1::2], y_test=y[1::2],
               data_name="iris")  # fmt: skip
    train, test = words
    report.add(chain, X_train=train.X, y_train=train.y, X_test=test.X, y_test=test.y,
               title="Digits", image_shape=(8, 8), n_examples=3)  # fmt: skip
    page = check_page(report.html())
    wanted = ["Scores", "Data", "Certificate", "Convergence", "What was trained",
              "Right and wrong", "What was learnt", "Examples"]  # fmt: skip
    assert page.headings == ["Flowers & words", "iris", *wanted, "Digits", *wanted]
    for text in ("no weights at all", "max-margin:", "always setosa", "LinearSVC", "random_state",
                 "12 sequences", "precision", "Transitions"):  # fmt: skip
        assert text in page.text, text
    assert "max-min:" not in page.text, "only the formula that was used"
    assert page.text.count("sequence ") >= 3
    drawn = [a for a in page.named("svg") if a.get("shape-rendering")]
    assert len(drawn) >= 12, "the digits of three words"


def test_nothing_of_a_user_is_markup(tmp_path, iris, words):
    X, _ = iris
    X = X[::5]
    labels = np.where(X[:, 0] > 5.8, EVIL, "plain <b>")
    model = MulticlassClassifier(random_state=0).fit(X, labels)
    path = write_report(tmp_path / "evil.html", model, X_train=X, y_train=labels, title=EVIL,
                        data_name=EVIL)  # fmt: skip
    text = path.read_text(encoding="utf-8")
    page = check_page(text)
    assert not page.named("b") or all("swatch" in (a.get("class") or "") for a in page.named("b"))
    assert "<script>alert('x')</script>" in page.text
    assert "\u202e" not in text
    assert "since there are no test data" in page.text
    assert list(tmp_path.iterdir()) == [path], "no other file is left"


def test_words_are_escaped_too():
    assert tag("b", word_of({"word": EVIL})).count("<") == 2
    assert word_of({"bias": 1.0, "form": "dogs"}) == "dogs"
    assert word_of(["bias", "word=cat"]) == "cat"
    assert word_of((EVIL, "NOUN")) == EVIL
    assert word_of({"x": 1.0}) is None and word_of([]) is None


def test_pipelines_and_kept_defaults(iris, tmp_path):
    X, y = iris
    model = make_pipeline(StandardScaler(), MulticlassClassifier(random_state=0)).fit(X, y)
    report = Report("pipeline")
    summary = report.add(model, X_train=X, y_train=y, baselines=False, n_examples=0)
    assert summary.score == pytest.approx(model.score(X, y)) and summary.baselines == []
    page = check_page(report.html())
    assert "Examples" not in page.headings
    assert "MulticlassClassifier" in page.text


def test_ordinal_measures_distance(iris):
    X, y = iris
    steps = np.searchsorted(np.unique(y), y)
    model = OrdinalClassifier(random_state=0).fit(X[::2], steps[::2])
    data = {"X_train": X[::2], "y_train": steps[::2], "X_test": X[1::2], "y_test": steps[1::2]}
    report = Report("steps")
    summary = report.add(model, **data)
    assert summary.lower_is_better
    assert summary.score == pytest.approx(-model.score(X[1::2], steps[1::2]))
    assert summary.baselines[0].score == pytest.approx(np.abs(steps[1::2] - 1).mean())
    assert "small is good" in check_page(report.html()).text


class TreeParser(BaseEstimator):
    """Stands for the estimator of this name: a report asks for no more."""

    single_root = True
    are_words = False

    def _read(self, X):
        return self

    def fit(self, X, y):
        self.classes_ = ()
        return self

    def predict(self, X):
        return [np.array([2, 0, *[2] * (len(x) - 2)]) for x in X]

    def decision_function(self, X):
        return [np.eye(len(x) + 1, len(x)) for x in X]  # the best head of word d is word d - 1


def test_trees_by_name():
    made = datasets_made.make_sentences(20)
    model = TreeParser().fit(made.X, made.y)
    report = Report("trees")
    summary = report.add(model, X_train=made.X, y_train=made.y)
    right = sum(int((p == t).sum()) for p, t in zip(model.predict(made.X), made.y, strict=True))
    assert summary.score == pytest.approx(right / sum(map(len, made.y)))
    page = check_page(report.html())
    assert "UAS" in page.text
    assert made.X[0][0][0] in page.text


def test_arcs_without_a_tree():
    """The baseline of trees: each word its best head, by the scores of the model."""
    made = datasets_made.make_sentences(9)
    model = TreeParser().fit(made.X, made.y)
    summary = Report("arcs").add(model, X_train=made.X, y_train=made.y, n_examples=0)
    right = sum(int((np.arange(len(t)) == t).sum()) for t in made.y)
    assert summary.baselines[1].score == pytest.approx(right / sum(map(len, made.y)))


class SubsetSelector(TreeParser):
    """Stands for the estimator of this name."""

    vectorizer_ = None

    def predict(self, X, size):
        return [np.argsort(-np.asarray(x)[:, 0])[:k] for x, k in zip(X, size, strict=True)]


def test_subsets_by_name():
    rng = np.random.RandomState(0)
    X = [rng.randn(rng.randint(4, 7), 2) for _ in range(12)]
    y = [np.argsort(-x[:, 0])[:2] for x in X]
    y[0] = np.isin(np.arange(len(X[0])), y[0])  # a mask, with one mistake
    y[0][np.argmin(y[0])], y[0][np.argmax(y[0])] = True, False
    report = Report("subsets")
    summary = report.add(SubsetSelector().fit(X, y), X_train=X, y_train=y)
    assert summary.score == pytest.approx((11 + 0.5) / 12)
    assert "with a plus" in check_page(report.html()).text.lower()


class LatentPredictor(TreeParser):
    """Stands for the estimator of this name."""

    def predict(self, X):
        return [{1, 2} for _ in X]

    def distortions(self, X, y):
        return np.array([0.0 if value == {2, 1} else 0.25 for value in y])


def test_latent_outputs_by_name():
    X, y = np.zeros((10, 1)), [{1, 2}] * 6 + [{3}] * 4
    report = Report("latent")
    summary = report.add(LatentPredictor().fit(X, y), X_train=X, y_train=y)
    assert summary.score == pytest.approx(0.9) and summary.relative_gap is None
    page = check_page(report.html())
    assert "Certificate" not in page.headings and "['1', '2']" in page.text


def test_labels_that_are_not_known_do_not_count(chain, words):
    train, test = words
    y = [list(labels) for labels in test.y]
    for labels in y:
        labels[0] = None
    model = clone(chain).set_params(hidden=True)
    vars(model).update({name: v for name, v in vars(chain).items() if name.endswith("_")})
    summary = Report("hidden").add(
        model, X_train=train.X, y_train=train.y, X_test=test.X, y_test=y, baselines=False
    )
    found = chain.predict(test.X)
    right = sum(int((f[1:] == t[1:]).sum()) for f, t in zip(found, test.y, strict=True))
    assert summary.score == pytest.approx(right / sum(len(t) - 1 for t in test.y))


def test_no_bound_is_claimed_after_training_with_hidden_labels(chain, words):
    train, _ = words
    model = clone(chain)
    vars(model).update({name: v for name, v in vars(chain).items() if name.endswith("_")})
    model.status_, model.rounds_, model.objective_ = "stationary", [None] * 3, 0.5
    report = Report("hidden")
    summary = report.add(model, X_train=train.X, y_train=train.y, baselines=False)
    assert summary.relative_gap is None and summary.passes == model.n_iter_
    page = check_page(report.html())
    assert "no weights at all" not in page.text and "certified gap" not in page.text
    assert "not convex" in page.text


def test_formula_follows_the_surrogate(flat):
    assert "max_mu" not in formula(flat)
    text = formula(MulticlassClassifier("crf"))
    assert "log sum_j" in text and "max-margin:" not in text


# --- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X_test": [[1.0, 2.0, 3.0, 4.0]]}, ValueError, "X_test and y_test belong together"),
        ({"y_train": ["setosa"]}, ValueError, "X_train has 75 examples but y_train has 1"),
        ({"task": "sequence"}, ValueError, "is of task 'multiclass'; received task='sequence'"),
        ({"task": "poetry"}, ValueError, "task must be one of multiclass.*received 'poetry'"),
        ({"n_examples": -1}, ValueError, "n_examples"),
        ({"model": StandardScaler()}, TypeError, "one of MulticlassClassifier.*StandardScaler"),
        ({"model": MulticlassClassifier()}, ValueError, "not fitted"),
    ],
)
def test_bad_input_is_refused(tmp_path, iris, flat, change, error, message):
    X, y = iris
    given = {"model": flat, "X_train": X[::2], "y_train": y[::2], **change}
    with pytest.raises(error, match=message):
        write_report(tmp_path / "r.html", **given)
    assert not list(tmp_path.iterdir())


def test_unwritable_folder_leaves_nothing(tmp_path, iris, flat):
    X, y = iris
    with pytest.raises(OSError):
        write_report(tmp_path / "nowhere" / "r.html", flat, X_train=X, y_train=y)
    assert not list(tmp_path.iterdir())


def test_documented_code_runs(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[1] / "docs" / "reports.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, "reports.md", "exec"), {})
    assert check_page(Path("wine.html").read_text(encoding="utf-8")).headings[0] == "Report: wine"
    page = check_page(Path("both.html").read_text(encoding="utf-8"))
    assert "2 models" in page.text and "max_mu" in page.text
    assert capsys.readouterr().out.count("accuracy") == 2


def test_contents_charts_and_cards(iris):
    X, y = iris
    model = MulticlassClassifier(random_state=0).fit(X[::2], y[::2])
    data = {"X_train": X[::2], "y_train": y[::2], "X_test": X[1::2], "y_test": y[1::2]}
    report = Report("Two models")
    report.add(model, title="One: a model", **data)
    assert 'class="contents"' not in report.html()
    report.add(model, title="Two: the same", X_test=X[1::2], y_test=y[1::2])
    page = report.html()
    contents = re.search(r'<nav class="contents".*?</nav>', page).group()
    assert re.findall(r'href="#([^"]+)">([^<]+)<', contents) == [
        ("model-1", "One"),
        ("model-2", "Two"),
    ]
    assert page.count("Objective and its bound over passes</figcaption>") == 2
    assert page.count("Gap over seconds, logarithmic</figcaption>") == 2
    assert 'data-label="best baseline"' in page  # what a phone shows beside a number
    # Without training data there is nothing to compare with, and the report does not pretend.
    assert page.count("for training") == 1 and page.count("LinearSVC") > 0
    assert report.summaries[1].baselines == []
