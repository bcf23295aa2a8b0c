"""All outputs of small structures, as naively as possible: what enumeration compares with."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linprog

from maxmargin.torch import (
    Arborescence,
    Chain,
    ChainScores,
    Multiclass,
    Multilabel,
    Ordinal,
    Permutation,
    Subset,
)


class Case(NamedTuple):
    """One example of a structure."""

    structure: object
    leaves: tuple  # tensors that hold the scores
    scores: object  # of a batch with this example alone, made of the leaves
    target: torch.Tensor
    outputs: list  # all outputs, as labels
    losses: np.ndarray  # [predicted, true]
    values: torch.Tensor  # score of each output, differentiable

    @property
    def truth(self) -> int:
        return self.outputs.index(tuple(self.target.reshape(-1).tolist()))


def _hamming(outputs, share=True):
    table = np.array(outputs)
    wrong = table[:, None, :] != table[None, :, :]
    return wrong.mean(2) if share else wrong.sum(2).astype(float)


def _tensor(generator, *shape):
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def chain_case(generator, loss="0-1", constraints=None):
    K, T = 3, 3
    leaves = tuple(_tensor(generator, *shape) for shape in ((1, T, K), (K, K), (K,), (K,)))
    emissions, transitions, start, end = leaves
    structure = Chain(loss=loss, constraints=constraints)
    masks = structure.of_size(K).masks
    outputs = [
        y
        for y in itertools.product(range(K), repeat=T)
        if masks.first[y[0]]
        and masks.last[y[-1]]
        and all(masks.transitions[a, b] for a, b in itertools.pairwise(y))
    ]
    table = torch.tensor(outputs)
    values = start[table[:, 0]] + end[table[:, -1]]
    for t in range(T):
        values = values + emissions[0, t, table[:, t]]
        if t:
            values = values + transitions[table[:, t - 1], table[:, t]]
    label_losses = 1.0 - np.eye(K) if isinstance(loss, str) else np.asarray(loss)
    pairs = np.array(outputs)
    losses = label_losses[pairs[:, None, :], pairs[None, :, :]].mean(2)
    target = torch.tensor(outputs[len(outputs) // 2])[None]
    return Case(structure, leaves, ChainScores(*leaves), target, outputs, losses, values)


def table_case(generator, kind):
    if kind == "multilabel":
        scores = _tensor(generator, 1, 3)
        outputs = list(itertools.product((0, 1), repeat=3))
        values = torch.tensor(outputs, dtype=torch.float64) @ scores[0]
        target = torch.tensor([outputs[5]])
        return Case(Multilabel(), (scores,), scores, target, outputs, _hamming(outputs), values)
    scores = _tensor(generator, 1, 5)
    outputs = [(k,) for k in range(5)]
    labels = np.arange(5)
    losses = np.abs(labels[:, None] - labels[None, :]).astype(float)
    structure = Ordinal()
    if kind == "multiclass":
        losses, structure = np.minimum(losses, 1.0), Multiclass()
    elif kind == "matrix":
        losses = np.random.default_rng(1).uniform(0.2, 2.0, (5, 5))
        np.fill_diagonal(losses, 0.0)
        structure = Multiclass(loss=losses)
    return Case(structure, (scores,), scores, torch.tensor([3]), outputs, losses, scores[0])


def permutation_case(generator):
    n = 4
    scores = _tensor(generator, 1, n, n)
    outputs = list(itertools.permutations(range(n)))
    table = torch.tensor(outputs)
    values = scores[0][torch.arange(n), table].sum(1)
    target = table[7][None]
    return Case(Permutation(), (scores,), scores, target, outputs, _hamming(outputs), values)


def _is_tree(heads, single_root):
    if single_root and heads.count(0) != 1:
        return False
    for word in range(1, len(heads) + 1):
        seen = set()
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return True


def tree_case(generator, single_root):
    m = 4
    scores = _tensor(generator, 1, m, m + 1)
    outputs = [
        y for y in itertools.product(range(m + 1), repeat=m) if _is_tree(list(y), single_root)
    ]
    table = torch.tensor(outputs)
    values = scores[0][torch.arange(m), table].sum(1)
    target = table[len(outputs) // 3][None]
    structure = Arborescence(single_root=single_root)
    return Case(structure, (scores,), scores, target, outputs, _hamming(outputs), values)


def subset_case(generator):
    v, s = 5, 2
    scores = _tensor(generator, 1, v)
    outputs = [
        tuple(int(e in chosen) for e in range(v)) for chosen in itertools.combinations(range(v), s)
    ]
    table = np.array(outputs, float)
    values = torch.tensor(table) @ scores[0]
    target = torch.tensor(outputs[4])[None]
    losses = 1.0 - table @ table.T / s
    return Case(Subset(size=s), (scores,), scores, target, outputs, losses, values)


MAKERS = {
    "multiclass": lambda g: table_case(g, "multiclass"),
    "ordinal": lambda g: table_case(g, "ordinal"),
    "matrix": lambda g: table_case(g, "matrix"),
    "multilabel": lambda g: table_case(g, "multilabel"),
    "chain": chain_case,
    "chain constrained": lambda g: chain_case(
        g, constraints={"transitions": [(0, 1), (2, 2)], "first": [2], "last": [0]}
    ),
    "chain matrix": lambda g: chain_case(
        g, loss=[[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 0.5, 0.0]]
    ),
    "permutation": permutation_case,
    "arborescence": lambda g: tree_case(g, True),
    "arborescence of many roots": lambda g: tree_case(g, False),
    "subset": subset_case,
}


def make_case(name: str, seed: int = 0) -> Case:
    """A random example."""
    return MAKERS[name](torch.Generator().manual_seed(seed))


def max_min_value(values: np.ndarray, losses: np.ndarray) -> float:
    """``max_p min_y' E_p loss(y', y) + E_p value(y)`` over distributions p: a linear program."""
    n = len(values)
    cost = -np.append(values, 1.0)
    above = np.hstack([-losses, np.ones((n, 1))])
    total = np.append(np.ones(n), 0.0)[None]
    bounds = [(0, None)] * n + [(None, None)]
    found = linprog(cost, above, np.zeros(n), total, [1.0], bounds)
    assert found.status == 0
    return -found.fun
