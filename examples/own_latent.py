"""A latent space of your own in 30 lines: items are chosen in one of two moods, unobserved.

Somebody chooses three of seven items. In one mood they want what is large, in the other what is
small, and nobody wrote down the mood. A latent space says which moods there are, and what the
features of a choice are in each of them.
"""

import numpy as np

from maxmargin import Latent, LatentPredictor, Subset

N_ITEMS, CHOSEN = 7, 3


class Mood:
    """The latent variable is 0 or 1; each mood has weights of its own."""

    def enumerate(self, x):
        """All latent values."""
        return [0, 1]

    def features(self, x, y, h):
        """Sum of the features of the chosen items, in the block of the mood."""
        out = np.zeros(2 * x.shape[1])
        out[h * x.shape[1] : (h + 1) * x.shape[1]] = x[list(y)].sum(axis=0)
        return out


class NoMood(Mood):
    """For comparison: one mood only."""

    def enumerate(self, x):
        return [0]


def make(n, rng):
    """Choices by the larger of two rules."""
    rules = np.array([[2.0, -0.5], [-2.0, 1.0]])
    X, y = [], []
    for _ in range(n):
        x = rng.randn(N_ITEMS, 2)
        tops = [np.sort(np.argsort(-x @ rule)[:CHOSEN]) for rule in rules]
        values = [(x @ rule)[top].sum() for rule, top in zip(rules, tops)]
        X.append(x)
        y.append(tops[int(np.argmax(values))])
    return X, y


def main():
    rng = np.random.RandomState(0)
    (X, y), (X_new, y_new) = make(40, rng), make(40, rng)
    for space in (NoMood(), Mood()):
        model = LatentPredictor(
            Latent(Subset(N_ITEMS, CHOSEN), space), "lssvm", n_restarts=3, random_state=0
        ).fit(X, y)
        found = model.score(X_new, y_new)
        print(f"{type(space).__name__:8} items found in new choices: {found:.1%}")


if __name__ == "__main__":
    main()
