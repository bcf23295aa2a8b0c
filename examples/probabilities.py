"""
Probabilities and curved boundaries
===================================

``surrogate="crf"`` gives probabilities, a kernel gives curved boundaries, and both are trained with
a certificate like everything else.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from maxmargin import RBF, MulticlassClassifier

X, y = make_moons(300, noise=0.2, random_state=0)
model = MulticlassClassifier(surrogate="crf", kernel=RBF(gamma=1.0), alpha=0.003, random_state=0)
model.fit(X, y)
print(f"{model.status_}: within {model.gap_ / model.primal_:.2%} of the best objective")
print(f"right on the training set: {model.score(X, y):.3f}")

# %%
# Are the probabilities true? Among new points that get a probability of about p, a share of about
# p should belong to the class.

X_new, y_new = make_moons(5000, noise=0.2, random_state=1)
p = model.predict_proba(X_new)[:, 1]
edges = np.linspace(0, 1, 6)
for low, high in zip(edges[:-1], edges[1:]):
    inside = (p >= low) & (p < high)
    print(f"  said {p[inside].mean():.2f}   happened {y_new[inside].mean():.2f}")

# %%
# The plane, coloured by probability.

across, up = np.meshgrid(np.linspace(-1.7, 2.7, 120), np.linspace(-1.2, 1.7, 90))
chance = model.predict_proba(np.column_stack([across.ravel(), up.ravel()]))[:, 1]
figure, axes = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
filled = axes.contourf(across, up, chance.reshape(across.shape), levels=20, cmap="RdBu")
axes.scatter(*X.T, c=y, cmap="RdBu", edgecolor="white", s=20)
figure.colorbar(filled, label="probability of class 1")
plt.show()
