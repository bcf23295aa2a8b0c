"""The definitions of latent structured prediction, as naively as possible."""

from __future__ import annotations

import itertools

import numpy as np

from maxmargin import DAG, Arborescence, Subset

SPACES = {"trees": Arborescence(3), "acyclic": DAG(3, 2), "subsets": Subset(5, 3)}
LEARNABLE = Subset(6, 4)


_KNOWN: dict = {}


def n_elements(space):
    return space.packed().n_elements


def pairs(n):
    return list(itertools.combinations(range(n), 2))


def shared(n):
    """All latent variables: two pairs with a common element."""
    return [(p, q) for p, q in itertools.combinations(pairs(n), 2) if set(p) & set(q)]


def any_two(n):
    return list(itertools.combinations(pairs(n), 2))


def phi(space, x, y, h):
    """Features by their definition."""
    row = space.to_set(y)
    inside = set(row[1 : row[0] + 1].tolist())
    features = np.zeros(len(x))
    for k, pair in enumerate(pairs(n_elements(space))):
        if inside.issuperset(pair):
            features[k] = bool(x[k]) != (pair in h)
    return features


def tables(space, x):
    """All outputs, and features of all (y, h): (n_y, n_h, n_weights)."""
    key = (repr(space), tuple(x))
    if key not in _KNOWN:
        _KNOWN[key] = _tables(space, x)
    return _KNOWN[key]


def _tables(space, x):
    outputs = list(space.enumerate())
    latents = shared(n_elements(space))
    features = np.array([[phi(space, x, y, h) for h in latents] for y in outputs])
    return outputs, features


def loss(space, x, truth, w, trainer, table=None):
    """Training loss of one example, by enumeration."""
    outputs, features = table or tables(space, x)
    scores = features @ w
    d = np.array([space.distortion(truth, y) for y in outputs])[:, None]
    explained = scores[int(np.flatnonzero(d[:, 0] == 0.0)[0])].max()
    if trainer == "lssvm":
        return (d + scores).max() - explained
    return max(0.0, (d * (1.0 - explained + scores)).max())


class OwnPairs:
    """The paper's latent space, as a user would write it."""

    def __init__(self, n):
        self.n = n

    def enumerate(self, x):
        return shared(self.n)

    def features(self, x, y, h):
        inside = {int(e) for e in y}
        return np.array(
            [
                float((bool(bit) != (pair in h)) and set(pair) <= inside)
                for bit, pair in zip(x, pairs(self.n), strict=True)
            ]
        )


class OwnAnyPairs(OwnPairs):
    """Its superset."""

    def enumerate(self, x):
        return any_two(self.n)


class NoLatent:
    """One latent value only: an ordinary structural SVM over subsets of rows."""

    def enumerate(self, x):
        return [0]

    def features(self, x, y, h):
        return np.asarray(x)[list(y)].sum(axis=0)


def examples(name, n, seed=0):
    """Bits, and the best outputs under hidden weights.

    In the tiny ``SPACES`` two flips undo nearly all bits, and the best output is nearly always the
    same: there every second output is a random one.
    """
    rng = np.random.RandomState(seed)
    space = SPACES.get(name, LEARNABLE)
    n_pairs = len(pairs(n_elements(space)))
    X, hidden = rng.randint(2, size=(n, n_pairs)), rng.randn(n_pairs)
    y = []
    for i, x in enumerate(X):
        outputs, features = tables(space, x)
        best = int((features @ hidden).max(axis=1).argmax())
        if name in SPACES and i % 2:
            best = rng.randint(len(outputs))
        y.append(outputs[best])
    return X, y
