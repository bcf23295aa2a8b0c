"""Training problems on factor graphs: yeast, RCV1 and MSRC-21, with their test sets.

- yeast: 14 labels, all pairs; alpha = 0.01; test score is the share of right labels;
- RCV1: the 30 most frequent labels, all pairs; alpha = labels / examples; micro-averaged F1;
- the model of the soft-constraints paper on yeast and RCV1: one vector per label and one weight per
  pair, for both labels being present, no intercept, the loss is the number of wrong labels;
- MSRC-21: superpixels, a Potts table a class pair with edge features; alpha = mean number of
  nodes / images; share of right pixels among the labelled ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from experiments.baselines.lp_oracles import Oracle
from scipy import sparse

from maxmargin.features.rows import pack_rows
from maxmargin.graphs.factor_graph import FactorGraph
from maxmargin.graphs.inference.decode import decode
from maxmargin.graphs.inference.plan import make_plan
from maxmargin.graphs.label_graph import BOTH_ON, all_pairs, label_graphs
from maxmargin.graphs.packing import Layout, pack_graphs, plan_layout
from maxmargin.graphs.problem import GraphProblem

from .data import load_npz

N_CLASSES = 21


class Task(NamedTuple):
    """A training problem, and the score of weights on the test set."""

    name: str
    problem: GraphProblem
    score: Callable[[np.ndarray], float]
    measure: str


class _Test:
    """Test graphs, and how labels are scored."""

    def __init__(self, problem: GraphProblem, value: Callable[[np.ndarray], float], **options: Any):
        self.problem, self.value, self.options = problem, value, options
        self.plan = make_plan(problem.graphs)
        self.scorer = Oracle(problem)

    def __call__(self, weights: np.ndarray) -> float:
        graphs = self.problem.graphs
        unary, tables = np.empty(graphs.first_state[-1]), np.empty(graphs.first_entry[-1])
        for m in range(graphs.n_examples):
            _, states, entries = self.scorer.score(weights, m)
            unary[graphs.first_state[m] : graphs.first_state[m + 1]] = states
            tables[graphs.first_entry[m] : graphs.first_entry[m + 1]] = entries
        labels = decode(graphs, unary, tables, plan=self.plan, **self.options).labels
        return self.value(labels)


def _pack(
    graphs: list[FactorGraph], layout: Layout, X: Any, truth: np.ndarray, alpha: float | None,
    costs: np.ndarray, max_min: bool = False,
) -> GraphProblem:  # fmt: skip
    packed, features = pack_graphs(graphs, layout)
    return GraphProblem(
        packed, pack_rows(X, fit_intercept=True), features, truth, costs,
        alpha=1.0 if alpha is None else alpha, sample_weight=np.ones(len(graphs)), max_min=max_min,
    )  # fmt: skip


def label_sets(
    X: Any, Y: np.ndarray, alpha: float, max_min: bool = False, edges: str | None = None
) -> tuple[GraphProblem, Layout]:
    """Label sets with a table over each pair of labels (or of neighbours, ``edges="chain"``)."""
    n, n_labels = Y.shape
    graph = _label_graph(n_labels, edges)
    layout = plan_layout([graph])
    costs = np.full(n * n_labels, 1.0 / n_labels)
    return _pack([graph] * n, layout, X, Y.ravel(), alpha, costs, max_min), layout


def paper_label_sets(X: Any, Y: np.ndarray, alpha: float) -> GraphProblem:
    """Label sets as in the soft-constraints paper."""
    n, n_labels = Y.shape
    return GraphProblem(
        label_graphs(all_pairs(n_labels), n_labels, n, BOTH_ON), pack_rows(X, fit_intercept=False),
        np.ones((1, 1)), Y.ravel(), np.ones(n * n_labels), alpha=alpha, sample_weight=np.ones(n),
    )  # fmt: skip


def _paper_task(
    name: str, X: Any, Y: np.ndarray, X_test: Any, Y_test: np.ndarray, alpha: float,
    value: Callable[[np.ndarray, np.ndarray], float], measure: str, **options: Any,
) -> Task:  # fmt: skip
    problem, test = paper_label_sets(X, Y, alpha), paper_label_sets(X_test, Y_test, 1.0)
    test.costs = np.zeros_like(test.costs)
    score = _Test(test, lambda labels: value(labels.reshape(Y_test.shape), Y_test), **options)
    return Task(name, problem, score, measure)


def yeast_paper(n: int | None = None, alpha: float = 0.01) -> Task:
    """The paper's model of yeast: 14 * 103 + 91 = 1533 weights."""
    X, Y, X_test, Y_test = yeast_arrays()

    def accuracy(found: np.ndarray, Y: np.ndarray) -> float:
        return float(np.mean(found == Y))

    return _paper_task(
        "yeast, paper", X[:n], Y[:n], X_test, Y_test, alpha, accuracy, "label accuracy"
    )


def rcv1_paper(n: int = 5000, alpha: float = 0.01) -> Task:
    """The paper's model of RCV1: 30 * 47236 + 435 weights."""
    X, Y = rcv1_arrays()
    return _paper_task(
        "rcv1, paper", X[:n], Y[:n], X[5000:], Y[5000:], alpha, micro_f1, "micro F1", max_nodes=50
    )


def _label_graph(n_labels: int, edges: str | None = None) -> FactorGraph:
    graph = FactorGraph(np.zeros(1), np.full(n_labels, 2), groups=list(range(n_labels)))
    for i in range(n_labels):
        for j in range(i + 1, n_labels if edges is None else min(i + 2, n_labels)):
            graph.add_tables([(i, j)], group=(i, j))
    return graph


def _label_test(X: Any, Y: np.ndarray, layout: Layout, value: Any, **options: Any) -> _Test:
    n, n_labels = Y.shape
    zeros = np.zeros(n * n_labels)
    graphs = [_label_graph(n_labels)] * n
    problem = _pack(graphs, layout, X, zeros.astype(np.int64), None, zeros)
    return _Test(problem, lambda labels: value(labels.reshape(Y.shape), Y), **options)


def yeast_arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test part, X and Y each."""
    data = load_npz("yeast")
    train, X, Y = data["is_train"], data["X"].astype(np.float64), data["Y"].astype(np.int64)
    return X[train], Y[train], X[~train], Y[~train]


def yeast(n: int | None = None, alpha: float = 0.01, max_min: bool = False) -> Task:
    """1500 examples, 103 features, 14 labels; 917 test examples."""
    X, Y, X_test, Y_test = yeast_arrays()
    problem, layout = label_sets(X[:n], Y[:n], alpha, max_min)
    test = _label_test(X_test, Y_test, layout, lambda found, Y: float(np.mean(found == Y)))
    return Task("yeast", problem, test, "label accuracy")


def rcv1_arrays() -> tuple[sparse.csr_matrix, np.ndarray]:
    """6000 documents and their 30 most frequent labels."""
    data = load_npz("rcv1subset1")
    parts = (data["X_data"], data["X_indices"].astype(np.int32), data["X_indptr"])
    X = sparse.csr_matrix(parts, shape=data["X_shape"]).astype(np.float64)
    Y = np.unpackbits(data["Y_packed"], axis=1)[:, : int(data["n_labels"])]
    return X, Y[:, data["top30"]].astype(np.int64)


def micro_f1(found: np.ndarray, Y: np.ndarray) -> float:
    """F1 of all label decisions together."""
    return float(2.0 * (found & Y).sum() / max(1, found.sum() + Y.sum()))


def rcv1(n: int = 5000) -> Task:
    """5000 documents, 47236 sparse features, 30 labels; 1000 test documents."""
    X, Y = rcv1_arrays()
    problem, layout = label_sets(X[:n], Y[:n], Y.shape[1] / n)
    test = _label_test(X[5000:], Y[5000:], layout, micro_f1, max_nodes=50)
    return Task("rcv1", problem, test, "micro F1")


class Images(NamedTuple):
    """Superpixel graphs of some images, with the states of their nodes (21: unlabelled)."""

    graphs: list[FactorGraph]
    X: np.ndarray
    y: np.ndarray
    superpixels: np.ndarray  # number of each node in the data file


def _images(data: dict, chosen: np.ndarray, X: np.ndarray, E: np.ndarray, labelled: bool) -> Images:
    """Graphs of images; with ``labelled`` only their labelled superpixels."""
    graphs, numbers = [], []
    for m in chosen:
        low, high = data["node_offsets"][m : m + 2]
        first, last = data["edge_offsets"][m : m + 2]
        y = data["y"][low:high]
        keep = np.flatnonzero(y < N_CLASSES) if labelled else np.arange(high - low)
        if not len(keep):
            continue
        place = np.full(high - low, -1)
        place[keep] = np.arange(len(keep))
        pairs = place[data["edges"][first:last].astype(np.int64)]
        whole = (pairs >= 0).all(axis=1)
        graph = FactorGraph(X[low:high][keep], N_CLASSES)
        graphs.append(graph.add_tables(pairs[whole], E[first:last][whole], tie="potts"))
        numbers.append(low + keep)
    rows = np.concatenate(numbers)
    return Images(graphs, X[rows], data["y"][rows].astype(np.int64), rows)


def msrc(n: int | None = None, max_min: bool = False) -> Task:
    """335 images of training and validation, 256 test images."""
    data = load_npz("msrc21_superpixels")
    train, test = np.flatnonzero(data["split"] < 2)[:n], np.flatnonzero(data["split"] == 2)

    def standardised(name: str, offsets: str) -> np.ndarray:
        values = data[name].astype(np.float64)
        spans = zip(data[offsets][train], data[offsets][train + 1], strict=True)
        seen = np.concatenate([values[a:b] for a, b in spans])
        return (values - seen.mean(axis=0)) / (seen.std(axis=0) + 1e-9)

    X, E = standardised("X", "node_offsets"), standardised("edge_X", "edge_offsets")
    images, others = _images(data, train, X, E, True), _images(data, test, X, E, False)
    sizes = np.array([graph.n_variables for graph in images.graphs])
    layout = plan_layout(images.graphs)
    alpha = sizes.mean() / len(sizes)
    costs = np.repeat(1.0 / sizes, sizes)
    problem = _pack(images.graphs, layout, images.X, images.y, alpha, costs, max_min)
    zeros = np.zeros(len(others.y))
    packed = _pack(others.graphs, layout, others.X, zeros.astype(np.int64), None, zeros)
    right = _pixels(data)

    def accuracy(labels: np.ndarray) -> float:
        counts = right[others.superpixels]
        return float(counts[np.arange(len(labels)), labels].sum() / counts.sum())

    test_score = _Test(packed, accuracy, method="dual-decomposition", max_sweeps=10)
    return Task("msrc21", problem, test_score, "pixel accuracy")


def _pixels(data: dict) -> np.ndarray:
    """Pixels of each class in each superpixel, unlabelled ones left out."""
    counts = np.zeros((len(data["y"]), N_CLASSES), np.int64)
    known = data["gt_label"] < N_CLASSES
    rows, labels = data["gt_rows"][known], data["gt_label"][known]
    np.add.at(counts, (rows, labels), data["gt_pixels"][known].astype(np.int64))
    return counts


TASKS = {"yeast": yeast, "rcv1": rcv1, "msrc21": msrc}
