"""Decoding of chains for other programs: TorchScript, and ONNX for runtimes without Python.

Both take emissions of shape (n, T, K) and a mask of shape (n, T), and return the labels of
:func:`maxmargin.torch.decode`, -1 where the mask is False. Sums are taken in double precision, in
the order of the compiled kernel.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._optional import require
from .._replacing import replacing
from .chain_crf import ChainCRF

_OPSET = 17


def _tables(head: ChainCRF) -> list[np.ndarray]:
    """Transitions, start and end; minus infinity where the constraints forbid."""
    limits = head.structure.of_size(head.num_tags)
    given = (head.transitions, head.start_transitions, head.end_transitions)
    return [part.detach().cpu().double().numpy() + mask for part, mask in zip(given, limits.scores)]


class ChainDecoder(nn.Module):
    """The best labels of chains, in plain torch operations that can be scripted.

    Parameters
    ----------
    head : ChainCRF
        Its transitions, scores of first and last labels, and constraints are copied.
    """

    def __init__(self, head: ChainCRF):
        super().__init__()
        transitions, start, end = (torch.from_numpy(table) for table in _tables(head))
        self.register_buffer("transitions", transitions)
        self.register_buffer("start", start)
        self.register_buffer("end", end)

    def forward(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Labels of shape (n, T)."""
        scores = emissions.double()
        n, length, n_labels = scores.shape
        same = torch.arange(n_labels, device=scores.device)[None].expand(n, n_labels)
        best = scores[:, 0] + self.start  # type: ignore[operator]
        pointers: list[Tensor] = []
        for t in range(1, length):
            top, came_from = (best[:, :, None] + self.transitions).max(1)  # type: ignore[operator]
            counts = mask[:, t][:, None]
            best = torch.where(counts, top + scores[:, t], best)
            pointers.append(torch.where(counts, came_from, same))
        label = (best + self.end).argmax(1, keepdim=True)  # type: ignore[operator]
        labels = [label]
        for t in range(length - 2, -1, -1):
            label = pointers[t].gather(1, label)
            labels.append(label)
        found = torch.cat(labels, 1).flip(1)
        return torch.where(mask, found, torch.full_like(found, -1))


def to_torchscript(head: ChainCRF, path: str | os.PathLike[str] | None = None) -> Any:
    """Decoding as TorchScript; written to a file, if one is given.

    Parameters
    ----------
    head : ChainCRF
    path : path, optional

    Returns
    -------
    torch.jit.ScriptModule
    """
    found = torch.jit.script(ChainDecoder(head))
    if path is not None:
        with replacing(path) as file:
            torch.jit.save(found, file)
    return found


def to_onnx(head: ChainCRF, path: str | os.PathLike[str]) -> None:
    """Write decoding as an ONNX model with inputs "emissions" and "mask", output "labels".

    Parameters
    ----------
    head : ChainCRF
    path : path
    """
    onnx = require("onnx", "onnx", "Export to ONNX")
    model = _onnx_model(onnx, head.num_tags, *_tables(head))
    onnx.checker.check_model(model)
    with replacing(path) as file:
        file.write(model.SerializeToString())


def _onnx_model(onnx: Any, k: int, transitions: Any, start: Any, end: Any) -> Any:
    """Two scans: forward for scores and back pointers, and back along the pointers."""
    helper, kinds = onnx.helper, onnx.TensorProto
    node = helper.make_node

    def value(name: str, kind: int, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, list(shape))

    constants = {
        "transitions": transitions[None],
        "start": start[None],
        "end": end[None],
        "own": np.arange(k)[None],
        "zero": np.zeros(1, np.int64),
        "axis": np.array([1], np.int64),
        "no_label": np.array(-1),
    }
    forward = helper.make_graph(
        [
            node("Unsqueeze", ["best", "axis_2"], ["column"]),
            node("Add", ["column", "transitions"], ["ways"]),
            node("ReduceMax", ["ways"], ["top"], axes=[1], keepdims=0),
            node("ArgMax", ["ways"], ["came_from"], axis=1, keepdims=0),
            node("Add", ["top", "scores"], ["later"]),
            node("Add", ["scores", "start"], ["earliest"]),
            node("Where", ["is_first", "earliest", "later"], ["reached"]),
            node("Where", ["counts", "reached", "best"], ["best_out"]),
            node("Not", ["is_first"], ["not_first"]),
            node("And", ["counts", "not_first"], ["moves"]),
            node("Where", ["moves", "came_from", "own"], ["pointers"]),
        ],
        "forward",
        [
            value("best", kinds.DOUBLE, "n", k), value("scores", kinds.DOUBLE, "n", k),
            value("counts", kinds.BOOL, "n", 1), value("is_first", kinds.BOOL, 1),
        ],
        [value("best_out", kinds.DOUBLE, "n", k), value("pointers", kinds.INT64, "n", k)],
        [onnx.numpy_helper.from_array(np.array([2], np.int64), "axis_2")],
    )  # fmt: skip
    back = helper.make_graph(
        [
            node("Identity", ["label"], ["found"]),
            node("GatherElements", ["pointers", "label"], ["label_out"], axis=1),
        ],
        "back",
        [value("label", kinds.INT64, "n", 1), value("pointers", kinds.INT64, "n", k)],
        [value("label_out", kinds.INT64, "n", 1), value("found", kinds.INT64, "n", 1)],
    )
    nodes = [
        node("Cast", ["emissions"], ["double"], to=kinds.DOUBLE),
        node("Transpose", ["double"], ["steps"], perm=[1, 0, 2]),
        node("Transpose", ["mask"], ["mask_steps"], perm=[1, 0]),
        node("Unsqueeze", ["mask_steps", "last_axis"], ["counts_steps"]),
        node("Shape", ["steps"], ["shape"]),
        node("Slice", ["shape", "zero", "axis"], ["length"]),
        node("Squeeze", ["length"], ["length_0"]),
        node("Range", ["zero_0", "length_0", "one_0"], ["numbers"]),
        node("Unsqueeze", ["numbers", "axis"], ["number_rows"]),
        node("Equal", ["number_rows", "zero"], ["first_steps"]),
        node("Gather", ["steps", "zero_0"], ["beginning"], axis=0),
        node(
            "Scan", ["beginning", "steps", "counts_steps", "first_steps"], ["best", "all_pointers"],
            body=forward, num_scan_inputs=3,
        ),
        node("Add", ["best", "end"], ["total"]),
        node("ArgMax", ["total"], ["last"], axis=1, keepdims=1),
        node(
            "Scan", ["last", "all_pointers"], ["before", "found_steps"], body=back,
            num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1],
        ),
        node("Squeeze", ["found_steps", "last_axis"], ["found_rows"]),
        node("Transpose", ["found_rows"], ["found_labels"], perm=[1, 0]),
        node("Where", ["mask", "found_labels", "no_label"], ["labels"]),
    ]  # fmt: skip
    scalars = {"zero_0": np.array(0), "one_0": np.array(1), "last_axis": np.array([2])}
    graph = helper.make_graph(
        nodes,
        "chain_decoding",
        [value("emissions", kinds.FLOAT, "n", "T", k), value("mask", kinds.BOOL, "n", "T")],
        [value("labels", kinds.INT64, "n", "T")],
        [onnx.numpy_helper.from_array(a, name) for name, a in (constants | scalars).items()],
    )
    opset = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name="maxmargin")
