"""CoNLL-2000, max-margin: CPU time to a certified relative gap of 0.1 % at three strengths.

The strengths are those of the experiments of gapBCFW (Osokin et al. 2016), whose script allows ten
hours. Solvers are chosen by "auto"; time is that of the whole fit from CSR matrices, one thread.
"""

from __future__ import annotations

import time
import warnings

from sklearn.exceptions import ConvergenceWarning

from maxmargin import HammingLoss, SequenceLabeler

from .data import chunking_rows
from .harness import Line, Sample, Target

_TOL = 1e-3
_TARGETS = {0.1: 4.0, 0.01: 8.0, 1e-4: 60.0}  # seconds by alpha


def run(repeats: int) -> list[Line]:
    """One fit per strength, as often as the run is repeated."""
    X, y = chunking_rows()
    SequenceLabeler(tol=_TOL, random_state=0).fit(X[:50], y[:50])  # compiles
    lines = []
    for alpha, target in _TARGETS.items():
        spent = []
        for seed in range(repeats):
            loss = HammingLoss(normalize=True)
            model = SequenceLabeler(alpha=alpha, loss=loss, tol=_TOL, random_state=seed)
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(X, y)
            spent.append(time.process_time() - began)
        gap = model.gap_ / model.primal_
        what = f"CoNLL-2000, max-margin, alpha = {alpha:g}: to a certified relative gap of 0.1 %"
        note = f"{model.n_iter_} passes, relative gap {gap:.2g}, {model.status_}"
        found = Sample(spent)
        print(f"    {what}: {spent} s, {note}", flush=True)
        lines.append(
            Line("chunk_gaps", what, "s", found, target=Target("at most", target), note=note)
        )
    return lines
