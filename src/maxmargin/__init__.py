"""maxmargin: structured prediction that is consistent, certified and fast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Names by their module; they are loaded when first used: `import maxmargin` stays fast.
_NAMES = {
    "_labels": "UnseenLabelWarning",
    "conllu": "read_conllu",
    "estimators.graph": "GraphLabeler",
    "estimators.grid": "GridLabeler",
    "estimators.latent": "LatentPredictor",
    "estimators.matcher": "Matcher",
    "estimators.multiclass": "MulticlassClassifier",
    "estimators.multilabel": "MultiLabelClassifier",
    "estimators.ordinal": "OrdinalClassifier",
    "estimators.positionwise": "PositionWise",
    "estimators.ranker": "LabelRanker",
    "estimators.sequence": "SequenceLabeler",
    "estimators.structured": "StructuredPredictor",
    "estimators.subset": "SubsetSelector",
    "estimators.tree": "TreeParser",
    "estimators.values": "EarlyStopping HammingLoss Hidden Neighbors SmoothMaxMin StateFeatures",
    "features.kernel_kinds": "RBF KernelFunction Polynomial",
    "graphs.factor_graph": "FactorGraph",
    "graphs.soft": "SoftAgreement",
    "graphs.vertices": "VertexFrankWolfe",
    "latent.spaces.labels": "LabelSequence Permutation",
    "latent.spaces.graphs": "Arborescence DAG",
    "latent.spaces.sets": "Subset",
    "latent.variables": "AffineMap AnyPairs HiddenStates Latent SharedPairs",
    "memory": "MemoryEstimate estimate_memory",
    "oracles.values": "ClosedForm DoubleOracle MirrorProx Proximal",
    "certified_paths": "Interval certified_path",
    "paths": "Path path",
    "persistence": "ModelFileError load save",
    "solvers.acceleration": "Accelerated",
    "solvers.averaging": "Averaged",
    "solvers.checked": "Checked",
    "solvers.corrective": "Corrective",
    "solvers.flow": "Flow",
    "solvers.frank_wolfe": "BlockFrankWolfe",
    "solvers.interior": "Interior",
    "solvers.lbfgs": "LBFGS",
    "solvers.partitions": "Partitioned",
    "solvers.result": "Check Result",
    "solvers.subgradient": "Subgradient",
    "strengths": "CrossValidated TimesAuto",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

# Modules of their own, below the package.
_MODULES = (
    "certificates", "datasets", "datasets_made", "distributed", "metrics", "plot", "report",
)  # fmt: skip

__all__ = [
    "Accelerated", "AffineMap", "AnyPairs", "Arborescence", "Averaged", "BlockFrankWolfe", "Check",
    "Checked", "ClosedForm", "Corrective", "CrossValidated", "DAG", "DoubleOracle", "EarlyStopping",
    "FactorGraph", "Flow", "GraphLabeler", "GridLabeler", "HammingLoss", "Hidden", "HiddenStates",
    "Interior", "Interval", "KernelFunction", "LBFGS", "LabelRanker", "LabelSequence", "Latent",
    "LatentPredictor", "Matcher", "MemoryEstimate", "MirrorProx", "ModelFileError",
    "MultiLabelClassifier", "MulticlassClassifier", "Neighbors", "OrdinalClassifier",
    "Partitioned", "Path", "Permutation", "Polynomial", "PositionWise", "Proximal", "RBF",
    "Result", "SequenceLabeler", "SharedPairs", "SmoothMaxMin", "SoftAgreement",
    "StateFeatures", "StructuredPredictor", "Subgradient", "Subset", "SubsetSelector", "TimesAuto",
    "TreeParser", "UnseenLabelWarning", "VertexFrankWolfe", "__version__", "certificates",
    "certified_path", "datasets", "datasets_made", "distributed", "estimate_memory", "load",
    "metrics", "path", "plot", "read_conllu", "report", "save",
]  # fmt: skip

if TYPE_CHECKING:
    __version__: str
    from . import certificates, datasets, datasets_made, distributed, metrics, plot, report
    from ._labels import UnseenLabelWarning
    from .certified_paths import Interval, certified_path
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
    from .estimators.values import (
        EarlyStopping,
        HammingLoss,
        Hidden,
        Neighbors,
        SmoothMaxMin,
        StateFeatures,
    )
    from .features.kernel_kinds import RBF, KernelFunction, Polynomial
    from .graphs.factor_graph import FactorGraph
    from .graphs.soft import SoftAgreement
    from .graphs.vertices import VertexFrankWolfe
    from .latent.spaces.graphs import DAG, Arborescence
    from .latent.spaces.labels import LabelSequence, Permutation
    from .latent.spaces.sets import Subset
    from .latent.variables import AffineMap, AnyPairs, HiddenStates, Latent, SharedPairs
    from .memory import MemoryEstimate, estimate_memory
    from .paths import Path, path
    from .persistence import ModelFileError, load, save
    from .solvers.acceleration import Accelerated
    from .solvers.averaging import Averaged
    from .solvers.flow import Flow
    from .solvers.frank_wolfe import BlockFrankWolfe
    from .solvers.lbfgs import LBFGS
    from .solvers.partitions import Partitioned
    from .solvers.result import Check, Result
    from .solvers.subgradient import Subgradient
    from .strengths import CrossValidated, TimesAuto


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _MODULES:
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
