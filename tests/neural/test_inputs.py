"""Sequences of numbers for networks: what is refused, and by which words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from maxmargin.torch import CRFLoss, NeuralSequenceLabeler, decode

RNG = np.random.RandomState(0)
X = [pd.DataFrame(RNG.randn(4, 2), columns=["a", "b"]) for _ in range(6)]
Y = [["x", "y", "x", "y"]] * 6


def linear(n_classes):
    return nn.Linear(2, n_classes)


def fitted(X, y):
    return NeuralSequenceLabeler(linear, max_epochs=1, random_state=0).fit(X, y)


def test_columns_of_data_frames_are_checked_and_saved(tmp_path):
    model = fitted(X, Y)
    model.save(tmp_path / "model.npz")
    for known in (model, NeuralSequenceLabeler.load(tmp_path / "model.npz", linear)):
        assert known.feature_names_in_.tolist() == ["a", "b"]
        assert len(known.predict(X)) == 6
        other = [X[0], X[1][["b", "a"]], *X[2:]]
        for method, given in (("predict", [other]), ("score", [other, Y])):
            with pytest.raises(ValueError, match=r"X\[1\] has the columns \['b', 'a'\]"):
                getattr(known, method)(*given)
    with pytest.raises(ValueError, match=r"X\[5\] has the columns \['b', 'a'\], but X\[0\] has"):
        fitted([*X[:5], X[5][["b", "a"]]], Y)
    assert not hasattr(model.fit([x.to_numpy() for x in X], Y), "feature_names_in_")


def test_inputs_that_are_refused():
    with pytest.raises(ValueError, match=r"X\[1\] has shape \(4, 3\), but X\[0\] has \(4, 2\)"):
        fitted([RNG.randn(4, 2), RNG.randn(4, 3)], Y[:2])
    with pytest.raises(TypeError, match=r"X\[0\] must hold numbers"):
        fitted([["a", "b", "a", "b"]] * 6, Y)
    with pytest.raises(ValueError, match=r"y\[5\]\[2\] is None"):
        fitted(X, [*Y[:5], ["x", "y", None, "y"]])
    with pytest.raises(ValueError, match="X must be a list of sequences"):
        fitted(np.zeros(3), Y)


def test_positions_of_another_width_are_refused(tmp_path):
    model = fitted(X, Y)
    model.save(tmp_path / "model.npz")
    for known in (model, NeuralSequenceLabeler.load(tmp_path / "model.npz", linear)):
        with pytest.raises(ValueError, match=r"have the shape \(3,\), but those of fit had \(2,\)"):
            known.predict([RNG.randn(4, 3)])
        with pytest.raises(ValueError, match=r"those of fit had \(2,\)"):
            known.score([RNG.randn(4, 3)], Y[:1])
    with pytest.raises(ValueError, match=r"those of fit had \(2,\)"):
        model.fit(X, Y, validation=([RNG.randn(4, 3)], Y[:1]))


def test_scores_without_values_are_refused_by_name():
    scores = torch.zeros(2, 3, 4, device="meta")
    with pytest.raises(ValueError, match="scores are on meta, which has no values"):
        CRFLoss("chain")(scores, torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="scores are on meta, which has no values"):
        decode(scores, "chain")
