"""Output files are checked before any node is read, because reading may take minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import Cluster, ended, refused

NOT_READ = ("no node",)
"""Value of ``Cluster.asked`` that a command replaces when it reads nodes."""
CHECK = ("check", "inventory.py")
COMMANDS = [
    *((*CHECK, f"--{name}") for name in ("html", "json", "junit", "metrics", "save-records")),
    ("compare", "inventory.py", "other.py", "--json"),
    ("diff", "inventory.py", "worker1", "worker2", "--json"),
    ("repair", "inventory.py", "--json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=[f"{c[0]} {c[-1]}" for c in COMMANDS])
def test_a_missing_folder_is_reported_before_any_node_is_read(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    Path("other.py").write_text(Path("inventory.py").read_text())
    cluster.asked = NOT_READ
    assert refused(capsys, *command, "reports/today") == (
        f"ERROR {command[-1]} reports/today: the folder does not exist\n"
        "  next      mkdir -p reports\n"
    )
    assert cluster.asked == NOT_READ


def test_a_folder_is_not_a_file(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.asked = NOT_READ
    assert refused(capsys, *CHECK, "--html", ".") == (
        "ERROR --html .: this is a folder\n  expected  a file\n"
    )
    assert cluster.asked == NOT_READ


def test_a_file_that_exists_and_standard_output_are_accepted(cluster: Cluster) -> None:
    Path("report.html").write_text("old")
    assert ended(*CHECK, "--html", "report.html", "--json", "-") == 0
    assert Path("report.html").read_text() != "old"
