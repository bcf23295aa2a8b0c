"""The examples with networks run, and show what they say."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from realdata import data_file

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run_example(name, monkeypatch, capsys):
    """Numbers by the first words of the lines that an example prints."""
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    finally:
        torch.set_num_threads(before)
    plt.close("all")
    assert len(shown) == 1, "an example ends with a picture"
    lines = capsys.readouterr().out.splitlines()
    found = (re.match(r"(.*?):?((?: +\d\.\d{3})+)$", line) for line in lines)
    return {m[1].strip(): [float(x) for x in m[2].split()] for m in found if m}


def test_every_example_is_tested_here():
    tested = {"torch_label_noise", "torch_letters", "torch_tagger", "torch_parser"}
    assert {path.stem for path in EXAMPLES.glob("torch_*.py")} == tested


def test_label_noise(monkeypatch, capsys):
    found = run_example("torch_label_noise", monkeypatch, capsys)
    for name in ("max-min", "crf"):  # no difference with few wrong labels, a large one with many
        assert abs(found[name][0] - found["max-margin"][0]) < 0.05
        assert found[name][-1] > found["max-margin"][-1]


@pytest.mark.slow
def test_letters(monkeypatch, capsys):
    data_file("ocr_letters.npz")
    found = run_example("torch_letters", monkeypatch, capsys)
    for surrogate in ("crf", "max-margin", "max-min"):
        error = found[f"network, {surrogate}"][0]
        assert error < found["network, letter by letter"][0]
        assert error < found["linear chain, max-margin"][0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ("torch_tagger", "torch_parser"))
def test_sentences(name, monkeypatch, capsys):
    data_file("ud_english_ewt_train.conllu.gz")
    run_example(name, monkeypatch, capsys)
