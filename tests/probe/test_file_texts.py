"""The text of files, for those who compare it; what may be a secret stays on the node."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lockstep.node.readers import collect
from lockstep.node.readers.files import LARGEST_TEXT
from lockstep.probe.lines import printed
from lockstep.probe.ship import Request, command
from tests.probe.test_collect import Node, node

__all__ = ["node"]


def texts(*paths: str) -> dict[str, object]:
    asked = collect.collect({"texts": list(paths)}, frozenset({"files.texts"}))
    value: dict[str, object] = asked["readings"]["files.texts"]["value"]
    return value


def test_the_text_of_a_file_that_everyone_may_read(node: Node) -> None:
    node.file("/etc/chrony/chrony.conf", "server a\r\n")
    assert texts("/etc/chrony/chrony.conf", "/etc/gone") == {
        "/etc/chrony/chrony.conf": {"text": "server a\r\n"},
        "/etc/gone": {"absent": True},
    }


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_what_others_cannot_read_does_not_leave_the_node(node: Node, mode: int) -> None:
    node.file("/etc/slurm/slurmdbd.conf", "StoragePass=hunter2\n")
    (node.root / "etc/slurm/slurmdbd.conf").chmod(mode)
    (got,) = texts("/etc/slurm/slurmdbd.conf").values()
    assert got == {"hidden": "only some users of the node can read it"}


def test_links_large_files_and_what_is_no_text_are_not_shown(node: Node) -> None:
    node.file("/etc/large", "x" * (LARGEST_TEXT + 1))
    node.file("/etc/binary", "")
    (node.root / "etc/binary").write_bytes(b"\xff\x00")
    (node.root / "etc/link").symlink_to("large")
    assert texts("/etc/large", "/etc/binary", "/etc/link") == {
        "/etc/large": {"hidden": "larger than 1 MiB"},
        "/etc/binary": {"hidden": "not text"},
        "/etc/link": {"hidden": "a symbolic link"},
    }


def test_with_texts_a_node_reads_nothing_else() -> None:
    asked = command(Request(files=("/etc/passwd",), texts=("/etc/passwd",)))
    done = subprocess.run(
        ["sh", "-c", asked.replace("python3", sys.executable, 1)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    record = json.loads(printed(done.stdout))
    assert record["readings"].keys() == {"files", "files.texts"}
    assert "root:" in record["readings"]["files.texts"]["value"]["/etc/passwd"]["text"]
