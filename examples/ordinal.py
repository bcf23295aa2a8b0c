"""
Ordered classes
===============

How far will the disease have progressed, in five steps? The diabetes data of scikit-learn, the
target cut into five classes of equal size. A mistake costs its distance, so the model is compared
with one that does not know the order.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from maxmargin import MulticlassClassifier, OrdinalClassifier

NAMES = ["lowest", "low", "medium", "high", "highest"]

X, target = load_diabetes(return_X_y=True)
X = StandardScaler().fit_transform(X)
codes = np.digitize(target, np.quantile(target, [0.2, 0.4, 0.6, 0.8]))
X_train, X_test, train, test = train_test_split(X, codes, random_state=0)

# %%
# ``classes`` gives the order of the labels, whatever they are called.

labels = np.array(NAMES)
ordered = OrdinalClassifier(classes=NAMES, random_state=0).fit(X_train, labels[train])
unordered = MulticlassClassifier(random_state=0).fit(X_train, train)

distances = {
    "always 'medium'": np.abs(test - 2).mean(),
    "without the order": np.abs(test - unordered.predict(X_test)).mean(),
    "OrdinalClassifier": -ordered.score(X_test, labels[test]),
}
print("mean distance to the true class on new patients")
for name, distance in distances.items():
    print(f"  {name:20}  {distance:.3f}")
print(f"certified: within {ordered.gap_ / ordered.primal_:.2%} of the best objective")

# %%
# How far the predictions are off.

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
place = {name: code for code, name in enumerate(NAMES)}
guesses = {
    "without the order": unordered.predict(X_test),
    "OrdinalClassifier": [place[label] for label in ordered.predict(X_test)],
}
for shift, (name, guess) in zip((-0.2, 0.2), guesses.items()):
    counts = np.bincount(np.abs(test - np.array(guess)), minlength=5)
    axes.bar(np.arange(5) + shift, counts, width=0.35, label=name)
axes.set_xlabel("distance to the true class")
axes.set_ylabel("patients")
axes.legend()
plt.show()
