"""Losses of factor graphs: brackets against enumeration, forms of batches, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from maxmargin import FactorGraph
from maxmargin.torch import CRFLoss, FactorGraphs, GraphScores, MaxMarginLoss, MaxMinLoss, decode


def plain(n, states=2):
    return FactorGraph(np.zeros((n, 1)), n_states=states)


def cycles():
    """A triangle, a graph with a table over three variables, and a grid with a count."""
    triangle = plain(3, 3).add_tables([(0, 1), (1, 2), (0, 2)])
    triple = plain(4).add_tables([(0, 1), (2, 3)]).add_tables([(0, 1, 2)], group="triple")
    grid = plain(4).add_tables([(0, 1), (1, 3), (0, 2), (2, 3)])
    return [triangle, triple, grid.add_count([0, 1, 2, 3], at_most=2)]


def trees():
    star = plain(4, 3).add_tables([(0, 1), (0, 2), (3, 0)])
    chain = plain(5).add_chain(range(5))
    alone = FactorGraph(np.zeros((2, 1)), n_states=[2, 4], groups=[0, 1])
    return [star, chain, alone]


class Sizes:
    """Joint states, scores and true states of a list of graphs."""

    def __init__(self, graphs, seed=0, scale=1.0):
        random = np.random.RandomState(seed)
        self.graphs = graphs
        self.states = [torch.tensor(scale * random.randn(g.n_states.sum())) for g in graphs]
        self.tables = [torch.tensor(scale * random.randn(n_entries(g))) for g in graphs]
        self.labels = [np.array(list(allowed(g))) for g in graphs]
        self.truth = [torch.tensor(each[random.randint(len(each))]) for each in self.labels]

    def flat(self):
        scores = GraphScores(torch.cat(self.states), torch.cat(self.tables))
        return scores, torch.cat(self.truth)

    def hinges(self):
        """Structured hinge losses by enumeration."""
        found = []
        for k, graph in enumerate(self.graphs):
            values = [score(graph, self.states[k], self.tables[k], y) for y in self.labels[k]]
            wrong = (self.labels[k] != self.truth[k].numpy()).mean(1)
            true = score(graph, self.states[k], self.tables[k], self.truth[k].numpy())
            found.append(max(v + w for v, w in zip(values, wrong)) - true)
        return np.array(found)


def n_entries(graph):
    return sum(0 if b.tie is None else len(b.variables) * len(b.tie) for b in graph.blocks)


def allowed(graph):
    for y in itertools.product(*(range(k) for k in graph.n_states)):
        counts = [b for b in graph.blocks if b.tie is None]
        if all(b.low <= sum(y[v] for v in b.variables[0]) <= b.high for b in counts):
            yield y


def score(graph, states, tables, y):
    """Score of a labelling, from the definition."""
    starts = np.cumsum(graph.n_states) - graph.n_states
    total, at = sum(float(states[s + j]) for s, j in zip(starts, y)), 0
    for block in graph.blocks:
        if block.parents is not None:  # a tree: tables over child and parent
            members, k = block.variables[0], graph.n_states[block.variables[0, 0]]
            for v, parent in zip(members, block.parents):
                if parent >= 0:
                    total += float(tables[at + y[v] * k + y[members[parent]]])
                    at += k * k
            continue
        for row in block.variables if block.tie is not None else []:
            place = 0
            for v in row:
                place = place * graph.n_states[v] + y[v]
            total += float(tables[at + place])
            at += len(block.tie)
    return total


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_brackets_contain_the_enumerated_value(scale):
    data = Sizes(cycles() + trees(), scale=scale)
    kind = FactorGraphs(data.graphs)
    loss = MaxMarginLoss(kind, reduction="none")
    wanted = data.hinges()
    scores, truth = data.flat()
    for _ in range(3):
        value, bracket = loss(scores, truth, return_bracket=True)
        assert (bracket.lower.numpy() <= wanted + 1e-9).all()
        assert (bracket.upper.numpy() >= wanted - 1e-9).all()
        assert (value.numpy() >= wanted - 1e-9).all()
    # trees are exact, and so are decoded labellings of graphs as small as these
    np.testing.assert_allclose(value.numpy()[3:], wanted[3:], atol=1e-9)
    np.testing.assert_allclose(bracket.lower.numpy(), wanted, atol=1e-9)


def test_kept_messages_tighten_the_bound():
    data = Sizes(cycles()[:2])
    scores, truth = data.flat()
    kind = FactorGraphs(data.graphs, rounds=10)
    loss = MaxMarginLoss(kind, reduction="none")
    first = loss(scores, truth)
    for _ in range(40):
        last = loss(scores, truth)
    assert (last < first - 1e-3).any()
    kind.forget()
    torch.testing.assert_close(loss(scores, truth), first)
    many = MaxMarginLoss(FactorGraphs(data.graphs, rounds=410), reduction="none")(scores, truth)
    torch.testing.assert_close(last, many, atol=1e-6, rtol=0.0)


def test_gradients_are_those_of_finite_differences_on_trees():
    data = Sizes(trees())
    scores, truth = data.flat()
    loss = MaxMarginLoss(FactorGraphs(data.graphs), reduction="sum")

    def value(states, tables):
        return loss(GraphScores(states, tables), truth)

    states, tables = (each.clone().requires_grad_() for each in scores[:2])
    assert torch.autograd.gradcheck(value, (states, tables))  # piecewise linear, off kinks


@pytest.mark.parametrize("kind_of_loss", [MaxMarginLoss, MaxMinLoss])
def test_gradients_approach_marginals_of_the_relaxation(kind_of_loss):
    data = Sizes(cycles(), seed=1)
    kind = FactorGraphs(data.graphs, rounds=3000)
    loss = kind_of_loss(kind, reduction="sum")
    scores, truth = data.flat()
    states, tables = (each.clone().requires_grad_() for each in scores[:2])
    loss(GraphScores(states, tables), truth).backward()
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        along = [torch.randn(len(t), generator=generator, dtype=torch.float64) for t in scores[:2]]
        sides = []
        for step in (-1e-4, 1e-4):
            moved = GraphScores(scores.states + step * along[0], scores.tables + step * along[1])
            sides.append(loss(moved, truth).item())
        slope = (states.grad @ along[0] + tables.grad @ along[1]).item()
        assert slope == pytest.approx((sides[1] - sides[0]) / 2e-4, abs=2e-3)


def test_max_min_is_between_its_bounds():
    data = Sizes(cycles(), seed=2)
    scores, truth = data.flat()
    loss = MaxMinLoss(FactorGraphs(data.graphs, rounds=500), reduction="none")
    value, bracket = loss(scores, truth, return_bracket=True)
    assert (bracket.lower <= bracket.upper).all()
    # at most the structured hinge loss: the minimum over predictions is at most the truth's
    hinge = MaxMarginLoss(FactorGraphs(data.graphs, rounds=500), reduction="none")(scores, truth)
    assert (value <= hinge + 1e-3).all()


def test_forms_and_subsets_of_a_batch_agree():
    data = Sizes(cycles() + trees())
    kind = FactorGraphs(data.graphs)
    loss = MaxMarginLoss(kind, reduction="none")
    scores, truth = data.flat()
    whole = loss(scores, truth)
    labels = decode(scores, kind)
    kind.forget()
    listed = loss(GraphScores(data.states, data.tables), data.truth)
    torch.testing.assert_close(listed, whole)
    assert torch.equal(torch.cat(decode(GraphScores(data.states, data.tables), kind)), labels)
    chosen = [4, 0, 2]
    part = GraphScores(
        [data.states[i] for i in chosen], [data.tables[i] for i in chosen], torch.tensor(chosen)
    )
    weight = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    kind.forget()
    mean = MaxMarginLoss(kind)(part, [data.truth[i] for i in chosen], sample_weight=weight)
    torch.testing.assert_close(mean, whole[chosen] @ weight / 6.0)
    listed = decode(GraphScores(data.states, data.tables), kind)
    for k, graph in enumerate(data.graphs):
        values = [score(graph, data.states[k], data.tables[k], y) for y in data.labels[k]]
        found = score(graph, data.states[k], data.tables[k], listed[k].tolist())
        assert found == pytest.approx(max(values))


def test_errors_name_what_is_wrong():
    data = Sizes(cycles())
    kind = FactorGraphs(data.graphs)
    loss = MaxMarginLoss(kind)
    scores, truth = data.flat()
    cases = [
        (scores._replace(states=scores.states[:-1]), truth, "states must hold 25 numbers"),
        (scores._replace(tables=scores.tables.float()), truth, "tables are torch.float32"),
        (scores._replace(tables=None), truth, "tables must hold"),
        (scores._replace(examples=[0, 5, 1]), truth, "from 0 to 2"),
        (scores._replace(examples=[0, 0, 1]), truth, "must be different"),
        (GraphScores(data.states, data.tables[:2]), truth, "list of 3 tensors"),
        (scores.states, truth, "must be GraphScores"),
        (scores, truth + 7, "targets of example 0"),
        (scores, torch.cat([truth[:-4], torch.ones(4).long()]), "example 2 violate a count"),
    ]
    for given, targets, message in cases:
        with pytest.raises((TypeError, ValueError), match=message):
            loss(given, targets)
    states = scores.states.clone()
    states[10] = float("nan")
    with pytest.raises(ValueError, match="scores of example 1 contain NaN"):
        loss(scores._replace(states=states), truth)
    with pytest.raises(ValueError, match="graph has no 'crf' loss"):
        CRFLoss(kind)
    with pytest.raises(TypeError, match="must be a FactorGraph; received int"):
        FactorGraphs([3])
