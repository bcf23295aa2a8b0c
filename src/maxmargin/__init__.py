"""maxmargin: structured prediction that is consistent, certified and fast."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("maxmargin")
except PackageNotFoundError:  # used from a folder of sources
    __version__ = "0.0.0"

# Names are loaded when first used: `import maxmargin` stays fast.
_HOMES = {
    "MulticlassClassifier": "estimators.multiclass",
    "MultiLabelClassifier": "estimators.multilabel",
    "OrdinalClassifier": "estimators.ordinal",
    "SequenceLabeler": "estimators.sequence",
    "StructuredPredictor": "estimators.structured",
    "UnseenLabelWarning": "_labels",
    "Check": "solvers.result",
    "Result": "solvers.result",
    "ModelFileError": "persistence",
    "save": "persistence",
    "load": "persistence",
}

__all__ = [
    "Check",
    "ModelFileError",
    "MultiLabelClassifier",
    "MulticlassClassifier",
    "OrdinalClassifier",
    "Result",
    "SequenceLabeler",
    "StructuredPredictor",
    "UnseenLabelWarning",
    "__version__",
    "load",
    "save",
]

if TYPE_CHECKING:
    from ._labels import UnseenLabelWarning
    from .estimators.multiclass import MulticlassClassifier
    from .estimators.multilabel import MultiLabelClassifier
    from .estimators.ordinal import OrdinalClassifier
    from .estimators.sequence import SequenceLabeler
    from .estimators.structured import StructuredPredictor
    from .persistence import ModelFileError, load, save
    from .solvers.result import Check, Result


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
