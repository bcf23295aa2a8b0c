"""Ordered classes: how far the disease will have progressed, in five steps.

The diabetes data of scikit-learn, the target cut into five classes of equal size. A mistake costs
its distance, so the model is compared with one that does not know the order.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from maxmargin import MulticlassClassifier, OrdinalClassifier

NAMES = ["lowest", "low", "medium", "high", "highest"]


def main():
    X, target = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    codes = np.digitize(target, np.quantile(target, [0.2, 0.4, 0.6, 0.8]))
    X_train, X_test, train, test = train_test_split(X, codes, random_state=0)

    labels = np.array(NAMES)
    ordered = OrdinalClassifier(classes=NAMES, random_state=0).fit(X_train, labels[train])
    unordered = MulticlassClassifier(random_state=0).fit(X_train, train)

    print("mean distance to the true class on new patients")
    print(f"  always 'medium'       {np.abs(test - 2).mean():.3f}")
    print(f"  without the order     {np.abs(test - unordered.predict(X_test)).mean():.3f}")
    print(f"  OrdinalClassifier     {-ordered.score(X_test, labels[test]):.3f}")
    print(f"certified: within {ordered.gap_ / ordered.primal_:.2%} of the best objective")


if __name__ == "__main__":
    main()
