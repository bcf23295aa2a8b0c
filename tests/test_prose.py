"""The checker of prose finds what it should, and nothing in the files that it checks."""

from __future__ import annotations

import pytest

import prose


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The front door of the package", "front door"),
        ("an upper bound of the loss", "bound of"),
        ("ten features an arc", "features an arc"),
        ("divided\nfeatures\nan arc", "features\nan arc"),
        ("some room is left", "room"),
    ],
)
def test_words_are_found_in_documents(text, words):
    (found,) = prose.findings("docs/a.md", text)
    assert found.words == words
    assert found.line == 1 + text[: text.index(words)].count("\n")


def test_only_comments_and_strings_of_programs_are_prose():
    program = 'room = 1  # no\nkeep("room", room)\nfail("no room\\nleft")\n# a front\n# door\n'
    found = {(finding.line, finding.words) for finding in prose.findings("a.py", program)}
    assert found == {(3, "room"), (4, "front\ndoor")}


@pytest.mark.parametrize(
    "text",
    ["which column a feature has", "a bound on it", "bounds of Theorem 4.1", "a broom", "`room.a`"],
)
def test_other_words_are_left_alone(text):
    assert not list(prose.findings("docs/a.md", text))


def test_the_project_follows_its_style(capsys):
    assert prose.main() == 0, capsys.readouterr().out
