"""What importing costs: torch is loaded by ``maxmargin.torch`` alone."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import maxmargin
from maxmargin import SequenceLabeler
import maxmargin.persistence
assert not [name for name in sys.modules if name.split(".")[0] == "torch"]
from maxmargin._kernels.jit import register_everything
register_everything()
assert "torch" not in sys.modules
import maxmargin.torch
assert "torch" in sys.modules
assert maxmargin.torch is sys.modules["maxmargin.torch"]
"""


def test_only_the_subpackage_imports_torch():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
