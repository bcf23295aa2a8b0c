"""The demo and the examples run, and show what they say."""

from __future__ import annotations

import io
import re
import runpy
import shutil
import subprocess
import warnings
from contextlib import redirect_stdout
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from maxmargin import datasets_made, demo
from maxmargin._first_fits import FIRST_FITS
from test_report import check_page

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run_example(name: str, monkeypatch, capsys) -> str:
    """Standard output of an example, run as a script; a warning would be on its page."""
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    plt.close("all")
    assert len(shown) == 1, "an example ends with a picture"
    return capsys.readouterr().out


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)]


def test_every_example_is_tested_here():
    tested = {
        "own_structure", "sequences", "multiclass_max_min", "ordinal", "consistency", "grids",
        "label_noise", "certificates", *COMPARISONS,
    }  # fmt: skip
    networks = {path.stem for path in EXAMPLES.glob("torch_*.py")}  # in tests/neural
    assert {path.stem for path in EXAMPLES.glob("*.py")} - networks == tested


# Lines of the output whose last number must not be smaller than that of the line before.
COMPARISONS = {
    "multilabel": ("topic by topic", "with interactions"),
    "own_latent": ("NoMood", "Mood"),
    "hidden_labels": (),
    "rankings": (),
    "matching": (),
    "probabilities": (),
    "trees": (),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPARISONS)
def test_other_examples(name, monkeypatch, capsys):
    lines = run_example(name, monkeypatch, capsys).splitlines()
    values = [numbers(line)[-1] for start in COMPARISONS[name] for line in lines
              if line.startswith(start)]  # fmt: skip
    assert len(values) == len(COMPARISONS[name])
    assert values == sorted(values)


def test_certificates(monkeypatch, capsys):
    lines = run_example("certificates", monkeypatch, capsys).splitlines()
    assert lines[0].startswith("converged") and lines[2].startswith("stopped")


def test_grids(monkeypatch, capsys):
    lines = run_example("grids", monkeypatch, capsys).splitlines()
    (alone,), (together,), (gap,) = numbers(lines[0]), numbers(lines[1]), numbers(lines[2])
    assert together > alone + 0.1
    assert gap <= 0.05


def test_own_structure(monkeypatch, capsys):
    lines = run_example("own_structure", monkeypatch, capsys).splitlines()
    found, hidden = numbers(lines[0]), numbers(lines[1])
    # 70 noisy choices: the direction is right to a few degrees.
    assert np.dot(found, hidden) > 0.99
    assert lines[3].startswith("converged")


def test_sequences(monkeypatch, capsys):
    lines = run_example("sequences", monkeypatch, capsys).splitlines()
    assert lines[0].startswith("converged")
    assert "('San', 'B-LOC'), ('Haven', 'I-LOC')" in lines[1]
    assert "('San', 'B-PER')" in lines[2], "known labels are kept"
    assert "'I-LOC'" not in lines[2].partition("'B-PER')")[2].partition("'B-LOC'")[0]


def test_multiclass_max_min(monkeypatch, capsys):
    output = run_example("multiclass_max_min", monkeypatch, capsys)
    margin, max_min = (numbers(line.partition("scores")[2]) for line in output.splitlines())
    # Printed with three digits, trained to a gap of 0.1 %.
    assert np.ptp(margin) < 0.02
    assert np.allclose(max_min, [-1 / 3, -1 / 3, 2 / 3], atol=0.02)


def test_consistency(monkeypatch, capsys):
    output = run_example("consistency", monkeypatch, capsys)
    _, margin, max_min, crf, _ = output.splitlines()
    margin, max_min, crf = (numbers(line.replace("-m", " m")) for line in (margin, max_min, crf))
    # A tie is broken without regard to the data: wrong for two of three kinds of input.
    assert margin[-1] > 0.04 and margin[-1] > 0.8 * margin[0]
    assert max_min[0] > 0.02 and max_min[-1] == crf[-1] == 0.0


@pytest.mark.more
def test_label_noise(monkeypatch, capsys):
    lines = run_example("label_noise", monkeypatch, capsys).splitlines()[1:]
    found = {line.split()[0]: numbers(line.replace("-m", " m")) for line in lines}
    margin, max_min, smooth = (found[name] for name in ("max-margin", "max-min", "smooth-max-min"))
    assert max(max_min[0], smooth[0], margin[0]) < 5.0  # per cent, with clean labels
    assert max(max_min[-1], smooth[-1]) < 0.5 * margin[-1]


def test_ordinal(monkeypatch, capsys):
    lines = run_example("ordinal", monkeypatch, capsys).splitlines()
    always, without, ordered = (numbers(line)[0] for line in lines[1:4])
    assert ordered < min(without, always)


def test_words_follow_the_grammar():
    made = datasets_made.make_words(300)
    followers: dict[int, set[int]] = {}
    for x, word in zip(made.X, made.y, strict=True):
        assert x.shape == (len(word), 64)
        for first, second in zip(word, word[1:], strict=False):
            followers.setdefault(int(first), set()).add(int(second))
    assert max(map(len, followers.values())) == 3
    with pytest.raises(ValueError, match="'train' or 'test'; received 'all'"):
        datasets_made.make_words(1, part="all")


def test_made_data_are_what_they_say():
    for topics in datasets_made.make_label_sets(50).y:
        fields = topics & {"sport", "politics", "science"}
        assert 1 <= len(fields) <= 2 and len(topics) >= 2 * len(fields)
    ranks = datasets_made.make_rankings(50)
    assert (np.sort(ranks.y, axis=1) == np.arange(1, 6)).all()
    assert set(ranks.y[ranks.X[:, 0] > 0, 0]) == {1, 5}, "coffee divides people"
    assert set(ranks.y[ranks.X[:, 0] <= 0, 0]) == {3}
    for (first, second), partners in zip(*datasets_made.make_matchings(9)[:2], strict=True):
        near = np.abs(first - second[partners])[:, :2].mean()
        assert near < 0.5 and sorted(partners) == list(range(len(first)))
    for words, heads in zip(*datasets_made.make_sentences(50)[:2], strict=True):
        assert len(words) == len(heads) and (heads == 0).sum() == 1
        for m in range(1, len(heads) + 1):  # every word leads to the root
            seen = set()
            while m:
                assert m not in seen
                seen.add(m)
                m = heads[m - 1]
    for (features, edges), groups in zip(*datasets_made.make_networks(5)[:2], strict=True):
        assert len(features) == len(groups) and (edges[:, 0] < edges[:, 1]).all()
    again = datasets_made.make_pictures(2), datasets_made.make_pictures(2)
    assert (again[0].X[1] == again[1].X[1]).all()


def test_every_lesson_is_compiled_before_the_first_tour():
    for _, make, fit in demo.TOUR:
        needed = FIRST_FITS[fit].model()
        model = make().model
        assert type(model) is type(needed) and model.surrogate == needed.surrogate


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """Standard output of the demo, and its report."""
    folder = tmp_path_factory.mktemp("demo")
    theirs = folder / "tour.html"
    theirs.write_text("my own notes")
    out = io.StringIO()
    with redirect_stdout(out):
        demo.main(["--report", str(theirs)])
    assert theirs.read_text() == "my own notes"
    return out.getvalue(), folder / "tour-2.html"


@pytest.mark.slow
def test_demo_certifies_and_beats_its_baselines(tour):
    output, _ = tour
    assert "certificate" in output
    lines = output.splitlines()
    header = next(k for k, line in enumerate(lines) if line.startswith("task"))
    rows = {line.split("  ")[0]: line for line in lines[header + 1 :][: len(demo.TOUR)]}
    assert list(rows) == [title.split(":")[0] for title, *_ in demo.TOUR]
    gains = {}
    for title, row in rows.items():
        score, baseline = (float(x.rstrip("%")) for x in re.findall(r" ([\d.]+%?)(?= )", row)[:2])
        gains[title.partition(":")[0]] = score - baseline
        gap = float(re.findall(r"([\d.]+)%", row)[-1])
        assert gap <= (5.0 if re.match("Sets|Grids|Graphs|Trees", title) else 1.0), "its tolerance"
    assert gains["Words"] > 3, "transitions help"
    assert gains["Ordered classes"] < -0.1, "a distance"
    least_gains = {"Sets of labels": 3, "Grids": 8, "Graphs": 5, "Rankings": 5, "Matchings": 1,
                   "Trees": 3}  # fmt: skip
    for name, least in least_gains.items():
        assert gains[name] > least, "what is near, or excluded, or taken, helps"


@pytest.mark.slow
def test_report_of_the_demo(tour):
    output, path = tour
    assert str(path) in output
    page = check_page(path.read_text(encoding="utf-8"))
    for title, make, _ in demo.TOUR:
        assert title in page.headings and make().data_name in page.text
    assert demo.free_path(path) == path, "its own report may be replaced"


BROWSER = [
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000",
]  # fmt: skip
# Windows have a least width, frames have not; the frame tells the page around it its width.
FRAME = """<!doctype html><script>addEventListener("message", e => {{document.title = e.data}});
</script><iframe src="page.html" style="width:{width}px;height:900px;border:0"></iframe>"""
RULER = """<script>const root = document.documentElement;
parent.postMessage("width " + innerWidth + " " + (root.scrollWidth - root.clientWidth), "*");
</script></body>"""


def browse(tmp_path: Path, *options: str) -> str:
    """What the browser writes; it must have nothing to complain about."""
    done = subprocess.run(
        [*BROWSER, f"--user-data-dir={tmp_path / 'profile'}", *options],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_report_in_a_browser(tour, tmp_path):
    """No console message, a picture, and no page that must be scrolled sideways."""
    picture = tmp_path / "page.png"
    browse(tmp_path, f"--screenshot={picture}", tour[1].as_uri())
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = tour[1].read_text(encoding="utf-8")
    assert "default-src 'none'" in unescape(text), "which would not let the ruler run, either"
    page = re.sub(r"<meta http-equiv[^>]*>", "", text).replace("</body>", RULER)
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    for width in (380, 1400):
        frame = tmp_path / f"frame{width}.html"
        frame.write_text(FRAME.format(width=width))
        found = browse(tmp_path, "--dump-dom", "--window-size=1600,1000", frame.as_uri())
        assert f"<title>width {width} 0</title>" in found


def test_options_of_the_demo(tmp_path, capsys):
    for wrong in (str(tmp_path / "no" / "r.html"), str(tmp_path)):
        with pytest.raises(SystemExit) as stopped:
            demo.main(report=wrong)
        assert stopped.value.code == 2
        assert "--report" in capsys.readouterr().err


def test_table_fits_eighty_columns():
    from maxmargin.report import Summary
    from maxmargin.report._section import Comparison

    made = [
        Summary(title, "task", measure, 0.9137, None, False, True,
                [Comparison("a baseline with a name that is not printed", 0.5)], 0.0098, 12, 123.4)
        for title, measure in (
            ("Ordered classes: progress of diabetes", "mean absolute error"),
            ("Matchings: the same points in two pictures", "a measure with a name " * 3),
        )
    ]  # fmt: skip
    lines = demo.table(made).splitlines()
    assert max(map(len, lines)) == 80 and len(lines) == 3
    assert lines[1].startswith("Ordered classes  mean absolute error")
    assert lines[2].split()[-2:] == ["0.98%", "123.4"]
