"""The experiments run, and what they rest on is right. Their results are not tested."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest
from experiments import buffy, noise, protocol, saddle, summary, table1
from experiments.__main__ import NAMES, NEEDS
from experiments.__main__ import main as run_experiment
from experiments.rows import BY_NAME, ROWS, Examples, closed_on_the_right, equal_width
from experiments.store import RESULTS, read_cells

import maxmargin as mm
from realdata import data_file


def test_quick_run_of_a_small_row_fills_the_table_and_is_not_repeated(tmp_path, capsys):
    words = ["--quick", "--rows", "iris", "--features", "columns", "--methods", "M3N", "M4N"]
    table1.main([*words, "--folder", str(tmp_path)])
    cells = read_cells(tmp_path / "table1.csv")
    assert [(cell.method, cell.split) for cell in cells] == [
        ("M3N", 0), ("M4N", 0), ("M3N", 1), ("M4N", 1)
    ]  # fmt: skip
    for cell in cells:
        best = int(np.argmin(cell.validation))
        assert cell.exponent == protocol.EXPONENTS[best] and cell.test == cell.tests[best]
        assert cell.test <= 0.2
    report = (tmp_path / "table1.md").read_text()
    assert "| iris | columns | 2 |" in report and "(3.33)" in report and "not run (3.08)" in report
    capsys.readouterr()
    table1.main([*words, "--folder", str(tmp_path)])
    assert "split" not in capsys.readouterr().out.partition("| data |")[0]  # no cell computed
    assert read_cells(tmp_path / "table1.csv") == cells


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_a_quick_mode(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        importlib.import_module(f"experiments.{name}").main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert f"python -m experiments {name}" in text and "--quick" in text and "--folder" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_quick_mode_writes_what_the_page_needs(name, tmp_path):
    """Each takes at most a few minutes; the results of the whole run stay as they are."""
    data_file("yeast.npz")
    before = {path: path.stat().st_mtime_ns for path in RESULTS.glob(f"{name}.*")}
    run_experiment([name, "--quick", "--folder", str(tmp_path)])
    written = {path.suffix for path in tmp_path.iterdir() if path.stem == name}
    assert written & {".json", ".csv"}
    assert (".svg" in written) == (name in NEEDS)
    assert before == {path: path.stat().st_mtime_ns for path in RESULTS.glob(f"{name}.*")}


PAGES = sorted(path.stem for path in RESULTS.glob("*.md") if path.stem != "index")


@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_its_command_machine_versions_and_seeds(name):
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    package = "experiments " if name in NAMES else r"benchmarks[ .]?"
    own = name if name != "benchmarks" else "NAME"
    assert re.search(rf"python -m {package}{own}\b", text)
    assert re.search(r"AMD EPYC|Intel Xeon", text)
    for what in ("Python", "maxmargin", "numpy", "scipy", "scikit-learn", "numba"):
        assert re.search(rf"\b{what} \d+\.\d+", text), what
    assert re.search(r"\b[Ss]eeds? ", text)


def test_every_page_of_an_experiment_is_in_the_list_of_results():
    listed = (RESULTS / "index.md").read_text(encoding="utf-8").splitlines()
    assert set(PAGES) <= set(listed) and set(NAMES) <= set(PAGES)


def test_all_rows_of_the_paper_are_there():
    assert len(ROWS) == 18 and len(BY_NAME) == 18 + 7  # other bins of ordinal targets
    assert [row.task for row in ROWS].count("ranking") == 5
    assert all((row.CRF is None) == (row.task == "ranking") for row in ROWS)


@pytest.mark.parametrize("n", [150, 209])
def test_parts_are_disjoint_and_have_the_paper_s_shares(n):
    three = protocol.parts(n, 3)
    assert np.array_equal(np.sort(np.concatenate(three)), np.arange(n))
    for part, share in zip(three, (0.6, 0.2, 0.2)):
        assert abs(len(part) - share * n) <= 1


def test_inputs_are_scaled_by_the_training_part_and_the_kernel_by_their_number():
    rng = np.random.RandomState(0)
    examples = Examples(3.0 + 2.0 * rng.randn(50, 4), rng.randint(3, size=50), 3)
    data = protocol.make_split(BY_NAME["iris"], examples, 0, "exact")
    np.testing.assert_allclose(data.train.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.train.X.std(axis=0), 1.0)
    train = examples.X[protocol.parts(50, 0)[0]]
    expected = (examples.X[protocol.parts(50, 0)[2]] - train.mean(axis=0)) / train.std(axis=0)
    np.testing.assert_allclose(data.test.X, expected)
    assert data.parameters["kernel"].gamma == pytest.approx(1.0 / (2 * 4))


def test_crf_predicts_the_least_expected_loss():
    class Model:
        def predict_proba(self, X):
            return np.array([[0.4, 0.3, 0.3]])  # the first class is likeliest, the second cheapest

    part = Examples(np.zeros((1, 1)), np.array([1]), 3)
    assert protocol.mean_loss(BY_NAME["auto"], False, Model(), part) == 0.0


def test_equal_width_bins_cover_the_range():
    assert equal_width(np.array([0.0, 1.9, 2.0, 9.9, 10.0]), 5).tolist() == [0, 0, 1, 4, 4]


def test_bins_closed_on_the_right_differ_at_their_borders():
    found = closed_on_the_right(np.array([0.0, 1.9, 2.0, 2.1, 4.0, 10.0]), 5)
    assert found.tolist() == [0, 0, 0, 1, 1, 4]


def test_the_scripts_with_one_thing_changed():
    ranking, words = BY_NAME["vowel (ranking)"], BY_NAME["ocr"]
    assert len(protocol.exponents_of(ranking, "longer")) == 9
    assert len(protocol.exponents_of(words, "longer")) == 5
    for row, iterations in ((ranking, 20), (words, "auto")):
        plain, found = (
            protocol.authors_settings(row, "M4N", f) for f in ("scripts", "mirror-prox")
        )
        assert "solver" not in plain and plain["max_iter"] == found["max_iter"]
        steps = found["solver"].solver
        assert steps.oracle.iterations == iterations
        assert not steps.line_search and steps.step_average == 1.0
    random = np.random.RandomState(0)
    examples = Examples(random.randn(300, 3), random.randint(2, size=300), 2)
    first, second = (protocol.make_split(BY_NAME["iris"], examples, 0, f).train.X
                     for f in ("scripts", "redrawn"))  # fmt: skip
    assert first.shape == second.shape and not np.allclose(first, second)


def test_mean_and_standard_error():
    centre, error = summary.mean_and_error([1.0, 2.0, 3.0])
    assert centre == 2.0 and error == pytest.approx(1.0 / np.sqrt(3.0))


def _closed_form(scores, A):
    return (scores[:, None] + scores + A).max() / 2.0


@pytest.mark.parametrize("seed", range(5))
def test_bracket_of_mirror_prox_holds_the_closed_form_and_shrinks(seed):
    rng = np.random.RandomState(seed)
    levels = np.arange(6)
    A = np.abs(levels[:, None] - levels).astype(float)
    scores = rng.randn(6)
    widths = []
    for iterations in (10, 100, 1000):
        mu, nu, mean_mu, mean_nu = np.full((4, 6), 1.0 / 6.0)
        upper, lower = saddle.mirror_prox.py_func(
            A, scores, iterations, 1.0 / (2.0 * A.max()), mu, nu, mean_mu, mean_nu
        )
        assert lower - 1e-12 <= _closed_form(scores, A) <= upper + 1e-12
        widths.append(upper - lower)
    assert widths[1] < widths[0] / 3.0 and widths[2] < widths[1] / 3.0


@pytest.mark.more
@pytest.mark.parametrize("warm", [True, False])
def test_dual_never_falls_under_exact_steps_and_stays_below_the_primal(warm):
    rng = np.random.RandomState(0)
    X, y = rng.randn(15, 3), rng.randint(4, size=15)
    levels = np.arange(4)
    A = np.abs(levels[:, None] - levels).astype(float)
    orders = np.array([rng.permutation(15) for _ in range(8)])
    _, primal, dual, _ = saddle._train.py_func(X, y, A, 0.1, 8, 10, warm, True, orders)
    assert (np.diff(dual) >= -1e-12).all() and (primal.min() - dual.max()) >= -1e-9


# --- label noise ----------------------------------------------------------------------------


def test_noise_replaces_labels_by_any_other_one():
    y = np.repeat(np.arange(4), 5000)
    found = noise.corrupt(y, 0.4, 4, np.random.RandomState(0))
    shares = np.array([np.bincount(found[y == k], minlength=4) for k in range(4)]) / 5000
    expected = np.full((4, 4), 0.2) + 0.2 * np.eye(4)
    np.testing.assert_allclose(shares, expected, atol=0.03)  # four standard deviations
    np.testing.assert_array_equal(noise.corrupt(y, 1.0, 4, np.random.RandomState(0)), y)


def test_noise_leaves_the_test_part_clean_and_chooses_by_noisy_validation():
    random = np.random.RandomState(0)
    y = random.randint(0, 3, 300)
    X = 2.0 * np.eye(3)[y] + 0.3 * random.randn(300, 3)
    three = [Examples(X[part], y[part], 3) for part in np.split(np.arange(300), [180, 240])]
    data = noise.with_noise(noise.Noisy(*three), 0.5, 0)
    assert data.test is three[2]
    assert 0.3 < np.mean(data.train.y == three[0].y) < 0.7
    found = noise.walk(noise.make_model(data, "M4N", 0, 0.01), data, (0.01, 10.0))
    best = int(np.argmin(found["validation"]))
    assert found["error"] == found["test"][best] and found["C"] == (0.01, 10.0)[best]
    assert max(found["gaps"]) <= 0.01 and found["error"] < 0.2
    content = {"set": {method: {"0.5": [found]} for method in noise.METHODS}}
    assert f"| 0.5 | {100 * found['error']:.1f} |" in noise.table(content)


def test_the_grid_of_the_authors_scripts():
    row = BY_NAME["segment"]
    strengths = [2.0**-k for k in protocol.exponents_of(row, "authors")]
    assert strengths[:4] == pytest.approx([0.3535, 0.125, 0.0442, 0.0156], rel=3e-3)
    assert len(strengths) == 9 and strengths[-1] == pytest.approx(8.6e-5, rel=5e-3)
    assert len(protocol.exponents_of(BY_NAME["glass (ranking)"], "authors")) == 4
    assert protocol.authors_settings(row, "CRF", "authors")["max_iter"] == 101
    words = [2.0**-k for k in protocol.exponents_of(BY_NAME["ocr"], "scripts")]
    assert words == pytest.approx([0.0156, 0.0055, 0.002, 0.0007, 0.00024], rel=0.03)
    ranking = BY_NAME["glass (ranking)"]
    assert protocol.authors_settings(ranking, "M4N", "scripts") == {"max_iter": 51}


def test_fixed_steps_return_their_average_whatever_its_objective():
    """At a weak alpha and after one pass, zero weights have a lower objective."""
    random = np.random.RandomState(0)
    X, y = random.randn(30, 4), random.randint(3, size=30)
    for kind, is_zero in ((mm.BlockFrankWolfe, True), (protocol.FixedSteps, False)):
        steps = kind(exact_blocks=False, line_search=False, step_average=1.0)
        solver = mm.Checked(steps, every=1)
        model = mm.MulticlassClassifier(
            alpha=1e-5, solver=solver, tol=0.0, max_iter=1, random_state=0
        ).fit(X, y)
        assert model.coef_.any() != is_zero
        assert (model.primal_ > 1.0) != is_zero and model.gap_ > 0.0


def test_scripts_map_all_examples_before_they_are_split():
    random = np.random.RandomState(0)
    examples = Examples(random.randn(50, 3), random.randint(2, size=50), 2)
    data = protocol.make_split(BY_NAME["iris"], examples, 0, "scripts")
    rows = np.concatenate([data.train.X, data.validation.X, data.test.X])
    assert rows.shape == (50, 50)
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(rows.std(axis=0), 1.0)


def test_one_strength_for_all_splits_in_the_table_of_the_scripts():
    tests = ((0.1, 0.3), (0.5, 0.2))
    cells = [
        protocol.Cell("iris", "scripts", "M3N", split, 1.5, own[0], 0.0, 1.0, own, own)
        for split, own in enumerate(tests)
    ]
    (line,) = summary.table(cells, [BY_NAME["iris"]], ("scripts",)).splitlines()[2:]
    assert "| 2 | 30.00 ± 20.00% (3.33)" in line and line.endswith("25.00 ± 5.00% (3.33) * |")


def test_pairs_of_warped_frames_keep_their_truth():
    rng = np.random.RandomState(0)
    frame = rng.randn(5, 2), rng.randn(5, 3)
    same = (np.tile(part, (4, 1, 1)) for part in frame)
    data = buffy.Frames(*same, np.array([1, 1, 2, 2]), np.zeros(4, bool))
    for warps in ((0.0, 0.0), (0.0, 0.3), (0.3, 0.3)):
        X, y = buffy.pairs(data, np.arange(4), 6, np.random.RandomState(1), warps)
        for (left, right), partners in zip(X, y, strict=True):
            assert np.array_equal(right[1][partners], left[1])
            for (points, _), order, size in (
                (left, slice(None), warps[0]),
                (right, partners, warps[1]),
            ):
                matrix = np.linalg.lstsq(frame[0], points[order], rcond=None)[0]
                np.testing.assert_allclose(frame[0] @ matrix, points[order], atol=1e-12)
                change = np.abs(matrix - np.eye(2)).max()
                assert change <= size + 1e-12 and (change > 0.01) == (size > 0)
