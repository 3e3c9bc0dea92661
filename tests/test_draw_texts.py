"""The draw of texts for a review of the English: repeatable, and from every kind of text."""

from __future__ import annotations

from collections import Counter

from scripts.draw_texts import ROOT, SHARES, draw, texts

MODULE = '''"""What the module does."""
LIMIT = 3
"""Most of them at once."""
raise ValueError(f"no node {name!r} in the file: "
                 "look at its first line")
parser.add_argument("--all", help="all nodes of the cluster")
Rule(claim="all nodes are equal", why="a job waits for the slowest", source="a page of the manual")
'''


def test_findings_errors_and_docstrings_are_found_with_their_lines() -> None:
    assert [(one.kind, one.line, one.text) for one in texts("lockstep/checks/a.py", MODULE)] == [
        ("docstring", 1, "What the module does."),
        ("docstring", 3, "Most of them at once."),
        ("error", 4, "no node {name} in the file: look at its first line"),
        ("error", 6, "all nodes of the cluster"),
        ("finding", 7, "all nodes are equal"),
        ("finding", 7, "a job waits for the slowest"),
    ]


def test_a_seed_draws_the_same_texts_again() -> None:
    drawn = draw("a")
    assert drawn == draw("a") != draw("b")
    assert Counter(one.kind for one in drawn) == SHARES
    for one in drawn:
        assert one.line <= len((ROOT / one.file).read_text(encoding="utf-8").splitlines())
