"""maxmargin: structured prediction that is consistent, certified and fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Names are loaded when first used: `import maxmargin` stays fast.
_HOMES = {
    "AffineMap": "latent.variables",
    "AnyPairs": "latent.variables",
    "Arborescence": "latent.spaces.sets",
    "DAG": "latent.spaces.sets",
    "HiddenStates": "latent.variables",
    "LabelSequence": "latent.spaces.labels",
    "Latent": "latent.variables",
    "LatentPredictor": "estimators.latent",
    "Permutation": "latent.spaces.labels",
    "SharedPairs": "latent.variables",
    "Subset": "latent.spaces.sets",
    "FactorGraph": "graphs.factor_graph",
    "GraphLabeler": "estimators.graph",
    "GridLabeler": "estimators.grid",
    "LabelRanker": "estimators.ranker",
    "Matcher": "estimators.matcher",
    "MulticlassClassifier": "estimators.multiclass",
    "MultiLabelClassifier": "estimators.multilabel",
    "OrdinalClassifier": "estimators.ordinal",
    "PositionWise": "estimators.positionwise",
    "SequenceLabeler": "estimators.sequence",
    "StructuredPredictor": "estimators.structured",
    "SubsetSelector": "estimators.subset",
    "TreeParser": "estimators.tree",
    "UnseenLabelWarning": "_labels",
    "Accelerated": "solvers.acceleration",
    "Averaged": "solvers.averaging",
    "BlockFrankWolfe": "solvers.frank_wolfe",
    "Flow": "solvers.flow",
    "Interior": "solvers.interior",
    "LBFGS": "solvers.lbfgs",
    "SoftAgreement": "graphs.soft",
    "Subgradient": "solvers.subgradient",
    "Check": "solvers.result",
    "Result": "solvers.result",
    "ModelFileError": "persistence",
    "read_conllu": "conllu",
    "save": "persistence",
    "load": "persistence",
    "MemoryEstimate": "memory",
    "estimate_memory": "memory",
}

# Modules of their own, below the package.
_MODULES = ("certificates", "datasets", "datasets_made", "metrics", "plot", "report")

__all__ = [
    "Accelerated",
    "AffineMap",
    "AnyPairs",
    "Arborescence",
    "Averaged",
    "BlockFrankWolfe",
    "Check",
    "DAG",
    "FactorGraph",
    "Flow",
    "GraphLabeler",
    "GridLabeler",
    "HiddenStates",
    "Interior",
    "LBFGS",
    "LabelRanker",
    "LabelSequence",
    "Latent",
    "LatentPredictor",
    "Matcher",
    "MemoryEstimate",
    "ModelFileError",
    "MultiLabelClassifier",
    "MulticlassClassifier",
    "OrdinalClassifier",
    "Permutation",
    "PositionWise",
    "Result",
    "SequenceLabeler",
    "SharedPairs",
    "SoftAgreement",
    "StructuredPredictor",
    "Subgradient",
    "Subset",
    "SubsetSelector",
    "TreeParser",
    "UnseenLabelWarning",
    "__version__",
    "certificates",
    "datasets",
    "datasets_made",
    "estimate_memory",
    "load",
    "metrics",
    "plot",
    "read_conllu",
    "report",
    "save",
]

if TYPE_CHECKING:
    __version__: str
    from . import certificates, datasets, datasets_made, metrics, plot, report
    from ._labels import UnseenLabelWarning
    from .conllu import read_conllu
    from .estimators.graph import GraphLabeler
    from .estimators.grid import GridLabeler
    from .estimators.latent import LatentPredictor
    from .estimators.matcher import Matcher
    from .estimators.multiclass import MulticlassClassifier
    from .estimators.multilabel import MultiLabelClassifier
    from .estimators.ordinal import OrdinalClassifier
    from .estimators.positionwise import PositionWise
    from .estimators.ranker import LabelRanker
    from .estimators.sequence import SequenceLabeler
    from .estimators.structured import StructuredPredictor
    from .estimators.subset import SubsetSelector
    from .estimators.tree import TreeParser
    from .graphs.factor_graph import FactorGraph
    from .latent.spaces.labels import LabelSequence, Permutation
    from .latent.spaces.sets import DAG, Arborescence, Subset
    from .latent.variables import AffineMap, AnyPairs, HiddenStates, Latent, SharedPairs
    from .memory import MemoryEstimate, estimate_memory
    from .persistence import ModelFileError, load, save
    from .solvers.result import Check, Result


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _MODULES:
        from importlib import import_module

        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")
    globals()[name] = value
    return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("maxmargin")
    except PackageNotFoundError:  # used from a folder of sources
        return "0.0.0"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
