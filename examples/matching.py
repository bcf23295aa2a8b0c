"""
Matching points of two pictures
===============================

The same six points are seen twice, the second time moved, with noise, and in another order. Which
is which? Each pair of points has features (how far apart they are in each coordinate and in each
channel of colour); the model learns how much each of them counts, and matches one to one.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import Matcher

N_POINTS = 6


def pair_of_pictures(rng):
    """Two sets of points, (x, y, red, green), and the partner of each point of the first."""
    points = np.column_stack([rng.rand(N_POINTS, 2), rng.rand(N_POINTS, 2)])
    order = rng.permutation(N_POINTS)
    shift = np.concatenate([0.3 * rng.randn(2), np.zeros(2)])
    moved = points[order] + shift + rng.randn(N_POINTS, 4) * [0.05, 0.05, 0.08, 0.3]
    return (points, moved), np.argsort(order)


rng = np.random.RandomState(0)
X, y = zip(*(pair_of_pictures(rng) for _ in range(60)))
X_test, y_test = zip(*(pair_of_pictures(rng) for _ in range(60)))

# %%
# The weights say what to trust: red tells most, green little, and places move.

model = Matcher(random_state=0).fit(list(X), list(y))
print(f"points with their right partner: {model.score(list(X_test), list(y_test)):.3f}")
for name, weight in zip(("x", "y", "red", "green"), model.coef_):
    print(f"  weight of a squared difference in {name:5}  {weight:7.2f}")

# %%
# One new pair of pictures; right partners are joined in blue, wrong ones in red.

(first, second), truth = X_test[0], y_test[0]
found = model.predict([X_test[0]])[0]
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
aside = np.array([1.5, 0.0])
for a, (b, right) in enumerate(zip(found, truth)):
    ends = np.array([first[a, :2], second[b, :2] + aside])
    axes.plot(*ends.T, color="tab:blue" if b == right else "tab:red", zorder=1)
for points, shift in ((first, 0.0), (second, aside)):
    colours = np.column_stack([np.clip(points[:, 2:], 0, 1), np.full(N_POINTS, 0.4)])
    axes.scatter(*(points[:, :2] + shift).T, c=colours, s=90, edgecolor="black", zorder=2)
axes.set_axis_off()
plt.show()
