"""
A noisy picture, labelled as a whole
====================================

Each cell of a small picture has a grey value that says little about its label. Neighbours mostly
have the same label, which a grid model learns from examples: one weight for equal neighbours is
enough.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import GridLabeler, MulticlassClassifier


def picture(rng, size=16):
    """A disc on a background: grey values with noise, and the labels."""
    centre, radius = rng.uniform(5, size - 5, 2), rng.uniform(3, 5)
    row, column = np.indices((size, size))
    inside = (row - centre[0]) ** 2 + (column - centre[1]) ** 2 < radius**2
    labels = np.where(inside, "disc", "ground")
    return inside + 0.8 * rng.randn(size, size), labels


rng = np.random.RandomState(0)
train = [picture(rng) for _ in range(20)]
test = [picture(rng) for _ in range(20)]
X, y = [grey for grey, _ in train], [labels for _, labels in train]

# %%
# One model looks at every cell alone, the other at the whole picture.

cells = MulticlassClassifier(random_state=0)
cells.fit(np.concatenate(X).reshape(-1, 1), np.concatenate(y).ravel())
grid = GridLabeler(pairwise="potts", tol=0.05, max_iter=300, random_state=0).fit(X, y)

alone = np.mean([cells.score(grey.reshape(-1, 1), labels.ravel()) for grey, labels in test])
together = grid.score([grey for grey, _ in test], [labels for _, labels in test])
print(f"cells by themselves: {alone:.3f} of the cells are right")
print(f"with neighbours:     {together:.3f}")
print(f"certified relative gap of the fit: {grid.gap_ / grid.primal_:.3f}")

# %%
# A new picture, and what the two models make of it.

grey, labels = test[0]
shown = {
    "picture": grey,
    "truth": labels == "disc",
    "cell by cell": (cells.predict(grey.reshape(-1, 1)) == "disc").reshape(grey.shape),
    "as a whole": np.asarray(grid.predict([grey])[0]) == "disc",
}
figure, places = plt.subplots(1, 4, figsize=(8, 2.4), layout="constrained")
for axes, (name, values) in zip(places, shown.items()):
    axes.imshow(values, cmap="gray" if name == "picture" else "viridis")
    axes.set_title(name, fontsize=10)
    axes.set_axis_off()
plt.show()
