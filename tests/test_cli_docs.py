"""Commands in the README and in the page on the command line are true: they run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("click", reason="needs the extra cli")

from maxmargin.cli import main

REPOSITORY = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def steps(document):
    """Files to write, and commands to run, in the order of the page."""
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    for kind, name, content in BLOCK.findall(text):
        if name:
            yield name, content
        elif kind == "sh":
            for line in content.splitlines():
                words = shlex.split(line, comments=True)
                if words and words[0] == "maxmargin":
                    yield None, words[1:]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("document", ["docs/command-line.md", "README.md"])
def test_commands_run(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    n_commands = 0
    for name, content in steps(document):
        if name:
            (tmp_path / name).write_text(content, encoding="utf-8")
        else:
            assert main(content) == 0, (content, capsys.readouterr().err)
            n_commands += 1
    assert n_commands >= 4


def test_python_of_the_page_runs():
    text = (REPOSITORY / "docs/command-line.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    exec(compile(code, "docs/command-line.md", "exec"), {"__name__": "document"})


def test_every_option_that_the_page_names_exists(capsys):
    text = (REPOSITORY / "docs/command-line.md").read_text(encoding="utf-8")
    known = {"--help"}
    for command in ("train", "predict", "evaluate", "report", "inspect", "demo", "reproduce"):
        main([command, "--help"])
        known |= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    main(["--help"])
    known |= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    named = set(re.findall(r"--[a-z][a-z-]+", text))
    assert named and named <= known | {"--task"}, named - known
