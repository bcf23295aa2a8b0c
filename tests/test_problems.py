"""What every problem answers, and that a subset of its examples is a problem."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp

import steppers
from graph_models import small_problem
from latent_models import SPACES, NoLatent, examples
from marks import split
from maxmargin import (
    AffineMap,
    HiddenStates,
    LabelRanker,
    LabelSequence,
    Latent,
    Matcher,
    MulticlassClassifier,
    MultiLabelClassifier,
    Permutation,
    SequenceLabeler,
    SharedPairs,
    SubsetSelector,
    TreeParser,
)
from maxmargin import Subset as SubsetSpace
from maxmargin._dual_checks import check_dual
from maxmargin.estimators._base import StructuredEstimator
from maxmargin.latent.objective import DrawnProblem, ExplainedProblem
from maxmargin.latent.problem import EXACT, MARGIN, SLACK
from maxmargin.latent.solvers import WorkingSetAscent
from maxmargin.solvers.problem import TrainingProblem
from maxmargin.structures.take import ragged
from test_interpreted import make_problems

RANDOM = np.random.RandomState(0)
N = 7
PARTS = [np.array([5, 0, 3]), np.array([1]), np.array([2, 4, 6])]
WEIGHTS = np.array([1.0, 0.5, 2.0, 3.0, 1.0, 0.25, 1.5])


def packed(model, X, y):
    """The problem that an estimator hands to its solver."""

    class Handed(Exception):
        pass

    with mock.patch.object(StructuredEstimator, "_solve", side_effect=Handed) as solver:
        with pytest.raises(Handed):
            model.fit(X, y, sample_weight=WEIGHTS)
    return solver.call_args.args[0]


def rows(kind=np.asarray):
    X = RANDOM.randn(N, 4) * (RANDOM.rand(N, 4) < 0.6)
    return packed(MulticlassClassifier(alpha=0.1), kind(X), np.arange(N) % 3)


def label_sets():
    return packed(
        MultiLabelClassifier(alpha=0.1, edges="none"), RANDOM.randn(N, 3), RANDOM.rand(N, 3) < 0.5
    )


LENGTHS = [3, 1, 4, 2, 5, 1, 2]


def sequences():
    X = [RANDOM.randn(n, 3) for n in LENGTHS]
    y = [RANDOM.randint(3, size=n) for n in LENGTHS]
    y[0][:] = [0, 1, 2]
    return packed(SequenceLabeler(alpha=0.1), X, y)


def rankings():
    y = np.array([RANDOM.permutation(4) for _ in range(N)])
    return packed(LabelRanker(alpha=0.1, y_format="ranks"), RANDOM.randn(N, 3), y)


def matchings():
    X = [RANDOM.randn(n + 1, n + 1, 3) for n in LENGTHS]
    return packed(Matcher(alpha=0.1), X, [RANDOM.permutation(n + 1) for n in LENGTHS])


def subsets():
    X = [RANDOM.randn(n + 1, 3) for n in LENGTHS]
    return packed(SubsetSelector(alpha=0.1), X, [[0] for _ in LENGTHS])


def trees():
    X = [[(f"w{k % 3}", f"t{k % 2}") for k in range(n)] for n in LENGTHS]
    return packed(TreeParser(alpha=0.1), X, [list(range(n)) for n in LENGTHS])


COMPILED = {
    "rows": rows,
    "sparse rows": lambda: rows(sp.csr_array),
    "label sets": label_sets,
    "sequences": sequences,
    "rankings": rankings,
    "matchings": matchings,
    "subsets": subsets,
    "trees": trees,
}


def interpreted():
    plain = make_problems("sequences")[1]
    return plain.subset(np.arange(N))  # of more examples


def latent(name):
    """Convex problems of all four packed kinds."""
    if name == "points":
        X = [(RANDOM.randn(n, 2), RANDOM.randn(n, 2)) for n in np.add(LENGTHS, 1)]
        data = Latent(Permutation(), AffineMap((1.0,), (0.0, 0.1))), X
        y = [RANDOM.permutation(n + 1) for n in LENGTHS]
    elif name == "states":
        data = Latent(LabelSequence(2), HiddenStates(2)), [RANDOM.randn(n, 2) for n in LENGTHS]
        y = [RANDOM.randint(2, size=n) for n in LENGTHS]
    elif name == "own":
        data = Latent(SubsetSpace(4, 2), NoLatent()), RANDOM.randn(N, 4, 3)
        y = [[i % 3, 3] for i in range(N)]
    else:
        X, y = examples(name, N)
        data = Latent(SPACES[name], SharedPairs()), X
    oracle = data[0].pack(data[1], y)
    objective = SLACK if name in ("trees", "own") else MARGIN
    problem = ExplainedProblem(oracle, 0.1, WEIGHTS, objective)
    return problem.with_truth(problem.explain(RANDOM.randn(problem.n_weights)))


LATENT = ("trees", "subsets", "points", "states", "own")


def restricted(dual, problem, part):
    """The dual blocks of some examples."""
    kind = type(dual).__name__
    if kind == "Blocks":
        return dual._replace(
            start=dual.start[part], count=dual.count[part], room=dual.room[part],
            used=dual.used.copy(),
        )  # fmt: skip
    if kind == "MeanBlocks":
        return type(dual)(dual.features[part], dual.losses[part])
    if kind == "WorkingSet":
        return type(dual)(*(array[part] for array in dual))
    graphs = problem.graphs
    places = [graphs.first_state, graphs.first_mass, graphs.first_message, graphs.first_message]
    fields = (dual.variables, dual.tables, dual.implied, dual.eta)
    taken = [array[ragged(at, part)[0]] for array, at in zip(fields, places, strict=True)]
    return type(dual)(*taken)


def check_partition(problem, dual, loss_of, concave_of):
    """Sums over the parts are those of the whole; blocks of the whole are those of the parts."""
    weights = RANDOM.randn(problem.n_weights)
    loss, concave, moved = 0.0, 0.0, np.zeros(problem.n_weights)
    for part in PARTS:
        small = problem.subset(part)
        blocks = restricted(dual, problem, part)
        assert isinstance(small, TrainingProblem) and type(small) is type(problem)
        assert small.n_examples == len(part) and small.n_weights == problem.n_weights
        np.testing.assert_allclose(small.scales, problem.scales[part], rtol=1e-12)
        if type(dual).__name__ != "WorkingSet":
            check_dual(blocks, small)
        loss += small.total_weight * loss_of(small, weights, part)
        concave += small.total_weight * concave_of(small, blocks)
        moved += small.weights_of(blocks)
    assert loss == pytest.approx(problem.total_weight * loss_of(problem, weights, None), rel=1e-9)
    whole = problem.total_weight * concave_of(problem, dual)
    assert concave == pytest.approx(whole, rel=1e-9) and abs(whole) > 0.0
    np.testing.assert_allclose(moved, problem.weights_of(dual), atol=1e-9)


def loss_of(problem, weights, part):
    return problem.evaluate(weights).primal - problem.penalty(weights)


@pytest.mark.parametrize(
    "kind",
    split([*COMPILED, "interpreted"], {"label sets", "matchings", "rankings", "subsets", "trees"}),
)
def test_parts_of_an_ordinary_problem_sum_to_the_whole(kind):
    problem = interpreted() if kind == "interpreted" else COMPILED[kind]()
    stepper = steppers.frank_wolfe(problem, rng=np.random.RandomState(0))
    stepper.advance(60.0, 3)
    stepper.advance(60.0, 100)
    check_partition(problem, stepper.dual_state, loss_of, lambda p, dual: p.concave(dual))


@pytest.mark.parametrize("kind", ["pairs", "potts", "count"])
@pytest.mark.parametrize("max_min", [False, True])
def test_parts_of_graphs_sum_to_the_whole(kind, max_min):
    problem = small_problem(kind, n=N, edge_features=0 if kind == "count" else 2, max_min=max_min)
    stepper = steppers.soft(problem, rng=np.random.RandomState(0))
    for _ in range(3):
        stepper.advance(60.0, 100)
    problem, dual = stepper.problem, stepper.dual_state
    messages = RANDOM.randn(len(dual.eta))

    def loss_of(small, weights, part):
        own = messages
        if part is not None:
            own = messages[ragged(problem.graphs.first_message, part)[0]]
        return small.primal(weights, own) - small.penalty(weights)

    def hard(small, dual):
        return small.hard_dual(dual).concave

    check_partition(problem, dual, loss_of, hard)
    points = [problem.subset(p).hard_dual(restricted(dual, problem, p)) for p in PARTS]
    moved = sum(point.weights for point in points)
    np.testing.assert_allclose(moved, problem.hard_dual(dual).weights, atol=1e-9)


@pytest.mark.parametrize("name", LATENT)
def test_parts_of_a_latent_problem_sum_to_the_whole(name):
    problem = latent(name)
    climb = steppers.Stepper(WorkingSetAscent(), problem, rng=np.random.RandomState(0))
    for _ in range(3):
        climb.advance(60.0, 100)
    check_partition(problem, climb.dual_state, loss_of, lambda p, dual: p.concave(dual))


def test_every_problem_answers_all_questions():
    drawn = DrawnProblem(latent("own").oracle, 0.1, WEIGHTS, False, draw=lambda w, rng: EXACT)
    for problem in (rows(), sequences(), small_problem("pairs"), interpreted(), latent("own")):
        assert problem.certifies == "global"
        for name in ("signature", "weights_of", "mean_square", "with_truth", "subset"):
            assert getattr(type(problem), name) is not getattr(TrainingProblem, name)
        for name in set(dir(TrainingProblem)) | {"n_weights", "n_examples", "scales", "alpha"}:
            assert hasattr(problem, name)
    assert drawn.certifies == "nothing" and drawn.subset(PARTS[0]).certifies == "nothing"


@pytest.mark.parametrize("name", LATENT)
def test_inertia_and_mixtures_are_those_of_any_problem(name):
    problem = latent(name)
    np.testing.assert_allclose(problem.with_inertia(1.0).scales, 0.5 * problem.scales)
    squares = (problem.truths.values**2).sum(axis=1)
    assert problem.mean_square() == pytest.approx(squares.mean())
    assert problem.signature() is None


def test_output_spaces_of_other_shapes_have_other_hashes():
    # The masks of two labels, and those of one label with a table of 40 positions: equal bytes.
    problem = sequences()
    found = set()
    for n, allowed in ((2, (0, 2)), (1, (40, 1))):
        masks = {"transition_mask": np.zeros((n, n)), "allowed": np.zeros(allowed, bool)}
        ends = {"first_mask": np.zeros(n), "last_mask": np.zeros(n)}
        problem.structure = problem.structure._replace(n_labels=n, **masks, **ends)
        found.add(problem.signature())
    assert len(found) == 2


def test_subsets_that_cannot_be_are_refused():
    problem = rows()
    problem.sample_weight[1] = 0.0
    with pytest.raises(ValueError, match="have no weight"):
        problem.subset([1])
    kernel = packed(MulticlassClassifier(alpha=0.1, kernel="rbf"), RANDOM.randn(N, 4), np.arange(N))
    with pytest.raises(TypeError, match="coefficients of all rows"):
        kernel.subset([0, 1])
