"""Assumptions A and B of Bello, Honorio (2018), and Claims iii and iv, on the paper's problems.

``python -m experiments latent_assumptions`` writes ``docs/results/latent_assumptions.json`` and
``.md``.

Theorem 3 is about random structures under three assumptions on the proposals. A and B are estimated
at the weights of models trained over random structures, for uniform and for greedy proposals.
"""

from __future__ import annotations

from typing import Any

from maxmargin import LatentPredictor
from maxmargin.certificates import check_low_norm, estimate_beta

from .graphs import arguments, markdown_table, write_json, write_report
from .latent_data import SPACES, latent_of, make

N, DRAWS = 100, 1000
ABOUT = f"""
Theorem 3 of Bello and Honorio (NeurIPS 2018) assumes of the proposals R(w, x), for all examples and
weights, with h* the explanation of the truth y:

- A: P[d(y, y', h') = 1] ≥ 1 − β for some β < 1;
- B: |E[Φ(x, y, h*) − Φ(x, y', h')]| ≤ 1/(2 √n) ≤ 1/(2 |w|), read as the norm of the expectation:
  it is not larger than the expectation of the norm, of which Claim iii would not be true.

Claim iii derives B for uniform proposals if structures differ from the truth in at most one
feature, by at most b; Claim iv for any proposals if every feature differs by at most b/|P|; both
need n ≤ |P|/(4 b²), where |P| is the number of features that can differ from zero and b a positive
integer.

Models: random structures with the superset and default settings, n = {N} examples, seed 0; {DRAWS}
proposals of each example, at the trained weights (`check_low_norm`, `estimate_beta`). "±" is the
error of the norms of all examples at once, with 95 % confidence. "differing" is the largest number
of features in which a draw differs from the truth; Claim iii allows one.
"""
VERDICTS = {True: "holds", False: "fails", None: "not decided"}


def row_of(name: str, n: int, draws: int) -> dict[str, Any]:
    """Both assumptions of one problem, by kind of proposals."""
    train, _ = make(name, n, 0)
    model = LatentPredictor(latent_of(name, True), random_state=0).fit(*train)
    found: dict[str, Any] = {}
    for kind, greedy in (("uniform", False), ("greedy", True)):
        low = check_low_norm(model, *train, n_draws=draws, greedy=greedy, random_state=0)
        beta = estimate_beta(model, *train, n_draws=draws, greedy=greedy, random_state=0)
        found[kind] = {
            "features": model.latent.pack(train[0]).n_weights,
            "beta": beta.worst,
            "limit": low.limit,
            "mean": low.mean,
            "worst": low.worst,
            "error": low.error,
            "verdict": VERDICTS[low.holds],
            "differing": low.n_differing,
            "largest": low.largest_difference,
            "claim iii": low.claim_iii,
            "claim iv": low.claim_iv,
        }
    return found


def table_of(cells: dict[str, Any]) -> str:
    """A line for each problem and kind of proposals."""
    lines = [
        [
            name,
            kind,
            f"{row['beta']:.3f}",
            f"{row['limit']:.3f}",
            f"{row['mean']:.2f}",
            f"{row['worst']:.2f} ± {row['error']:.2f}",
            row["verdict"],
            str(row["features"] // 4),
            str(row["differing"]),
            *("not refuted" if row[claim] else "not met" for claim in ("claim iii", "claim iv")),
        ]
        for name, rows in cells.items()
        for kind, row in rows.items()
    ]
    header = ["problem", "proposals", "β, worst example", "B: at most", "mean norm", "largest norm"]
    claims = ["B", "largest n for b = 1", "differing", "Claim iii", "Claim iv"]
    return markdown_table([*header, *claims], lines)


def main(words: list[str] | None = None) -> None:
    """Check all problems."""
    chosen = arguments("latent_assumptions", __doc__, "20 examples, 100 draws", words)
    n, draws = (20, 100) if chosen.quick else (N, DRAWS)
    cells = {}
    for name in SPACES:
        cells[name] = row_of(name, n, draws)
        print(name, flush=True)
    write_json(chosen.folder / "latent_assumptions.json", cells)
    table = table_of(cells)
    title = "Latent variables: the assumptions of Theorem 3"
    write_report(chosen.folder, "latent_assumptions", title, ABOUT, table, figure=False)
    print(table)
