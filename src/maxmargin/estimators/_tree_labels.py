"""Names of relations: a classifier of the words of given trees, trained after the parser."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from .._validation import is_switch
from ..features.relations import relation_features, usable
from ._tree_data import Sentences
from .multiclass import MulticlassClassifier

# alpha of the classifier times the total weight of the words, its passes and its tolerance.
_STRENGTH, _PASSES, _TOL = 10.0, 30, 0.02


def check_labels(labels: Any) -> None:
    """Refuse a value of the parameter ``labels`` that is neither a switch nor a classifier."""
    if not (is_switch(labels) or isinstance(labels, MulticlassClassifier)):
        raise ValueError(
            "labels must be False, True or a MulticlassClassifier for the names of relations; "
            f"received {labels!r}."
        )


class LabelModel:
    """A classifier of words in trees, and what its features are."""

    def __init__(self, classifier: Any, templates: list[str], columns: np.ndarray):
        self.classifier, self.templates, self.columns = classifier, templates, columns

    def predict(self, sentences: Sentences, heads: np.ndarray) -> np.ndarray:
        """The name of the relation of every word to its head."""
        features, _ = relation_features(sentences.examples, heads, self.templates, self.columns)
        return self.classifier.predict(features)


def train_labels(
    given: Any, surrogate: str, random_state: Any, sentences: Sentences, heads: np.ndarray,
    labels: np.ndarray, weights: np.ndarray,
) -> LabelModel:  # fmt: skip
    """Train on true trees; words whose label is None do not count."""
    templates = list(usable(sentences.attributes))
    if not templates:
        raise ValueError(
            f"labels=True: the words have the attributes {sorted(sentences.attributes)}; expected "
            "some of form, lemma, upos, xpos, feats."
        )
    features, columns = relation_features(sentences.examples, heads, templates)
    known = np.flatnonzero([label is not None for label in labels])
    if not len(known):
        raise ValueError("y: no label of any arc is known; expected some, or labels=False.")
    shares = np.repeat(weights, sentences.lengths)[known]
    usual = MulticlassClassifier(
        surrogate, alpha=_STRENGTH / shares.sum(), max_iter=_PASSES, tol=_TOL,
        random_state=random_state,
    )  # fmt: skip
    classifier = usual if is_switch(given) else clone(given)
    classifier.fit(features[known], labels[known].astype(str), shares)
    return LabelModel(classifier, templates, columns)
