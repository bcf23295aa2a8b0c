"""Trees as a structure and as an estimator: enumeration, a convex solver, interface, real
sentences."""

from __future__ import annotations

import gzip
import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import realdata
import steppers
from maxmargin import Checked, Hidden, TreeParser, load, read_conllu, save
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin.estimators._tree_data import Sentences
from maxmargin.features.arcs import TEMPLATES, attributes_of, pack_arcs
from maxmargin.features.rows import pack_rows
from maxmargin.solvers.problem import Problem
from maxmargin.structures.arborescence import pack_trees
from maxmargin.surrogates.crf import Crf
from test_rankings import solve
from tree_moves import enumerate_trees

ALPHA = 0.05
EXACT = {"alpha": ALPHA, "tol": 1e-6, "max_iter": 20_000, "random_state": 0}
WORDS = [("the", "DET"), ("old", "ADJ"), ("dog", "NOUN"), ("sees", "VERB"), ("cats", "NOUN")]


def problem_data(lengths=(3, 2, 3, 1, 3), seed=0, single_root=True):
    """Arc features, trees and weights; the trees follow the features, with noise."""
    random = np.random.RandomState(seed)
    w = random.randn(4)
    X, y = [], []
    for m in lengths:
        x = random.randn(m + 1, m, 4)
        trees = enumerate_trees(m, single_root)
        scores = (x @ w)[trees, np.arange(m)].sum(axis=1) + 2.0 * random.randn(len(trees))
        X.append(x)
        y.append(trees[scores.argmax()].astype(np.int64))
    return X, y, random.uniform(0.5, 2.0, len(lengths))


def features_of_trees(x, trees):
    return x[trees, np.arange(x.shape[1])].sum(axis=1)


def mean_length(y, weights):
    """What the number of wrong heads is divided by."""
    return np.average([len(heads) for heads in y], weights=weights)


def optimum(surrogate, X, y, weights, single_root=True):
    """The smallest objective, with all trees enumerated."""
    w = cp.Variable(4)
    slacks = cp.Variable(len(X))
    constraints = []
    for i, (x, heads) in enumerate(zip(X, y, strict=True)):
        trees = enumerate_trees(len(heads), single_root)
        losses = (trees[:, None] != trees[None]).sum(axis=2) / mean_length(y, weights)
        true = int(np.flatnonzero((trees == heads).all(axis=1))[0])
        scores = features_of_trees(x, trees) @ w
        if surrogate == "crf":
            constraints.append(slacks[i] >= cp.log_sum_exp(scores) - scores[true])
            continue
        augmented = losses[true]
        if surrogate == "max-min":
            nu = cp.Variable(len(trees), nonneg=True)
            constraints.append(cp.sum(nu) == 1)
            augmented = nu @ losses
        constraints.append(slacks[i] >= augmented + scores - scores[true])
    return solve(0.5 * ALPHA * cp.sum_squares(w) + weights @ slacks / weights.sum(), constraints)


# --- the structure ----------------------------------------------------------------------------


@compiled
def block_maps(structure, rows, weights, i, labels, other, scores, followed):
    """Answers of the linear maps of a block, for the direction phi(labels) - phi(other) / 2."""
    size = generic.block_size(structure, i)
    direction, away = np.empty(size), np.empty(size)
    generic.score_block(structure, rows, weights, i, followed)
    generic.embed(structure, i, labels, direction)
    generic.embed(structure, i, other, away)
    loss = generic.expected_loss(structure, i, direction)
    direction -= 0.5 * away
    work = np.full(generic.work_size(structure, rows), np.nan)
    best = np.empty(labels.shape[0], np.int32)
    value = generic.decode(structure, i, followed, work, best)
    work[:] = np.nan
    norm = generic.squared_norm(structure, rows, i, direction, work)
    if generic.add_gram(structure, rows, i, direction, 0.7, followed):
        norm = -norm  # told apart by the sign
    generic.add_block(structure, rows, weights, i, direction, 0.7)
    generic.score_block(structure, rows, weights, i, scores)
    return value, norm, loss


@pytest.mark.parametrize("kind", [pytest.param("sparse", marks=pytest.mark.slow), "hashed"])
def test_the_structure_agrees_with_enumeration(kind):
    random = np.random.RandomState(0)
    X, y, _ = problem_data((4, 1, 3))
    indptr = np.array([0, 4, 5, 8])
    if kind == "hashed":
        sentences = [
            dict(zip(("form", "upos"), zip(*WORDS[:m], strict=True), strict=True))
            for m in (4, 1, 3)
        ]
        usable = [t for t in TEMPLATES if attributes_of([t]) <= {"form", "upos"}]
        rows = pack_arcs(sentences, usable, "upos", 8)
        X = hashed_features(rows, X)
    else:
        flat = np.concatenate([x.transpose(1, 0, 2).reshape(-1, 4) for x in X])
        rows = pack_rows(sp.csr_array(flat), fit_intercept=False)
    allowed = random.rand(int((np.diff(indptr) * (np.diff(indptr) + 1)).sum())) < 0.8
    allowed[20:22] = True
    costs = random.rand(8)
    tree = pack_trees(np.concatenate(y), indptr, True, costs, allowed)
    masks = np.split(allowed, tree.parts_indptr[1:-1])
    for i, x in enumerate(X):
        m = x.shape[1]
        trees = enumerate_trees(m, True)
        features = features_of_trees(x, trees)
        fits = masks[i].reshape(m, m + 1)[np.arange(m), trees].all(axis=1)
        w = random.randn(x.shape[2])
        first, second = random.randint(len(trees), size=2)
        moved, scores, followed = w.copy(), np.empty(m * (m + 1)), np.empty(m * (m + 1))
        value, norm, loss = block_maps(
            tree, rows, moved, i, trees[first], trees[second], scores, followed
        )
        wanted = (features @ w)[fits].max() if fits.any() else -np.inf
        assert value == pytest.approx(wanted, abs=1e-11)
        wrong = trees[first] != y[i]
        assert loss == pytest.approx((costs[indptr[i] : indptr[i + 1]] * wrong).sum(), abs=1e-14)
        direction = features[first] - 0.5 * features[second]
        assert abs(norm) == pytest.approx(direction @ direction, rel=1e-12)
        np.testing.assert_allclose(moved, w + 0.7 * direction, atol=1e-11)
        off = ~np.eye(m, m + 1, 1, dtype=bool).ravel()  # without arcs from a word to itself
        table = (x @ moved).T.ravel()
        np.testing.assert_allclose(scores[off], table[off], atol=1e-10)
        assert (norm < 0) == (kind != "hashed")
        if norm < 0:
            np.testing.assert_allclose(followed[off], table[off], atol=1e-10)


@compiled
def one_arc(structure, rows, i, part, out):
    size = generic.block_size(structure, i)
    direction = np.zeros(size)
    direction[part] = 1.0
    generic.add_block(structure, rows, out, i, direction, 1.0)


def hashed_features(rows, X):
    """Features of all arcs of a hashed store, read one arc at a time."""
    lengths = [x.shape[1] for x in X]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    tree = pack_trees(np.zeros(indptr[-1]), indptr, True)
    tables = []
    for i, m in enumerate(lengths):
        table = np.zeros((m, m + 1, rows.n_inputs))
        for d, h in itertools.product(range(m), range(m + 1)):
            if h != d + 1:
                one_arc(tree, rows, i, d * (m + 1) + h, table[d, h])
        tables.append(table.transpose(1, 0, 2))
    return tables


# --- optimal values ---------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", ["max-margin", "crf"])
def test_optimum_of_trees(surrogate):
    X, y, weights = problem_data()
    model = TreeParser(surrogate, **EXACT).fit(X, y, sample_weight=weights)
    wanted = optimum(surrogate, X, y, weights)
    assert model.status_ == "converged"
    assert model.dual_ <= wanted + 1e-7
    assert model.primal_ >= wanted - 1e-7
    assert model.primal_ == pytest.approx(wanted, abs=1e-6)
    assert model.dual_ == pytest.approx(wanted, abs=1e-6)


def max_min_objective(model, X, y, weights):
    """The max-min objective of a model: a linear program over all trees for each sentence."""
    total = 0.0
    for x, heads, weight in zip(X, y, weights, strict=True):
        trees = enumerate_trees(len(heads), True)
        losses = (trees[:, None] != trees[None]).sum(axis=2) / mean_length(y, weights)
        scores = features_of_trees(x, trees) @ model.coef_
        nu = cp.Variable(len(trees), nonneg=True)
        value = solve(cp.max(nu @ losses + scores), [cp.sum(nu) == 1])
        total += weight * (value - scores[(trees == heads).all(axis=1)][0])
    return 0.5 * ALPHA * model.coef_ @ model.coef_ + total / weights.sum()


@pytest.mark.more
def test_optimum_of_max_min():
    X, y, weights = problem_data()
    model = TreeParser("max-min", **{**EXACT, "tol": 1e-3}).fit(X, y, sample_weight=weights)
    wanted = optimum("max-min", X, y, weights)
    assert model.status_ == "converged"
    assert model.dual_ <= wanted + 1e-8 and model.primal_ >= wanted - 1e-8
    assert model.gap_ <= 1e-3 * model.primal_
    # The oracle itself is exact.
    assert model.oracle_error_ <= 1e-12
    assert model.primal_ == pytest.approx(max_min_objective(model, X, y, weights), abs=1e-8)


def test_the_gradient_of_a_crf():
    X, y, weights = problem_data()
    given = Sentences(X)
    tree = pack_trees(np.concatenate(y), given.indptr, True)
    rows = given.rows(given.spec("auto", None, 8))
    problem = Problem(tree, Crf(), rows, ALPHA, weights, 1)
    w = np.random.RandomState(1).randn(4)
    gradient = steppers.lbfgs(problem, w).state.at.gradient
    for j, step in enumerate(1e-5 * np.eye(4)):
        after, before = (steppers.lbfgs(problem, w + sign * step).state.at for sign in (1, -1))
        change = after.value - before.value
        assert gradient[j] == pytest.approx(change / 2e-5, abs=1e-9)


def test_a_fit_without_a_single_root():
    X, y, weights = problem_data(single_root=False)
    model = TreeParser(single_root=False, **EXACT).fit(X, y, sample_weight=weights)
    wanted = optimum("max-margin", X, y, weights, single_root=False)
    assert model.primal_ == pytest.approx(wanted, abs=1e-6)
    assert model.dual_ == pytest.approx(wanted, abs=1e-6)


# --- hidden heads -----------------------------------------------------------------------------


def test_nothing_hidden_is_ordinary_training():
    X, y, weights = problem_data()
    model = TreeParser(alpha=ALPHA, random_state=0)
    ordinary = clone(model).fit(X, y, weights)
    switched = clone(model).set_params(hidden=True).fit(X, [heads.tolist() for heads in y], weights)
    np.testing.assert_array_equal(ordinary.coef_, switched.coef_)
    assert switched.status_ == "converged" and not hasattr(switched, "objective_")


def latent_objective(model, X, y, weights):
    """The objective with hidden heads at their best, with all trees enumerated."""
    total = 0.0
    for x, heads, weight in zip(X, y, weights, strict=True):
        trees = enumerate_trees(len(heads), True)
        scores = features_of_trees(x, trees) @ model.coef_
        known = np.array([head is not None for head in heads])
        true = np.array([-1 if head is None else head for head in heads])
        loss = ((trees != true) & known).sum(axis=1) / mean_length(y, weights)
        fits = ((trees == true) | ~known).all(axis=1)
        total += weight * ((loss + scores).max() - scores[fits].max())
    return 0.5 * ALPHA * model.coef_ @ model.coef_ + total / weights.sum()


@pytest.mark.more
def test_hidden_heads_are_latent():
    X, y, weights = problem_data((4, 3, 4, 2, 3, 4), seed=5)
    partial = [heads.tolist() for heads in y]
    for i, d in ((0, 1), (0, 3), (1, 0), (2, 2), (5, 0), (5, 1)):
        partial[i][d] = None
    model = TreeParser(hidden=Hidden(2), alpha=ALPHA, tol=1e-4, random_state=0)
    model.fit(X, partial, sample_weight=weights)
    assert model.status_ == "stationary"
    objectives = [entry.objective for entry in model.rounds_]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(objectives))
    found = latent_objective(model, X, partial, weights)
    assert model.objective_ == pytest.approx(found, abs=1e-10)
    assert model.objective_ == min(model.start_objectives_)
    ordinary = TreeParser(alpha=ALPHA, tol=1e-4, random_state=0).fit(X, y, weights)
    # At the weights of complete training the objective is one of the values that could be had.
    assert model.objective_ <= latent_objective(ordinary, X, partial, weights) + 0.05


def test_hidden_heads_of_a_crf_are_summed_over():
    X, y, weights = problem_data((3, 3, 2), seed=6)
    partial = [[y[0][0], None, None], [None, y[1][1], y[1][2]], y[2].tolist()]
    model = TreeParser("crf", hidden=True, alpha=ALPHA, tol=1e-8, random_state=0)
    model.fit(X, partial, sample_weight=weights)
    gradient, value = ALPHA * model.coef_, 0.5 * ALPHA * model.coef_ @ model.coef_
    for x, heads, weight in zip(X, partial, weights / weights.sum(), strict=True):
        trees = enumerate_trees(len(heads), True)
        features = features_of_trees(x, trees)
        scores = features @ model.coef_
        fits = np.array([all(h is None or h == t for h, t in zip(heads, y)) for y in trees])
        value += weight * (np.log(np.exp(scores).sum()) - np.log(np.exp(scores[fits]).sum()))
        for part, sign in ((slice(None), 1.0), (fits, -1.0)):
            p = np.exp(scores[part])
            gradient = gradient + sign * weight * (p / p.sum()) @ features[part]
    assert model.objective_ == pytest.approx(value, abs=1e-12)
    assert gradient @ gradient / (2 * ALPHA) <= 1.01e-8 * value


# --- prediction -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crf():
    X, y, weights = problem_data()
    return TreeParser("crf", alpha=ALPHA, random_state=0).fit(X, y, sample_weight=weights), X, y


def test_predictions_agree_with_enumeration(crf):
    model, X, y = crf
    found, marginals = model.predict(X), model.predict_marginals(X)
    right = []
    for x, heads, table, mu, true in zip(
        X, found, model.decision_function(X), marginals, y, strict=True
    ):
        m = x.shape[1]
        trees = enumerate_trees(m, True)
        scores = features_of_trees(x, trees) @ model.coef_
        assert heads.tolist() == trees[scores.argmax()].tolist()
        p = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        for h, d in itertools.product(range(m + 1), range(m)):
            assert mu[h, d] == pytest.approx(p[trees[:, d] == h].sum(), abs=1e-10)
            wanted = -np.inf if h == d + 1 else x[h, d] @ model.coef_
            assert table[h, d] == pytest.approx(wanted, abs=1e-12)
        right.extend(heads == true)
    assert model.score(X, y) == pytest.approx(np.mean(right))


def test_known_heads_are_kept(crf):
    model, X, y = crf
    partial = [None, [None, y[1][1]], [y[2][0], -1, None], None, [np.nan, y[4][1], None]]
    found = model.predict(X, partial_y=partial)
    marginals = model.predict_marginals(X, partial_y=partial)
    for x, heads, mu, known in zip(X, found, marginals, partial, strict=True):
        m = x.shape[1]
        trees = enumerate_trees(m, True)
        for d, head in enumerate(known or []):
            if head is not None and head >= 0:
                assert heads[d] == head and mu[head, d] == pytest.approx(1.0, abs=1e-12)
                trees = trees[trees[:, d] == head]
        scores = features_of_trees(x, trees) @ model.coef_
        assert heads.tolist() == trees[scores.argmax()].tolist()
    assert model.predict(X, partial_y=y)[2].tolist() == y[2].tolist()


# --- interface --------------------------------------------------------------------------------


def test_sparse_and_dense_arrays_are_the_same():
    X, _, _ = problem_data()
    given = Sentences(X)
    sparse = Sentences([sp.csr_array(x.reshape(-1, 4)) for x in X])
    np.testing.assert_array_equal(given.lengths, sparse.lengths)
    for x, dense, csr in zip(X, given.examples, sparse.examples, strict=True):
        m = x.shape[1]
        np.testing.assert_array_equal(dense, csr.toarray())
        np.testing.assert_array_equal(dense.reshape(m, m + 1, 4), x.transpose(1, 0, 2))


def test_a_weight_of_two_is_a_sentence_twice():
    X, y, _ = problem_data()
    model = TreeParser(**EXACT)
    twice = clone(model).fit(X + X[:1], y + y[:1])
    weighted = clone(model).fit(X, y, sample_weight=[2, 1, 1, 1, 1])
    assert weighted.primal_ == pytest.approx(twice.primal_, abs=2e-6)


def sentences():
    """Words in several forms, and trees that hang every word below the verb."""
    X = [WORDS, WORDS[2:], [WORDS[3]], WORDS[1:4]]
    y = [[4, 4, 4, 0, 4], [2, 0, 2], [0], [3, 3, 0]]
    return X, y


def test_words_in_all_forms(tmp_path):
    X, y = sentences()
    model = TreeParser(hash_bits=10, random_state=0).fit(X, y)
    assert [heads.tolist() for heads in model.predict(X)] == y
    assert model.score(X, y) == 1.0
    assert model.n_features_in_ == 1024 and model.between_ == "upos"
    dicts = [[{"form": form, "upos": tag} for form, tag in words] for words in X]
    np.testing.assert_array_equal(clone(model).fit(dicts, y).coef_, model.coef_)
    save(model, tmp_path / "parser")
    again = load(tmp_path / "parser")
    assert [heads.tolist() for heads in again.predict(X)] == y
    forms = clone(model).fit([[form for form, _ in words] for words in X], y)
    assert forms.between_ is None and all("upos" not in t for t in forms.templates_)


def test_few_sentences_have_a_small_table_of_weights():
    X, y = sentences()
    model = TreeParser(random_state=0).fit(X, y)
    n_arcs = sum(len(words) * (len(words) + 1) for words in X)
    n_features = 2 * len(model.templates_) * n_arcs
    assert 4 * n_features <= model.n_features_in_ < 8 * n_features
    spec = Sentences([WORDS * 20] * 4).spec("auto", "upos", "auto")
    assert spec.bits == 20  # at most


def test_search_over_parameters():
    X, y = sentences()
    search = GridSearchCV(
        TreeParser(hash_bits=8, random_state=0), {"alpha": [0.1, 1.0]}, cv=2, error_score="raise"
    )
    search.fit(X, y)
    assert search.best_params_["alpha"] in (0.1, 1.0)


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[4, 4, 4, 0], [2, 0, 2], [0], [3, 3, 0]], r"y\[0\] has 4 heads but X\[0\] has 5 words"),
        (
            [[4, 4, 4, 0, 4], [2, 3, 2], [0], [3, 3, 0]],
            r"y\[1\] is not a tree: the arcs 3 -> 2, 2 -> 3",
        ),
        ([[4, 4, 4, 0, 4], [1, 0, 2], [0], [3, 3, 0]], r"y\[1\] is not a tree: the arcs 1 -> 1"),
        (
            [[4, 4, 4, 0, 4], [0, 0, 2], [0], [3, 3, 0]],
            r"y\[1\] has 2 roots: the arcs 0 -> 1 and 0 -> 2",
        ),
        (
            [[4, 4, 4, 0, 4], [2, 0, 4], [0], [3, 3, 0]],
            r"y\[1\]: the head of word 3 is 4; expected",
        ),
        ([[4, 4, 4, 0, 4], [2, 0, 0.5], [0], [3, 3, 0]], r"y\[1\] holds 0.5 for word 3"),
        ([[4, 4, 4, 0, 4], "abc", [0], [3, 3, 0]], r"y\[1\] must be a list of heads"),
        ([[4, 4, 4, 0, 4], [2, 0, None], [0], [3, 3, 0]], "word 3 is not known; .*hidden=True"),
        ([[4, 4, 4, 0, 4]], r"X has 4 sentences but y has 1"),
        (None, "requires y to be passed"),
    ],
)
def test_trees_that_are_none(y, message):
    with pytest.raises(ValueError, match=message):
        TreeParser(hash_bits=8, hidden=False).fit(sentences()[0], y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[], [("a", "b")]], r"X\[0\] has no words"),
        ([[("a", "b")], "ab"], r"X\[1\] must be a sentence: a list of words; received str"),
        ([[("a", "b")], [3]], r"X\[1\]\[0\] must be a word"),
        ([[("a", "b")], [{"form": "a"}, {"tag": "b"}]], r"X\[1\]\[1\] has the attributes"),
        ([[{"shape": "x"}]] * 2, "of which templates='auto' uses none"),
        (
            [np.zeros((3, 2, 1)), np.zeros((2, 2, 1))],
            r"X\[1\] must be an array of numbers of shape",
        ),
        (
            [np.zeros((3, 2, 1)), np.zeros((2, 1, 2))],
            r"X\[1\] has 2 features per arc but X\[0\] has 1",
        ),
        (
            [np.zeros((2, 1, 1)), np.full((3, 2, 1), np.nan)],
            r"X\[1\] contains NaN in the arc 0 -> 1",
        ),
        ([sp.csr_array(np.zeros((5, 2)))] * 2, r"X\[0\] has 5 rows; expected"),
        ([], "X is empty"),
        ("ab", "X must be a list of sentences; received str"),
    ],
)
def test_sentences_that_are_none(X, message):
    with pytest.raises(ValueError, match=message):
        TreeParser(hash_bits=8).fit(X, [[0], [0]])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"surrogate": "crf", "solver": "bcfw"}, "entropy of given marginals"),
        ({"hash_bits": 40}, "hash_bits must be at most 30"),
        ({"templates": ["form + |"]}, "a template must look like"),
        ({"templates": "all"}, "templates must be 'auto' or a list"),
        ({"templates": ["lemma | form"]}, r"X\[0\]: its words lack the attribute 'lemma'"),
        ({"between": 3}, "between must be the name of an attribute"),
        ({"single_root": "yes"}, "single_root must be True or False"),
        ({"order": 3}, "order must be 1 or 2; received 3"),
        ({"order": 2, "surrogate": "crf"}, "surrogate='crf' is not available for trees with"),
        ({"order": 2, "n_candidates": 0}, "n_candidates must be"),
        ({"labels": "yes"}, "labels must be False, True or a MulticlassClassifier"),
        ({"labels": True}, r"y\[0\] holds 4 for word 1; expected a pair of its head"),
    ],
)
def test_parameters_that_do_not_fit(parameters, message):
    with pytest.raises(ValueError, match=message):
        TreeParser(**parameters).fit(*sentences())


def test_predictions_need_the_features_of_the_fit(crf):
    model, X, _ = crf
    with pytest.raises(ValueError, match="X must hold arrays of arc features"):
        model.predict(sentences()[0])
    with pytest.raises(ValueError, match="X has 3 features per arc"):
        model.predict([x[:, :, :3] for x in X])
    with pytest.raises(ValueError, match=r"partial_y\[0\] is not a tree"):
        model.predict(X[:1], partial_y=[[2, 1, None]])


# --- CoNLL-U ----------------------------------------------------------------------------------


def line(number, form, head):
    return f"{number}\t{form}\t_\tNOUN\t_\t_\t{head}\tdep\t_\t_"


def test_conllu_files(tmp_path):
    lines = [
        "\ufeff# sent_id = 1", "1-2\tdu" + 8 * "\t_", line(1, "de", 2), line(2, "le", 0),
        "2.1\tx" + 8 * "\t_", "", "", line(1, "seul", 0), line(2, "inconnu", "_"),
    ]  # fmt: skip
    plain, zipped = tmp_path / "a.conllu", tmp_path / "a.gz"
    text = "\r\n".join(lines)
    plain.write_bytes(text.encode())
    zipped.write_bytes(gzip.compress(text.encode()))
    for source in (lines, plain, str(zipped)):
        first, second = read_conllu(source)
        assert first.form == ("de", "le") and first.heads == (2, 0) and len(first) == 2
        assert first.comments == ("sent_id = 1",) and second.heads == (0, -1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1\ta\tb"], "line 1: expected 10 columns, separated by tabs; received 3"),
        ([line(1, "a", 0), line(3, "b", 1)], "line 2: expected the number 2 of the next word"),
        ([line(1, "a", "x")], "line 1: the head must be an integer"),
        (["#", line(1, "a", 2)], "line 2: the head of word 1 must be 0 or another of the 1 words"),
        ([line(1, "a", 1)], "line 1: the head of word 1 must be 0 or another"),
        ([line(1, "a", 0), line(2, "b", 3), line(3, "c", 2)],
         "line 2: the heads of this sentence are not a tree: the arcs 3 -> 2, 2 -> 3"),
    ],
)  # fmt: skip
def test_bad_conllu(lines, message):
    with pytest.raises(ValueError, match=message):
        read_conllu(lines)


def test_real_sentences():
    train = read_conllu(realdata.data_file("ud_english_ewt_train.conllu.gz"))
    test = read_conllu(realdata.data_file("ud_english_ewt_dev.conllu.gz"))[:300]
    assert len(train) == 12_544 and sum(map(len, train)) == 204_577
    train = train[:600]
    with pytest.warns(ConvergenceWarning):
        model = TreeParser(
            hash_bits=18, max_iter=4, solver=Checked("auto", every=4), random_state=0
        )
        model.fit(train, [s.heads for s in train])
    # The most frequent offset for each pair of tags has .50.
    assert model.score(test, [s.heads for s in test]) > 0.70
