"""
An output space of your own in 30 lines
=======================================

Choose exactly three of eight items. Each item has two features. Somebody chose three items by a
rule that we do not know; the structure says what a choice is, how good weights make it, and how
wrong it is. Training finds the rule.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import StructuredPredictor

N_ITEMS, CHOSEN = 8, 3


class Choice:
    """Subsets of fixed size; an output is the sorted tuple of the chosen items."""

    def joint_feature(self, x, y):
        """Sum of the features of the chosen items."""
        return x[list(y)].sum(axis=0)

    def loss(self, truth, y):
        """Fraction of the true items that were missed."""
        return 1.0 - len(set(truth) & set(y)) / CHOSEN

    def argmax(self, x, weights, truth=None):
        """The best items; with a truth, every item outside it gains a third of a mistake."""
        scores = x @ weights
        if truth is not None:
            scores = scores + 1.0 / CHOSEN
            scores[list(truth)] -= 1.0 / CHOSEN
        return tuple(sorted(int(j) for j in np.argsort(-scores)[:CHOSEN]))


# %%
# A hundred choices by the hidden rule, with a little noise.

rng = np.random.RandomState(0)
X = [rng.randn(N_ITEMS, 2) for _ in range(100)]
hidden_rule = np.array([2.0, -1.0])
y = [Choice().argmax(x + 0.1 * rng.randn(N_ITEMS, 2), hidden_rule) for x in X]

model = StructuredPredictor(Choice(), random_state=0).fit(X[:70], y[:70])
found = model.coef_ / np.linalg.norm(model.coef_)
print(f"direction found   {found.round(2)}")
print(f"direction hidden  {(hidden_rule / np.linalg.norm(hidden_rule)).round(2)}")
print(f"items missed on new examples: {-model.score(X[70:], y[70:]):.1%}")
print(f"{model.status_}: within {model.gap_ / model.primal_:.1%} of the best objective")

# %%
# One new example: the items, those chosen, and the direction of the rule.

x, chosen = X[70], list(model.predict(X[70:71])[0])
figure, axes = plt.subplots(figsize=(4, 4), layout="constrained")
axes.scatter(*x.T, s=60, color="lightgrey", edgecolor="grey")
axes.scatter(*x[chosen].T, s=60, color="tab:blue", label="chosen")
axes.arrow(0, 0, *found, width=0.03, color="tab:orange", label="rule found")
axes.set_aspect("equal")
axes.legend()
plt.show()
