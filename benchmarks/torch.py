"""Structured losses of networks against pytorch-crf and torch-struct, one thread each."""

from __future__ import annotations

import importlib.util
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

from .harness import Line, Target, alternate

CHAINS = ((64, 50, 26), (64, 20, 9))
TREES, WORDS = 32, 25
# Seconds of processor time that a run of one side takes at least.
SHORTEST = 0.2


def run(repeats: int) -> list[Line]:
    """All lines; none where a package is missing."""
    missing = [
        name for name in ("torch", "torchcrf", "torch_struct") if not importlib.util.find_spec(name)
    ]
    if missing:
        print(f"    not run: {', '.join(missing)} not installed")
        return []
    import torch

    warnings.filterwarnings("ignore", message=".*arg_constraints.*")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        lines = [line for size in CHAINS for line in _chains(repeats, *size)]
        return lines + _trees(repeats)
    finally:
        torch.set_num_threads(before)


def _cpu_seconds(work: Callable[[], Any], calls: int) -> float:
    """Processor time of some calls: all sides have one thread, and other programs do not count."""
    began = time.process_time()
    for _ in range(calls):
        work()
    return time.process_time() - began


def _timed(work: Callable[[], Any]) -> Callable[[int], float]:
    """Milliseconds per call, over enough calls to measure."""
    work()
    calls = max(3, int(SHORTEST / max(_cpu_seconds(work, 3) / 3, 1e-5)))

    def side(_: int) -> float:
        return 1e3 * _cpu_seconds(work, calls) / calls

    return side


def _saved_bytes(loss: Callable[[], Any], inputs: list) -> float:
    """Megabytes that a loss keeps for its gradients, beyond its inputs.

    Tensors that autograd saves, and what Python and NumPy allocate and keep beside them.
    """
    import torch

    own = {tensor.untyped_storage().data_ptr() for tensor in inputs}
    kept: dict[int, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    loss()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        value = loss()
    beside = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del value
    return (sum(kept.values()) + beside) / 2**20


def _chains(repeats: int, n: int, length: int, n_labels: int) -> list[Line]:
    import torch
    import torch_struct
    from torchcrf import CRF

    from maxmargin.torch import ChainCRF

    torch.manual_seed(0)
    emissions = torch.randn(n, length, n_labels, requires_grad=True)
    tags = torch.randint(n_labels, (n, length))
    mask = torch.ones(n, length, dtype=torch.bool)
    ours, theirs = ChainCRF(n_labels, batch_first=True), CRF(n_labels, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    chain = torch_struct.LinearChainCRF

    def edges():
        found = emissions[:, 1:, :, None] + theirs.transitions.T
        first = (emissions[:, :1] + theirs.start_transitions)[:, :, None, :]
        last = torch.zeros_like(found)
        last[:, -1:] = last[:, -1:] + theirs.end_transitions[:, None]
        return torch.cat([found[:, :1] + first, found[:, 1:]], 1) + last

    parts = chain.struct.to_parts(tags, n_labels).float()
    losses = {
        "maxmargin": lambda: -ours(emissions, tags, mask),
        "pytorch-crf": lambda: -theirs(emissions, tags, mask),
        "torch-struct": lambda: -chain(edges()).log_prob(parts).sum(),
    }
    values = [loss().item() for loss in losses.values()]
    assert max(values) - min(values) <= 1e-3 * abs(values[0]), values

    leaves = [emissions, *ours.parameters(), *theirs.parameters()]

    def step(loss):
        def work():
            for leaf in leaves:
                leaf.grad = None
            loss().backward()

        return work

    def without_gradients(answer):
        def work():
            with torch.no_grad():
                answer()

        return work

    decoders = {
        "maxmargin": lambda: ours.decode(emissions, mask),
        "pytorch-crf": lambda: theirs.decode(emissions, mask),
        "torch-struct": lambda: chain.struct.from_parts(chain(edges()).argmax)[0].tolist(),
    }
    sides = {name: _timed(step(loss)) for name, loss in losses.items()}
    steps = alternate(repeats, sides)
    sides = {name: _timed(without_gradients(answer)) for name, answer in decoders.items()}
    decodings = alternate(repeats, sides)
    inputs = [*leaves, tags, mask, parts]
    memory = alternate(1, {
        name: lambda _, loss=loss: _saved_bytes(loss, inputs) for name, loss in losses.items()
    })  # fmt: skip
    size = f"batch {n}, {length} positions, {n_labels} labels"
    lines = []
    for what, unit, samples, goal in (
        ("chain CRF loss and gradients", "ms", steps, 10.0),
        ("chain decoding", "ms", decodings, 20.0),
        ("memory kept for gradients", "MiB", memory, 5.0),
    ):
        for peer in ("pytorch-crf", "torch-struct"):
            lines.append(
                Line(
                    "torch", f"{what}, {size}", unit, samples["maxmargin"], samples[peer], peer,
                    target=Target("ratio", goal),
                )
            )  # fmt: skip
    return lines


def _trees(repeats: int) -> list[Line]:
    import torch
    import torch_struct

    from maxmargin.torch import CRFLoss

    torch.manual_seed(0)
    scores = torch.randn(TREES, WORDS, WORDS + 1, requires_grad=True)
    heads = torch.zeros(TREES, WORDS, dtype=torch.long)
    heads[:, 1:] = 1  # the first word is the root, and the head of all others
    loss = CRFLoss("arborescence", reduction="sum")
    own = torch.arange(WORDS)
    with torch.no_grad():
        table = scores[:, :, 1:].transpose(1, 2).clone()  # [head, word], the root on the diagonal
        table[:, own, own] = scores[:, :, 0]
    table.requires_grad_()
    parts = torch.zeros_like(table, requires_grad=False)
    parts[:, 0, :] = 1.0

    def theirs():
        trees = torch_struct.NonProjectiveDependencyCRF(table, multiroot=False)
        return (trees.partition - (table * parts).sum((1, 2))).sum()

    def step(value, leaf):
        def work():
            leaf.grad = None
            value().backward()

        return work

    def ours():
        return loss(scores, heads)

    # torch-struct adds 1e-5 to every arc
    assert abs(ours().item() - theirs().item()) <= 1e-3 * ours().item()
    samples = alternate(
        repeats,
        {"maxmargin": _timed(step(ours, scores)), "torch-struct": _timed(step(theirs, table))},
    )
    what = f"tree CRF loss and gradients, batch {TREES}, {WORDS} words"
    return [
        Line(
            "torch", what, "ms", samples["maxmargin"], samples["torch-struct"], "torch-struct",
            target=Target("ratio", 5.0),
            note="torch-struct computes in single precision, from exponentials of the scores as "
            "they are; ours are in double precision and exact for any scores",
        )
    ]  # fmt: skip
