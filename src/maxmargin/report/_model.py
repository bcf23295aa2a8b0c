"""What was trained, in words: the formula, the parameters, the certificate, the way there."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import numpy as np

from .._validation import is_array
from ..certificates import Certificate, summary
from ..estimators._base import surrogate_name
from ._charts import Series, line_chart
from ._markup import Html, count, escape, join, number, shorten, table, tag

_SURROGATES = (
    "max-margin",
    "max-min",
    "crf",
    "smooth-max-min",
    "quadratic",
    "restricted-max-margin",
)
_LONGEST_VALUE = 120


def formula(model: Any) -> Html:
    """The part of the docstring above its parameters, with the chosen surrogate only."""
    for cls in type(model).__mro__:
        text = inspect.cleandoc(cls.__doc__ or "").partition("\nParameters\n")[0]
        if "::" in text:
            break
    else:
        return join()
    parts, literal = [], False
    for block in re.split(r"\n\s*\n", text):
        indented = block.startswith("    ")
        if literal and indented:
            parts.append(_formula_block(block, surrogate_name(vars(model).get("surrogate"))))
            continue
        literal = block.rstrip().endswith("::")
        if "CRF" in block and surrogate_name(vars(model).get("surrogate")) != "crf" and not literal:
            continue
        parts.append(tag("p", _prose(block.rstrip().removesuffix("::"), literal)))
    return join(*(part for part in parts if part is not None))


def _formula_block(block: str, surrogate: str | None) -> Html | None:
    others = tuple(f"{name}:" for name in _SURROGATES if name != surrogate)
    lines = [line for line in inspect.cleandoc(block.replace("``", "")).splitlines()
             if not line.strip().startswith(others)]  # fmt: skip
    return tag("pre", "\n".join(lines), tabindex=0) if lines else None


def _prose(text: str, more: bool) -> Html:
    """A paragraph of a docstring: names between backquotes are code."""
    text = " ".join(text.split()) + (":" if more else "")
    pieces = re.split(r"``(.+?)``|:\w+:`~?(?:[\w.]*\.)?(\w+)`", text)
    out: list[Any] = []
    for k in range(0, len(pieces), 3):
        out.append(pieces[k])
        for name in pieces[k + 1 : k + 3]:
            if name is not None:
                out.append(tag("code", name))
    return join(*out)


def parameters(model: Any) -> Html:
    """All parameters; those that differ from their default come first."""
    changed: list[list[Any]] = []
    kept: list[list[Any]] = []
    defaults = {
        name: p.default for name, p in inspect.signature(type(model).__init__).parameters.items()
    }
    for name, value in model.get_params(deep=False).items():
        row = [tag("code", name), tag("code", shorten(_written(value), _LONGEST_VALUE))]
        (kept if _same(value, defaults.get(name)) else changed).append(row)
    header = ["parameter", "value"]
    shown = (
        table(header, changed, caption="Set for this model", label_columns=2)
        if changed
        else tag("p", "All parameters are at their defaults.", class_="note")
    )
    rest = table(header, kept, caption="At their defaults", label_columns=2) if kept else None
    summary = tag("summary", f"{count(len(kept), 'parameter')} at the default")
    return join(shown, tag("details", summary, rest) if kept else None)


def _written(value: Any) -> str:
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    if is_array(value):
        return f"array of shape {value.shape}"
    return repr(value)


def _same(value: Any, default: Any) -> bool:
    simple = (str, int, float, bool, type(None))
    return isinstance(value, simple) and type(value) is type(default) and value == default


def proven(model: Any) -> Certificate | None:
    """What is proven about the objective, where there is a certificate of any kind."""
    fitted = vars(model)
    known = all(name in fitted for name in ("primal_", "dual_", "status_"))
    return summary(model) if known and not math.isnan(fitted["gap_"]) else None


_ENDINGS = {
    "converged": "The fit stopped because the gap was within the tolerance.",
    "stationary": "The fit stopped because another round would have gained next to nothing.",
    "max_iter": "The fit stopped at its limit of passes, before the gap was within the tolerance: "
    "a larger max_iter would help.",
    "stalled": "The fit stopped because rounding errors did not let it come closer.",
    "stopped": "A callback stopped the fit.",
    "early_stopped": "The fit stopped because the score on held-out data did not improve any more.",
    "failed": "Numbers overflowed during the fit; these are the best weights before that.",
    "interrupted": "The fit was interrupted; these are the best weights it had.",
}


def certificate(model: Any) -> Html | None:
    """The certificate, for someone who has never heard of a duality gap."""
    found, fitted = proven(model), vars(model)
    if "certificate_" in fitted:
        words = [tag("p", "Some variables are latent; the weights are a local optimum. "
                     f"{model.certificate_}.")]  # fmt: skip
        return _card(words, _local_facts(model, found))
    if found is None:
        return None
    ending = tag("p", _ENDINGS.get(found.status, f"The fit ended: {found.status}."))
    if found.local:
        words = [
            tag("p", "Some labels were hidden. The objective is then not convex: it has several "
                "local minima, and nothing proves that another one is not lower. Each round "
                "completed the hidden labels and trained on that completion; the objective never "
                "rose, and ended at ", tag("strong", number(float(model.objective_), 6)), "."),
            ending,
        ]  # fmt: skip
        return _card(words, _local_facts(model, found))
    share = f"{found.relative_gap:.2%}"
    words = [
        tag("p", "Training looks for the weights with the smallest objective. The weights found "
            "have an objective of ", tag("strong", number(found.primal, 6)),
            ". The dual solution proves that ", tag("strong", "no weights at all"),
            " have an objective below ", tag("strong", number(found.dual, 6)), ". So at most ",
            tag("strong", share), " of the objective could still be gained by training longer."),
        ending,
    ]  # fmt: skip
    if found.oracle_error > 1e-9 * abs(found.primal):
        error = number(found.oracle_error, 2)
        words.append(tag("p", f"Of the gap, {error} may be due to an inexact oracle; "
                         "passes do not close that part."))  # fmt: skip
    if fitted.get("bounds_"):
        relaxed = (
            "The objective is that of the relaxed problem, which is never below the exact one, and "
            "equal to it where graphs have no cycles."
        )
        words.append(tag("p", relaxed))
    facts = [
        ("objective (primal)", number(found.primal, 8)),
        ("lower bound (dual)", number(found.dual, 8)),
        ("gap", _gap_text(found)),
        *_last_facts(model),
    ]
    note = "The certificate is about the training objective, not about new data."
    return join(_card(words, facts), tag("p", note, class_="note"))


Facts = list[tuple[str, str]]


def _card(words: list[Html], facts: Facts) -> Html:
    return join(tag("div", words, class_="proof"), definitions(facts))


def _gap_text(found: Certificate) -> str:
    return f"{number(found.gap, 3)} ({found.relative_gap:.3%})"


def _last_facts(model: Any) -> Facts:
    return [
        ("status", str(model.status_)),
        ("passes over the data", number(float(model.n_iter_))),
        ("alpha", number(float(model.alpha_), 6)),
    ]


def _local_facts(model: Any, found: Certificate | None) -> Facts:
    """What is known where the objective is not convex."""
    facts = [("objective", number(float(model.objective_), 8))]
    if "rounds_" in vars(model):
        facts.append(("rounds", number(float(len(model.rounds_)))))
    if found is not None:
        facts.append(("gap of the last convex problem", _gap_text(found)))
    return [*facts, *_last_facts(model)]


def definitions(facts: list[tuple[str, Any]]) -> Html:
    """Terms and what they are."""
    return tag("dl", [(tag("dt", term), tag("dd", value)) for term, value in facts],
               class_="facts")  # fmt: skip


def convergence(model: Any) -> Html | None:
    """Objective and bound over passes, and the gap over seconds."""
    history = vars(model).get("history_")
    if not history:
        return None
    checks = dict(zip(history[0]._fields, np.array(history, float).T, strict=True))
    bounded = bool(np.isfinite(checks["dual"]).any())  # not with random structures
    names = ["objective (primal), gap", "lower bound (dual)"] if bounded else ["objective"]
    legend = tag("ul", [tag("li", tag("i", class_=f"s{i}"), name) for i, name in enumerate(names)],
                 class_="legend")  # fmt: skip
    passes, seconds = checks["passes"], checks["seconds"]
    if bounded:
        charts = [
            line_chart(
                [Series(name, passes, checks[name]) for name in ("primal", "dual")],
                title="Objective and its bound over passes", x_name="passes",
                description=f"the objective ends at {number(checks['primal'][-1])}, the bound at "
                f"{number(checks['dual'][-1])}, after {number(passes[-1])} passes",
            ),
            line_chart(
                [Series("gap", seconds, checks["gap"])], log=True, x_name="seconds",
                title="Gap over seconds, logarithmic",
                description=f"the gap falls from {number(checks['gap'][0])} to "
                f"{number(checks['gap'][-1])}",
            ),
        ]  # fmt: skip
    else:
        charts = [
            line_chart(
                [Series("primal", x, checks["primal"])], title=f"Objective over {x_name}",
                x_name=x_name, description=f"the objective ends at {number(checks['primal'][-1])}",
            )
            for x_name, x in (("passes", passes), ("seconds", seconds))
        ]  # fmt: skip
    rows = [
        [number(float(c.passes)), f"{c.seconds:.2f}", number(c.primal, 6), number(c.dual, 6),
         number(c.gap, 3)]
        for c in _thinned(list(history))
    ]  # fmt: skip
    numbers = table(["passes", "seconds", "primal", "dual", "gap"], rows, caption="Checks")
    summary = tag("summary", escape("the numbers"))
    return join(legend, tag("div", charts, class_="charts"), tag("details", summary, numbers))


def _thinned(history: list) -> list:
    """At most forty checks, with the first and the last."""
    if len(history) <= 40:
        return history
    chosen = np.unique(np.linspace(0, len(history) - 1, 40).round().astype(int))
    return [history[k] for k in chosen]
