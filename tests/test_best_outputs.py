"""The k best outputs of estimators against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from maxmargin import LabelRanker, Matcher, SubsetSelector, TreeParser

RANDOM = np.random.RandomState(0)
K = 5


def _check(found, outputs, values):
    """The best outputs, all of them if there are fewer than k; equal ones in any order."""
    known = dict(zip(outputs, values))
    assert len({tuple(labels) for labels, _ in found}) == len(found)
    assert [value for _, value in found] == pytest.approx(sorted(values, reverse=True)[:K])
    for labels, value in found:
        assert value == pytest.approx(known[tuple(labels)])


@pytest.mark.more
def test_subsets_matchings_and_rankings():
    X = [RANDOM.randn(v, 3) for v in (4, 6, 3)]
    model = SubsetSelector().fit(X, [[0, 1], [2, 3], [0, 2]])
    for scores, best in zip(model.decision_function(X), model.predict_topk(X, K)):
        outputs = list(itertools.combinations(range(len(scores)), 2))
        _check(best, outputs, [scores[list(y)].sum() for y in outputs])

    X = [RANDOM.randn(m, m, 2) for m in (2, 4)]
    matcher = Matcher().fit(X, [[1, 0], [0, 2, 1, 3]])
    for scores, best in zip(matcher.decision_function(X), matcher.predict_topk(X, K)):
        m = len(scores)
        outputs = list(itertools.permutations(range(m)))
        _check(best, outputs, [scores[np.arange(m), list(y)].sum() for y in outputs])

    X, Y = RANDOM.randn(6, 3), np.array([RANDOM.permutation(3) for _ in range(6)])
    ranker = LabelRanker(y_format="ranks").fit(X, Y)
    orders = list(itertools.permutations(range(3)))
    asked = ranker.predict(X), ranker.decision_function(X), ranker.predict_topk(X, K)
    for first, scores, best in zip(*asked):
        assert tuple(best[0][0]) == tuple(first)
        assert len({tuple(ranking) for ranking, _ in best}) == K
        values = sorted((scores[np.arange(3), list(y)].sum() for y in orders), reverse=True)
        assert [value for _, value in best] == pytest.approx(values[:K])


@pytest.mark.more
def test_trees():
    X = [RANDOM.randn(m + 1, m, 2) for m in (1, 3)]
    parser = TreeParser().fit(X, [[0], [2, 0, 2]])
    for scores, best in zip(parser.decision_function(X), parser.predict_topk(X, K)):
        m = scores.shape[1]
        outputs, values = [], []
        for heads in itertools.product(range(m + 1), repeat=m):
            value = scores[list(heads), np.arange(m)].sum()
            if np.isfinite(value) and heads.count(0) == 1 and _reaches_root(heads):
                outputs.append(heads)
                values.append(value)
        _check(best, outputs, values)


def _reaches_root(heads):
    for node in range(1, len(heads) + 1):
        for _ in heads:
            node = heads[node - 1] if node else 0
        if node:
            return False
    return True
