"""The code in the documentation and in docstrings runs."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import maxmargin.torch.chain_crf
import maxmargin.torch.fenchel_young
import maxmargin.torch.graphs
import maxmargin.torch.losses

PAGE = Path(__file__).resolve().parents[2] / "docs" / "torch.md"


def test_the_page_runs_from_top_to_bottom():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 5
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert names["emissions"].grad.abs().sum() > 0
    assert [len(labels) for labels in names["best"]] == [12] * 8


@pytest.mark.parametrize("name", ("losses", "chain_crf", "fenchel_young", "graphs"))
def test_docstrings(name):
    found = doctest.testmod(getattr(maxmargin.torch, name))
    assert found.attempted > 0 and not found.failed
