"""
A latent space of your own in 30 lines
======================================

Items are chosen in one of two moods, unobserved. Somebody chooses three of seven items. In one mood
they want what is large, in the other what is small, and nobody wrote down the mood. A latent space
says which moods there are, and what the features of a choice are in each of them.
"""

import matplotlib.pyplot as plt
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


# %%
# The latent structural SVM, with and without the mood.

rng = np.random.RandomState(0)
(X, y), (X_new, y_new) = make(40, rng), make(40, rng)
models = {}
for space in (NoMood(), Mood()):
    models[type(space).__name__] = LatentPredictor(
        Latent(Subset(N_ITEMS, CHOSEN), space), "lssvm", n_restarts=3, random_state=0
    ).fit(X, y)
for name, model in models.items():
    print(f"{name:8} items found in new choices: {model.score(X_new, y_new):.1%}")

# %%
# The two rules that were found: one direction a mood.

rules = models["Mood"].coef_.reshape(2, 2)
figure, axes = plt.subplots(figsize=(4, 4), layout="constrained")
for rule, colour in zip(rules, ("tab:blue", "tab:orange")):
    axes.arrow(0, 0, *(rule / np.linalg.norm(rules)), width=0.02, color=colour)
for rule in ([2.0, -0.5], [-2.0, 1.0]):
    axes.plot(*np.array([[0, 0], rule]).T / 3, color="grey", linestyle="--")
axes.set_aspect("equal")
axes.set_title("found (arrows) and true (dashed)", fontsize=10)
plt.show()
