"""Features that were not seen in training."""

import numpy as np

from maxmargin import SequenceLabeler


def test_unknown_features_are_counted_and_ignored():
    X = [[{"word": "a", "size": 2.0}, {"word": "b"}], [["x", "y"], ["y"]]]
    y = [["p", "q"], ["p", "q"]]
    model = SequenceLabeler(random_state=0).fit(X, y)
    assert model.count_unknown_features(X) == (0, 6)
    new = [[{"word": "c", "size": 1.0, "weight": 0.0, "length": 3}, ["y", "z"]]]
    assert model.count_unknown_features(new) == (3, 5)  # word:c, length, z; a value of 0 is none
    known = [[{"size": 1.0}, ["y"]]]
    assert np.array_equal(model.predict(new)[0], model.predict(known)[0])
    arrays = SequenceLabeler(random_state=0).fit([np.eye(2)], [["p", "q"]])
    assert arrays.count_unknown_features([np.eye(2)]) == (0, 0)
