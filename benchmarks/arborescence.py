"""The best directed spanning tree of 25 words: microseconds, beside networkx."""

from __future__ import annotations

import numpy as np

from maxmargin._kernels.arborescence import best_trees

from .harness import Line, Sample, Target, alternate, seconds

WORDS, TABLES = 25, 400


def _networkx(tables: np.ndarray) -> float:
    """Seconds a tree; graphs are built before."""
    import networkx

    graphs = []
    for table in tables:
        graph = networkx.DiGraph()
        for d, row in enumerate(table.tolist(), start=1):
            graph.add_weighted_edges_from((h, d, s) for h, s in enumerate(row) if h != d)
        graphs.append(graph)

    def calls() -> None:
        for graph in graphs:
            networkx.maximum_spanning_arborescence(graph)

    return seconds(calls) / len(graphs)


def run(repeats: int) -> list[Line]:
    """Random scores; any number of roots, as networkx has it, and a single one."""
    tables = np.random.RandomState(0).randn(TABLES, WORDS, WORDS + 1)
    indptr = np.arange(TABLES + 1, dtype=np.int64) * WORDS
    heads, values = np.empty(TABLES * WORDS, np.int32), np.empty(TABLES)

    def ours(single_root: bool) -> float:
        spent = seconds(lambda: best_trees(tables.ravel(), indptr, single_root, heads, values))
        return spent / TABLES

    ours(False)  # compiles
    found = alternate(
        repeats,
        {
            "any": lambda run: ours(False),
            "single": lambda run: ours(True),
            "networkx": lambda run: _networkx(tables[10 * (run % 10) : 10 * (run % 10) + 10]),
        },
    )
    micro = {name: sample.scaled(1e6) for name, sample in found.items()}
    single: Sample = micro["single"]
    return [
        Line(
            "arborescence",
            f"best tree of {WORDS} words",
            "us",
            micro["any"],
            micro["networkx"],
            "networkx",
            target=Target("ratio", 1000),
        ),
        Line(
            "arborescence",
            f"best tree of {WORDS} words with a single root",
            "us",
            single,
            target=Target("at most", 30),
        ),
    ]
