"""Which label sequences are allowed: transitions, first and last labels, labels at positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._validation import (
    has_items,
    has_length,
    is_array,
    is_iterable,
    is_list,
    is_mapping,
    is_plain_list,
    is_switch,
    is_text,
    is_unordered,
)

_SCHEMES = {
    # scheme: prefix -> prefixes that may follow within the same chunk; prefixes that may open a
    # chunk; prefixes that may end a sequence (or precede one that opens a chunk)
    "bio": ({"B": "I", "I": "I"}, "BO", "BIO"),
    "bioes": ({"B": "IE", "I": "IE"}, "BSO", "ESO"),
}


class TransitionMasks(NamedTuple):
    """Allowed transitions, first and last labels: True is allowed."""

    transitions: np.ndarray  # (K, K), from row to column
    first: np.ndarray  # (K,)
    last: np.ndarray  # (K,)

    @property
    def forbids_anything(self) -> bool:
        """Whether there is any constraint at all."""
        return not all(mask.all() for mask in self)


def transition_masks(constraints: Any, classes: np.ndarray) -> TransitionMasks:
    """Masks from None, a scheme, a matrix, or a dict of what is forbidden.

    Parameters
    ----------
    constraints : None, "bio", "bioes", (K, K) bool array, or dict
        A matrix says which transitions are allowed, from row to column, in the order of
        ``classes``. A dict lists what is forbidden: ``{"transitions": [(from, to), ...],
        "first": [label, ...], "last": [label, ...]}``.
    classes : array of K labels
    """
    K = len(classes)
    free = TransitionMasks(np.ones((K, K), bool), np.ones(K, bool), np.ones(K, bool))
    if constraints is None:
        return free
    if is_text(constraints):
        if constraints not in _SCHEMES:
            raise ValueError(
                f"constraints must be None, 'bio', 'bioes', a ({K}, {K}) matrix or a dict; "
                f"received {constraints!r}."
            )
        return _scheme_masks(constraints, classes)
    if is_mapping(constraints):
        return _forbid(constraints, classes, free)
    matrix = np.asarray(constraints)
    if matrix.shape != (K, K) or matrix.dtype != bool:
        raise ValueError(
            f"constraints must be a bool matrix of shape ({K}, {K}), True where the label of the "
            f"column may follow that of the row; received shape {matrix.shape}, {matrix.dtype}."
        )
    return free._replace(transitions=matrix.copy())


def _forbid(constraints: Mapping, classes: np.ndarray, free: TransitionMasks) -> TransitionMasks:
    unknown = set(constraints) - {"transitions", "first", "last"}
    if unknown:
        raise ValueError(
            "constraints may have the keys 'transitions', 'first' and 'last'; received "
            f"{sorted(map(str, unknown))}."
        )
    code = {label: k for k, label in enumerate(classes.tolist())}

    def at(label: Any, where: str) -> int:
        if label not in code:
            raise ValueError(
                f"constraints[{where!r}] names {label!r}, which is no known label; correct it, or "
                "declare it with classes=."
            )
        return code[label]

    for where, listed in constraints.items():
        if not has_items(listed):
            raise ValueError(f"constraints[{where!r}] must be a list; received {listed!r}.")
    for pair in constraints.get("transitions", ()):
        if not is_plain_list(pair) or len(pair) != 2:
            raise ValueError(
                f"constraints['transitions'] must hold pairs (from, to); received {pair!r}."
            )
        free.transitions[at(pair[0], "transitions"), at(pair[1], "transitions")] = False
    for label in constraints.get("first", ()):
        free.first[at(label, "first")] = False
    for label in constraints.get("last", ()):
        free.last[at(label, "last")] = False
    return free


def _scheme_masks(scheme: str, classes: np.ndarray) -> TransitionMasks:
    follow, opens, ends = _SCHEMES[scheme]
    parsed = []
    for label in classes.tolist():
        prefix, _, kind = str(label).partition("-")
        if prefix not in set(opens) | set(ends) | set("".join(follow)) | set(
            "".join(follow.values())
        ) or (prefix == "O") != (not kind):
            raise ValueError(
                f"constraints={scheme!r} needs labels like 'O' and 'B-kind'; received the label "
                f"{label!r}."
            )
        parsed.append((prefix, kind))
    K = len(parsed)
    masks = TransitionMasks(np.zeros((K, K), bool), np.zeros(K, bool), np.zeros(K, bool))
    for a, (prefix_a, kind_a) in enumerate(parsed):
        masks.first[a] = prefix_a in opens
        masks.last[a] = prefix_a in ends
        for b, (prefix_b, kind_b) in enumerate(parsed):
            inside = prefix_b in follow.get(prefix_a, "") and kind_a == kind_b
            masks.transitions[a, b] = inside or (prefix_a in ends and prefix_b in opens)
    return masks


def allowed_positions(
    allowed: Any, lengths: np.ndarray, classes: np.ndarray, name: str = "allowed"
) -> np.ndarray:
    """Stacked (positions, K) mask from a list with one entry per sequence.

    An entry is None (everything), a (T, K) bool array in the order of ``classes``, or a list of T
    collections of labels (None: any label; a string is one label).
    """
    K = len(classes)
    if allowed is None:
        return np.ones((0, K), bool)
    _check_entries(allowed, lengths, name)
    code = {label: k for k, label in enumerate(classes.tolist())}
    stacked = np.ones((int(lengths.sum()), K), bool)
    end = 0
    for i, (entry, length) in enumerate(zip(allowed, lengths, strict=True)):
        start, end = end, end + int(length)
        if entry is None:
            continue
        if is_array(entry) and entry.ndim == 2:
            if entry.shape != (length, K) or entry.dtype != bool:
                raise ValueError(
                    f"{name}[{i}] must be a bool array of shape ({length}, {K}), positions by "
                    f"classes; received shape {entry.shape}, {entry.dtype}."
                )
            stacked[start:end] = entry
            continue
        _check_length(entry, int(length), i, name)
        for t, labels in enumerate(entry):
            if labels is not None:
                stacked[start + t] = False
                stacked[start + t, _codes_of(labels, code, f"{name}[{i}][{t}]")] = True
    return stacked


def known_positions(partial_y: Any, lengths: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Stacked (positions, K) mask from known labels: one entry per sequence.

    An entry is None (nothing is known) or a list of T labels, None where they are not known.
    """
    _check_entries(partial_y, lengths, "partial_y")
    for i, (entry, length) in enumerate(zip(partial_y, lengths, strict=True)):
        if entry is not None:
            _check_length(entry, int(length), i, "partial_y")
    wrapped = [
        None if entry is None else [None if label is None else [label] for label in entry]
        for entry in partial_y
    ]
    return allowed_positions(wrapped, lengths, classes, "partial_y")


def _check_entries(entries: Any, lengths: np.ndarray, name: str) -> None:
    if not is_list(entries):
        raise ValueError(
            f"{name} must be a list with one entry for each sequence, None where nothing is said "
            f"about it; received {type(entries).__name__}."
        )
    if len(entries) != len(lengths):
        raise ValueError(
            f"{name} has {len(entries)} entries but X has {len(lengths)} sequences; expected one "
            "entry for each, None where nothing is said about it."
        )


def _check_length(entry: Any, length: int, i: int, name: str) -> None:
    if is_unordered(entry) or not has_length(entry):
        raise ValueError(
            f"{name}[{i}] must have one entry for each of the {length} positions of X[{i}]; "
            f"received {entry!r}."
        )
    if len(entry) != length:
        raise ValueError(
            f"{name}[{i}] has {len(entry)} positions but X[{i}] has {length}; expected one entry "
            "for each, None where nothing is said about it."
        )


def _codes_of(labels: Any, code: dict, where: str) -> list[int]:
    """Codes of some labels that are allowed at one place."""
    listed = [labels] if is_text(labels) else labels
    if not is_iterable(listed):
        raise ValueError(f"{where} must be a list of labels or None; received {labels!r}.")
    codes = []
    for label in listed:
        # True is equal to 1: a row of a mask would be read as labels.
        mask = is_switch(label) and not any(type(k) is bool for k in code)
        if mask:
            raise ValueError(f"{where} holds bools; pass the mask of a sequence as a numpy array.")
        try:
            codes.append(code[label])
        except (KeyError, TypeError):
            raise ValueError(
                f"{where} names {label!r}, which is not among the classes; correct it, or declare "
                "it with classes= in training."
            ) from None
    return codes


def first_violation(
    codes: np.ndarray, indptr: np.ndarray, masks: TransitionMasks, allowed: np.ndarray
) -> tuple[int, int, str] | None:
    """First place where given labels break the masks: sequence, position and what is wrong."""
    starts, ends = indptr[:-1], indptr[1:] - 1
    bad = np.zeros((4, len(codes)), bool)
    bad[0, starts] = ~masks.first[codes[starts]]
    bad[1, ends] = ~masks.last[codes[ends]]
    inner = np.ones(len(codes), bool)
    inner[starts] = False
    follows = np.flatnonzero(inner)
    bad[2, follows] = ~masks.transitions[codes[follows - 1], codes[follows]]
    if len(allowed):
        bad[3] = ~allowed[np.arange(len(codes)), codes]
    if not bad.any():
        return None
    place = int(np.flatnonzero(bad.any(axis=0))[0])
    kind = ("may not come first", "may not come last", "may not follow", "is not allowed there")
    i = int(np.searchsorted(indptr, place, side="right") - 1)
    return i, place - int(indptr[i]), kind[int(np.flatnonzero(bad[:, place])[0])]
