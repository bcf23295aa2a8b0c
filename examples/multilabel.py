"""
Labels that go together
=======================

Documents about six topics. Some topics come in pairs, some exclude each other, and the words say
little about some of them. A classifier for each topic does not see that; a model with a table for
every pair of labels learns it from the data.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from maxmargin import MultiLabelClassifier

TOPICS = ["sun", "beach", "snow", "ski", "city", "car"]
SETS = [("sun", "beach"), ("snow", "ski"), ("city", "car"), ("sun", "city"), ("snow",), ("beach",)]
# How well the words tell a topic: ski and car must be guessed from their company.
CLARITY = np.array([1.0, 0.5, 1.0, 0.15, 0.8, 0.15])


def documents(n, rng):
    """Words as noisy copies of the topics, and the topics as an indicator matrix."""
    Y = np.zeros((n, len(TOPICS)), int)
    for row in Y:
        for topic in SETS[rng.randint(len(SETS))]:
            row[TOPICS.index(topic)] = 1
    X = CLARITY * (2 * Y - 1) + 0.7 * rng.randn(n, len(TOPICS))
    return X, Y


rng = np.random.RandomState(0)
X, Y = documents(400, rng)
X_test, Y_test = documents(400, rng)

# %%
# Subset accuracy: the share of documents of which all topics are right.

alone = OneVsRestClassifier(LinearSVC(random_state=0)).fit(X, Y)
together = MultiLabelClassifier(edges="full", random_state=0).fit(X, Y)
print(f"topic by topic:     {(alone.predict(X_test) == Y_test).all(axis=1).mean():.3f}")
print(f"with interactions:  {(together.predict(X_test) == Y_test).all(axis=1).mean():.3f}")
print(f"certified relative gap of the fit: {together.gap_ / together.primal_:.3f}")

# %%
# The interactions: how much a pair of topics gains by being both there or both absent.

attraction = np.zeros((len(TOPICS), len(TOPICS)))
for (a, b), table in zip(together.edges_, together.interactions_):
    attraction[a, b] = attraction[b, a] = table[0, 0] + table[1, 1] - table[0, 1] - table[1, 0]
size = np.abs(attraction).max()
figure, axes = plt.subplots(figsize=(4.5, 3.6), layout="constrained")
image = axes.imshow(attraction, cmap="RdBu", vmin=-size, vmax=size)
axes.set_xticks(range(len(TOPICS)), TOPICS, rotation=45)
axes.set_yticks(range(len(TOPICS)), TOPICS)
figure.colorbar(image, label="attraction")
plt.show()
