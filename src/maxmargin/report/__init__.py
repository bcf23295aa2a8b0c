"""Reports on fitted models: one HTML file that needs nothing else.

>>> from maxmargin.report import write_report                              # doctest: +SKIP
>>> write_report("report.html", model, X_train=X, y_train=y, X_test=X2, y_test=y2)  # doctest: +SKIP
"""

from __future__ import annotations

from ._document import Report, write_report
from ._section import Comparison, Summary

__all__ = ["Comparison", "Report", "Summary", "write_report"]
