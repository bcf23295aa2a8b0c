"""The first fits of every estimator, on tiny data: what prebuilt kernels are built from.

Each fit trains an estimator with default parameters for one surrogate and one kind of features,
and then asks it for all it can tell. What is compiled on the way is what a user's first fit needs.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import maxmargin

from ._validation import method_of

_MARGINS = ("max-margin", "max-min")
_ALL = (*_MARGINS, "crf")
_SMOOTH = ("smooth-max-min",)
_FURTHER = (*_SMOOTH, "quadratic", "restricted-max-margin")
# Methods besides ``fit`` and ``score``; an estimator has some of them, some for a CRF only.
_QUESTIONS = (
    "predict", "decision_function", "predict_proba", "predict_log_proba", "predict_marginals",
)  # fmt: skip
_QUESTIONS_WITH_TRUTH = ("score", "log_likelihood")


class FirstFit(NamedTuple):
    """A fit by its name, ``task/surrogate/features``, and the group that it shares code with."""

    name: str
    group: str
    model: Callable[[], Any]
    data: Callable[[], tuple[Any, Any]]
    more: Callable[[], None] | None = None

    def run(self) -> Any:
        """Fit, and ask the model for everything; the fitted model."""
        X, y = self.data()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits to a handful of examples
            model = self.model().fit(X, y)
            for questions, data in ((_QUESTIONS, (X,)), (_QUESTIONS_WITH_TRUTH, (X, y))):
                for question in questions:
                    _ask(method_of(model, question), data)
        if self.more is not None:
            self.more()
        return model


def _ask(question: Callable[..., Any] | None, data: tuple[Any, ...]) -> None:
    """Ask a model, if it answers this question for its surrogate."""
    if question is not None:
        with contextlib.suppress(AttributeError):  # probabilities are those of a CRF
            question(*data)


# --- tiny data -----------------------------------------------------------------------------------


def _rows(kind: str) -> Any:
    X = np.random.RandomState(0).randn(12, 3)
    return sp.csr_matrix(X) if kind == "csr" else X


def _classes(kind: str) -> tuple[Any, Any]:
    return _rows(kind), np.arange(12) % 3


def _sets(kind: str) -> tuple[Any, Any]:
    return _rows(kind), (np.random.RandomState(1).rand(12, 4) < 0.5).astype(int)


def _rankings(kind: str) -> tuple[Any, Any]:
    order = np.argsort(np.random.RandomState(1).randn(12, 4), axis=1)
    return _rows(kind), np.argsort(order, axis=1) + 1


def _sequences(kind: str) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    X: list[Any] = [rng.randn(length, 3) for length in (2, 4, 3, 5, 4, 3)]
    y = [np.arange(len(x)) % 3 for x in X]
    if kind == "csr":
        X = [sp.csr_matrix(x) for x in X]
    elif kind == "dicts":
        X = [[{"w": f"{k}", "size": row[0]} for k, row in enumerate(x)] for x in X]
    return X, y


def _pictures(kind: str) -> tuple[Any, Any]:
    made = maxmargin.datasets_made.make_pictures(3, size=4)
    return [x[:, :, None] for x in made.X], made.y


def _networks(kind: str) -> tuple[Any, Any]:
    made = maxmargin.datasets_made.make_networks(3)
    if kind == "csr":
        return [(sp.csr_matrix(features), edges) for features, edges in made.X], made.y
    return made.X, made.y


def _factor_graphs(kind: str) -> tuple[Any, Any]:
    """Graphs with a count: what has code for any kind of factor."""
    rng = np.random.RandomState(0)
    X = [maxmargin.FactorGraph(rng.randn(3, 2), 2).add_tables([(0, 1)]) for _ in range(4)]
    return [graph.add_count(range(3), at_least=1, at_most=1) for graph in X], [[1, 0, 0]] * 4


def _matchings(kind: str) -> tuple[Any, Any]:
    return maxmargin.datasets_made.make_matchings(4)[:2]


def _sentences(kind: str) -> tuple[Any, Any]:
    return maxmargin.datasets_made.make_sentences(5)[:2]


def _subsets(kind: str) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    X = [rng.randn(size, 3) for size in (4, 5, 6, 5)]
    return X, [[0, 1], [1, 2], [0, 3], [2, 4]]


def _choices(kind: str) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    return list(rng.randn(6, 3)), [int(k) for k in np.arange(6) % 3]


def _hidden_pairs(kind: str) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    return rng.randint(2, size=(6, 10)), [np.sort(rng.permutation(5)[:3]) for _ in range(6)]


def _hidden_states(kind: str) -> tuple[Any, Any]:
    X, y = _sequences("dense")
    return X, [labels % 2 for labels in y]


def _hidden_maps(kind: str) -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    X = [(rng.randn(3, 2), rng.randn(3, 2)) for _ in range(4)]
    return X, [rng.permutation(3) for _ in X]


def _decode_every_way() -> None:
    """Decode graphs of all kinds: the method depends on the graph and its scores."""
    from .graphs.factor_graph import FactorGraph
    from .graphs.inference.decode import decode
    from .graphs.label_graph import label_graphs
    from .graphs.packing import pack_graphs, plan_layout

    def decode_one(n: int, n_states: int, edges: list[tuple[int, int]], equal: float) -> None:
        graph = FactorGraph(np.zeros((n, 1)), [n_states] * n)
        graph.add_tables(edges)
        packed = [pack_graphs([graph], plan_layout([graph]))[0]]
        if n_states == 2:
            packed.append(label_graphs(np.array(edges), n, 1))
        tables = np.tile(equal * np.eye(n_states).ravel(), len(edges))
        for graphs in packed:
            for most in (1000, 1):  # parts that roof duality leaves open: small, or too large
                decode(graphs, np.zeros(n * n_states), tables, max_nodes=most)

    path, ring = [(0, 1), (1, 2)], [(0, 1), (1, 2), (0, 2)]
    decode_one(3, 2, path, 1.0)  # a tree
    decode_one(3, 2, ring, 1.0)  # two states that want to be equal: a minimum cut
    decode_one(3, 2, ring, -1.0)  # or different, in vain: roof duality, branch and bound
    decode_one(3, 3, ring, -1.0)  # few labellings
    everyone = [(i, j) for i in range(9) for j in range(i)]
    decode_one(9, 3, everyone, -1.0)  # dual decomposition, local search
    for n in (3, 13):  # the same with a count: few labellings, and many
        graph = FactorGraph(np.zeros((n, 1)), 2).add_tables([(0, 1)]).add_count(range(n), at_most=1)
        packed = pack_graphs([graph], plan_layout([graph]))[0]
        decode(packed, np.tile([0.0, 1.0], n), np.zeros(4), max_sweeps=1)


class _Classes:
    """Three classes in plain Python."""

    def joint_feature(self, x, y):
        features = np.zeros((3, len(x)))
        features[y] = x
        return features.ravel()

    def loss(self, truth, y):
        return float(truth != y)

    def argmax(self, x, weights, truth=None):
        scores = weights.reshape(3, -1) @ x
        if truth is not None:
            scores = scores + 1.0
            scores[truth] -= 1.0
        return int(scores.argmax())


_LATENT: dict[str, tuple[Callable[[], Any], Callable[[str], tuple[Any, Any]]]] = {
    "pairs": (
        lambda: maxmargin.Latent(
            maxmargin.Subset(5, 3), maxmargin.SharedPairs(), superset=maxmargin.AnyPairs()
        ),
        _hidden_pairs,
    ),
    "states": (
        lambda: maxmargin.Latent(maxmargin.LabelSequence(2), maxmargin.HiddenStates(2)),
        _hidden_states,
    ),
    "maps": (
        lambda: maxmargin.Latent(maxmargin.Permutation(), maxmargin.AffineMap((1.0,), (0.0, 0.1))),
        _hidden_maps,
    ),
}

# --- the list ------------------------------------------------------------------------------------

# Estimator, task, group, surrogates, features, data. Groups that compile longest come first.
_TABLE: tuple[tuple[str, str, str, tuple[str, ...], str, Callable[[str], tuple[Any, Any]]], ...] = (
    ("GraphLabeler", "graph", "graphs", _MARGINS, "dense csr", _networks),
    ("GridLabeler", "grid", "graphs", _MARGINS, "dense", _pictures),
    ("MultiLabelClassifier", "multilabel", "graphs", _MARGINS, "dense csr", _sets),
    ("LabelRanker", "ranking", "permutations", _MARGINS, "dense csr rbf", _rankings),
    ("Matcher", "matching", "permutations", _MARGINS, "dense", _matchings),
    ("LabelRanker", "ranking", "permutations", ("crf", "quadratic"), "dense csr", _rankings),
    ("Matcher", "matching", "permutations", ("crf",), "dense", _matchings),
    ("SequenceLabeler", "sequence", "chains", _MARGINS, "dense csr dicts rbf", _sequences),
    ("TreeParser", "tree", "trees", _ALL, "words", _sentences),
    ("SequenceLabeler", "sequence", "chains of a CRF", ("crf",), "dense csr dicts rbf", _sequences),
    ("SequenceLabeler", "sequence", "chains of a CRF", _SMOOTH, "dense csr", _sequences),
    ("MulticlassClassifier", "multiclass", "classes", _ALL, "dense csr rbf", _classes),
    ("OrdinalClassifier", "ordinal", "classes", _ALL, "dense csr rbf", _classes),
    ("MulticlassClassifier", "multiclass", "classes", _FURTHER, "dense csr", _classes),
    ("OrdinalClassifier", "ordinal", "classes", _FURTHER, "dense csr", _classes),
    ("SubsetSelector", "subset", "subsets", _ALL, "dense", _subsets),
)


def _fit(
    name: str, group: str, data: Callable[[str], tuple[Any, Any]], kind: str, estimator: str,
    **options: Any,
) -> FirstFit:  # fmt: skip
    """A first fit whose estimator is imported and made when it runs."""
    return FirstFit(
        name, group, lambda: getattr(maxmargin, estimator)(**options), lambda: data(kind)
    )


# Which solver is chosen depends on the data: the tiny data here, or others.
_OF_TWO_SOLVERS = {
    f"{task}/crf/{kind}"
    for task in ("sequence", "multiclass", "ordinal")
    for kind in ("dense", "csr")
}


def _by_blocks(fit: FirstFit) -> FirstFit:
    """A fit that is followed by one with block Frank-Wolfe."""
    return fit._replace(more=lambda: fit.model().set_params(solver="bcfw").fit(*fit.data()))


def _all() -> Iterable[FirstFit]:
    any_graphs = _fit(
        "graph/max-margin/factors", "any graphs", _factor_graphs, "", "GraphLabeler", random_state=0
    )
    yield any_graphs._replace(more=_decode_every_way)
    for estimator, task, group, surrogates, kinds, data in _TABLE:
        for surrogate in surrogates:
            for kind in kinds.split():
                options: dict[str, Any] = {"surrogate": surrogate, "random_state": 0}
                if kind == "rbf":
                    options["kernel"] = "rbf"
                fit = _fit(f"{task}/{surrogate}/{kind}", group, data, kind, estimator, **options)
                yield _by_blocks(fit) if fit.name in _OF_TWO_SOLVERS else fit
    for surrogate in ("crf", *_SMOOTH):  # label sets have no edges with these
        for kind in ("dense", "csr"):
            options = {"surrogate": surrogate, "edges": "none", "random_state": 0}
            name = f"multilabel/{surrogate}/{kind}"
            fit = _fit(name, "classes", _sets, kind, "MultiLabelClassifier", **options)
            yield _by_blocks(fit) if surrogate == "crf" else fit
    for space, (latent, data) in _LATENT.items():
        # Slack re-scaling over all label sequences has no exact oracle.
        for trainer in ("random", "lssvm") if space == "states" else ("random", "all", "lssvm"):
            yield FirstFit(
                f"latent/{trainer}/{space}", "hidden variables", _latent(latent, trainer),
                functools.partial(data, ""),
            )  # fmt: skip
    name = "structured/max-margin/plain"
    yield _fit(name, "classes", _choices, "", "StructuredPredictor", structure=_Classes())


def _latent(latent: Callable[[], Any], trainer: str) -> Callable[[], Any]:
    return lambda: maxmargin.LatentPredictor(latent(), trainer, random_state=0)


FIRST_FITS: dict[str, FirstFit] = {fit.name: fit for fit in _all()}


def in_groups(names: Iterable[str]) -> dict[str, list[str]]:
    """Names of fits by their groups, both in the order of the list."""
    wanted = set(names)
    found: dict[str, list[str]] = {}
    for name, fit in FIRST_FITS.items():
        if name in wanted:
            found.setdefault(fit.group, []).append(name)
    return found
