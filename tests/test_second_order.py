"""Trees with siblings, grandparents and labels: argmax, parts, features and optimum by
enumeration."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest

from maxmargin import MulticlassClassifier, TreeParser, UnseenLabelWarning, load, read_conllu, save
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin.estimators._tree_data import Sentences
from maxmargin.features.relations import BAGS, relation_features
from maxmargin.features.relations import TEMPLATES as RELATIONS
from maxmargin.features.second_order import pack_second
from maxmargin.metrics import labeled_attachment_score, unlabeled_attachment_score
from maxmargin.structures.second_packing import pack_second_trees
from maxmargin.tasks import task_of
from test_rankings import solve
from tree_moves import enumerate_trees

pytestmark = pytest.mark.more  # compiles for itself

WORDS = ("the", "old", "dog", "sees", "cats")
TAGS = ("DET", "ADJ", "NOUN", "VERB", "NOUN")
TEMPLATES = ("upos | upos", "form | upos")
SECOND = (("upos | upos | upos", "| form | form"), ("upos | upos | upos", "form || form"))


def crosses(heads):
    """Whether an arc covers a word that is not a descendant of its head."""
    heads = [0, *heads]
    for d in range(1, len(heads)):
        h = heads[d]
        for word in range(min(h, d) + 1, max(h, d)):
            node = word
            while node not in (0, h):
                node = heads[node]
            if node != h:
                return True
    return False


def rows_of(n, bits=12):
    sentence = {"form": WORDS[:n], "upos": TAGS[:n]}
    return pack_second([sentence], TEMPLATES, "upos", SECOND, bits)


def structure_of(n, truth, single_root, allowed=None):
    allowed = np.ones((n, n + 1), bool) if allowed is None else allowed.copy()
    allowed[np.arange(n), np.arange(1, n + 1)] = False
    truth = np.asarray(truth, np.int32)
    return pack_second_trees(truth, np.array([0, n]), single_root, allowed.ravel())


@compiled
def look(structure, rows, weights, trees, scores, features, best):
    """Scores of parts and of trees, features of trees, and the best tree."""
    size = generic.block_size(structure, 0)
    generic.score_block(structure, rows, weights, 0, scores)
    values = np.empty(trees.shape[0])
    mu, parts = np.empty(size), np.empty(generic.most_parts(structure), np.int32)
    for t in range(trees.shape[0]):
        generic.embed(structure, 0, trees[t], mu)
        values[t] = mu @ scores
        count = generic.output_parts(structure, 0, trees[t], parts)
        for part in parts[:count]:
            mu[part] -= 1.0
        values[t] += np.abs(mu).max()  # nothing, if these are the parts of the tree
        generic.embed(structure, 0, trees[t], mu)
        generic.add_block(structure, rows, features[t], 0, mu, 1.0)
    work = np.full(generic.work_size(structure, rows), np.nan)
    value = generic.decode(structure, 0, scores, work, best)
    work[:] = np.nan
    generic.embed(structure, 0, trees[0], mu)
    norm = generic.squared_norm(structure, rows, 0, mu, work)
    return value, values, norm


def looked_at(structure, rows, weights, trees):
    n = trees.shape[1]
    size = int(structure.parts_indptr[-1])
    scores, features = np.empty(size), np.zeros((len(trees), rows.n_inputs))
    best = np.empty(n, np.int32)
    found = look(structure, rows, weights, trees.astype(np.int32), scores, features, best)
    return *found, features, best


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_the_best_tree_is_that_of_enumeration(n, single_root):
    trees = np.array([t for t in enumerate_trees(n, single_root) if not crosses(t)])
    rows = rows_of(n)
    for seed in range(20):
        random = np.random.RandomState(seed)
        weights = random.randn(rows.n_inputs)
        allowed = random.rand(n, n + 1) < (1.0 if seed % 2 else 0.7)
        allowed[np.arange(n), np.arange(n)] = True  # the word before
        possible = trees[allowed[np.arange(n), trees].all(axis=1)]
        structure = structure_of(n, [], single_root, allowed)
        value, values, norm, features, best = looked_at(structure, rows, weights, possible)
        assert value == pytest.approx(values.max(), abs=1e-10)
        assert values[(possible == best).all(axis=1)] == pytest.approx([value], abs=1e-10)
        np.testing.assert_allclose(features @ weights, values, atol=1e-10)
        assert norm == pytest.approx((features[0] ** 2).sum())


def test_a_true_tree_that_crosses_itself_is_an_output():
    truth = np.array([3, 4, 0, 3, 4])  # 3 -> 1 and 4 -> 2 cross
    assert crosses(truth)
    rows = rows_of(5)
    random = np.random.RandomState(0)
    weights = random.randn(rows.n_inputs)
    structure = structure_of(5, truth, True)
    features = looked_at(structure, rows, weights, truth[None])[3]
    *_, best = looked_at(structure, rows, weights + 10.0 * features[0], truth[None])
    np.testing.assert_array_equal(best, truth)
    found = looked_at(structure._replace(truth=truth[:0]), rows, features[0], truth[None])
    assert not crosses(found[-1])


# --- the estimator ----------------------------------------------------------------------------


def sentence(*words):
    """A sentence of (form, upos, head, label)."""
    lines = [
        f"{k}\t{form}\t{form.lower()}\t{tag}\t{tag}\t_\t{head}\t{label}\t_\t_"
        for k, (form, tag, head, label) in enumerate(words, start=1)
    ]
    return read_conllu(lines)[0]


SENTENCES = [
    sentence(("Old", "ADJ", 2, "amod"), ("dogs", "NOUN", 3, "nsubj"), ("bark", "VERB", 0, "root")),
    sentence(
        ("A", "DET", 2, "det"), ("cat", "NOUN", 3, "nsubj"), ("sees", "VERB", 0, "root"),
        ("dogs", "NOUN", 3, "obj"),
    ),
    sentence(  # the arcs 3 -> 1 and 4 -> 2 cross
        ("What", "PRON", 3, "obj"), ("now", "ADV", 4, "advmod"), ("see", "VERB", 0, "root"),
        ("we", "PRON", 3, "nsubj"),
    ),
    sentence(("Bark", "VERB", 0, "root")),
]  # fmt: skip
ALPHA = 30.0


@pytest.fixture(scope="module")
def parser():
    model = TreeParser(
        order=2,
        labels=MulticlassClassifier(alpha=1e-3),
        hash_bits=6,
        alpha=ALPHA,
        tol=1e-3,
        max_iter=20_000,
        random_state=0,
    )
    return model.fit(SENTENCES, SENTENCES)


@pytest.mark.more
def test_optimum(parser):
    """All candidates are allowed here: the outputs are all projective trees and the truth."""
    plan = parser._plan()
    w = cp.Variable(64)
    slacks = cp.Variable(len(SENTENCES))
    constraints = []
    for i, given in enumerate(SENTENCES):
        n = len(given)
        structure, rows = plan.pack(Sentences([given]))
        assert structure.arcs_indptr[-1] == n * n
        trees = [t for t in enumerate_trees(n, True) if not crosses(t)]
        trees = np.array([*trees, given.heads])
        features = looked_at(structure, rows, np.zeros(64), trees)[3]
        losses = (trees != given.heads).sum(axis=1) / np.mean([len(s) for s in SENTENCES])
        constraints.append(slacks[i] >= losses + (features - features[-1]) @ w)
    wanted = solve(0.5 * ALPHA * cp.sum_squares(w) + cp.sum(slacks) / len(SENTENCES), constraints)
    assert parser.status_ == "converged"
    assert parser.dual_ <= wanted + 1e-7 and parser.primal_ >= wanted - 1e-7
    assert parser.gap_ <= 1e-3 * parser.primal_


def test_labels_are_predicted_scored_and_saved(parser, tmp_path):
    true = [list(zip(s.heads, s.deprel, strict=True)) for s in SENTENCES]
    found = parser.predict(SENTENCES)
    assert found[0] == true[0] and found[3] == [(0, "root")]
    assert not any(crosses([head for head, _ in arcs]) for arcs in found)
    assert parser.label_model_.gap_ <= 0.01 * parser.label_model_.primal_
    assert parser.score(SENTENCES, true) == labeled_attachment_score(true, found)
    assert parser.score(SENTENCES, SENTENCES) == parser.score(SENTENCES, true)
    measures = task_of(parser).measures(*task_of(parser).compare(SENTENCES, true))
    values = {measure.name: measure.value for measure in measures}
    assert values["UAS"] == unlabeled_attachment_score(true, found)
    save(parser, tmp_path / "parser")
    assert load(tmp_path / "parser").predict(SENTENCES) == found
    other = [[(head, "new" if label == "root" else label) for head, label in y] for y in true]
    with pytest.warns(UnseenLabelWarning):
        assert parser.score(SENTENCES, other) == labeled_attachment_score(other, found)


def test_a_classifier_of_labels_may_be_given(parser):
    mine = MulticlassClassifier("crf", alpha=1e-3)
    model = TreeParser(labels=mine, hash_bits=6, random_state=0).fit(SENTENCES, SENTENCES)
    assert model.pruner_ is None and model.label_model_.surrogate == "crf"
    assert model.predict(SENTENCES)[0] == list(
        zip(SENTENCES[0].heads, SENTENCES[0].deprel, strict=True)
    )
    assert not hasattr(mine, "coef_")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.decision_function(SENTENCES), "decision_function needs a model of single"),
        (lambda m: m.predict_marginals(SENTENCES), "predict_marginals needs a model of single"),
        (lambda m: m.predict(SENTENCES, partial_y=[None] * 4), "partial_y needs a model of"),
        (lambda m: TreeParser(order=2).fit([["a", "b"]], [[2, 0]]), "order=2: the words of all"),
        (lambda m: TreeParser(order=2).fit([np.ones((3, 2, 1))], [[2, 0]]), "needs sentences of"),
        (lambda m: TreeParser(order=2).fit(SENTENCES[3:], [[None]]), "word 1 is not known; with"),
        (lambda m: TreeParser(labels=True).fit(SENTENCES[3:], [[(None, "a")]]), "is not known"),
    ],
)
def test_what_does_not_go_together(parser, call, message):
    with pytest.raises(ValueError, match=message):
        call(parser)


# --- features of words in trees ---------------------------------------------------------------


def words_around(heads):
    """For each word, the words of its roles: by the definition of each."""
    n = len(heads)
    for d in range(1, n + 1):
        h = heads[d - 1]
        children = [c for c in range(1, n + 1) if heads[c - 1] == d]
        siblings = [c for c in range(1, n + 1) if heads[c - 1] == h]
        yield {
            "d": d, "h": h, "g": heads[h - 1] if h else None,
            "l": children[0] if children else None, "r": children[-1] if children else None,
            "p": max((s for s in siblings if s < d), default=None),
            "n": min((s for s in siblings if s > d), default=None),
            "c": children, "s": [s for s in siblings if s != d],
        }  # fmt: skip


def value_of(token, roles, member, words):
    """What a token of a template says of a word."""
    if token in ("dir", "place"):
        h, d = roles["h"], roles["d"]
        far = sum(abs(h - d) > most for most in (1, 2, 3, 5, 10))
        return (0 if h == 0 else 1 if h > d else 2, far if token == "place" else None)
    role, _, rest = token.partition(".")
    at = member if role in "cs" else roles[role]
    offset = int(rest[-2:]) if rest[-1].isdigit() else 0
    if at is None:
        return "nobody"
    if not 0 <= at + offset <= len(words):
        return "outside"
    return "root" if at + offset == 0 else words[at + offset - 1]


@pytest.mark.parametrize("template", [*RELATIONS, *BAGS])
def test_features_of_relations(template):
    """Two words share a feature if and only if their conjunctions are equal."""
    words = ["a", "b", "a", "b", "a", "c", "a"]
    heads = [3, 1, 0, 3, 6, 3, 6]
    names = ("form", "lemma", "upos", "xpos", "feats")
    matrix, _ = relation_features([dict.fromkeys(names, words)] * 2, heads * 2, [template])
    dense = matrix.toarray()
    expected = []
    for roles in words_around(heads):
        bag = next((roles[role] for role in "cs" if f"{role}." in template), [None])
        expected.append({
            tuple(value_of(token, roles, member, words) for token in template.split())
            for member in bag
        })  # fmt: skip
    for i, j in itertools.combinations_with_replacement(range(len(heads)), 2):
        assert dense[i] @ dense[j + len(heads)] == len(expected[i] & expected[j]), (i, j)
