"""
Learning to rank five kinds of food
===================================

People with two features, age and a taste for sweets, rank five kinds of food. A ranking is a
permutation, so the model scores every pair of food and place, and the best ranking is found by
assignment. Max-min is the surrogate that is consistent for rankings, too.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LabelRanker

FOOD = ["cake", "fish", "fruit", "steak", "soup"]
APPEAL = np.array([[-1.0, 2.0], [0.6, -0.8], [0.2, 1.0], [-0.4, -1.0], [1.2, 0.0]])


def people(n, rng):
    """Features, and the rank of each kind of food (1 is the best)."""
    X = rng.randn(n, 2)
    utility = X @ APPEAL.T + 0.3 * rng.randn(n, len(FOOD))
    return X, np.argsort(np.argsort(-utility, axis=1), axis=1) + 1


rng = np.random.RandomState(0)
X, ranks = people(300, rng)
X_test, ranks_test = people(300, rng)

# %%
# The score is the share of items in their right place; guessing gets one in five.

for surrogate in ("max-margin", "max-min"):
    model = LabelRanker(surrogate, y_format="ranks", tol=0.05, random_state=0).fit(X, ranks)
    print(
        f"{surrogate:10}  right places {model.score(X_test, ranks_test):.3f}, "
        f"certified gap {model.gap_ / model.primal_:.3f}"
    )

# %%
# Where the model puts each kind of food, for three people.

somebody = np.array([[-1.0, 1.5], [0.0, -1.5], [1.5, 0.5]])
predicted = model.predict(somebody)
figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
for food, places in zip(FOOD, predicted.T):
    axes.plot(range(3), places, marker="o", label=food)
axes.invert_yaxis()
axes.set_xticks(range(3), ["young, sweet", "no sweets", "older"])
axes.set_ylabel("rank")
axes.legend(bbox_to_anchor=(1, 1))
plt.show()
