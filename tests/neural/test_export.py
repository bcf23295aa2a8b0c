"""Exported decoding finds the labels of the compiled one."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

from maxmargin.torch import ChainCRF, decode
from maxmargin.torch.export import to_onnx, to_torchscript

# (sequences, positions, labels), with and without constraints: 1000 random sequences in all
SIZES = ((400, 9, 5, None), (300, 4, 3, "bio"), (200, 1, 4, None), (100, 12, 6, None))


def _batch(n, T, K, constraints, seed=0):
    generator = torch.Generator().manual_seed(seed)
    classes = ["O", "B-x", "I-x"] if constraints else None
    torch.manual_seed(seed)
    crf = ChainCRF(K, batch_first=True, constraints=constraints, classes=classes)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    emissions = torch.randn(n, T, K, generator=generator)
    lengths = torch.randint(1, T + 1, (n,), generator=generator)
    lengths[0] = T
    return crf, emissions, torch.arange(T)[None] < lengths[:, None]


@pytest.mark.parametrize(("n", "T", "K", "constraints"), SIZES)
def test_onnx(tmp_path, n, T, K, constraints):
    crf, emissions, mask = _batch(n, T, K, constraints)
    path = tmp_path / "chain.onnx"
    to_onnx(crf, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"emissions": emissions.numpy(), "mask": mask.numpy()})
    expected = decode(crf.scores(emissions), crf.structure, mask=mask)
    assert np.array_equal(found, expected.numpy())


@pytest.mark.parametrize(("n", "T", "K", "constraints"), SIZES)
def test_torchscript(tmp_path, n, T, K, constraints):
    crf, emissions, mask = _batch(n, T, K, constraints)
    path = tmp_path / "chain.pt"
    to_torchscript(crf, path)
    found = torch.jit.load(path)(emissions, mask)
    assert torch.equal(found, decode(crf.scores(emissions), crf.structure, mask=mask))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"maxmargin\[onnx\]"):
        to_onnx(ChainCRF(2), tmp_path / "x.onnx")
    assert not list(tmp_path.iterdir())
