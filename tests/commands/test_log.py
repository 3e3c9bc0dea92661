"""``lockstep log``: what runs have changed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lockstep.history import runs
from lockstep.history.runs import Change, OnNode, Result, Run
from lockstep.history.store import file, opened
from tests.checks import recorded
from tests.commands.conftest import START, Cluster, ended, refused

CHANGED = OnNode(
    Result.CHANGED, (Change("deploys/worker.py | Files", ("/etc/a", "/etc/b")), Change("Service"))
)
RUN = Run(
    *(START, START + 130, "ann", "deploy1", "pyinfra -y inventory.py", "0.1.0", "1a2b3c+"),
    {
        "worker1": CHANGED,
        "worker2": CHANGED,
        "worker3": OnNode(Result.FAILED, (), "failed in Service"),
        "head1": OnNode(Result.NONE),
    },
)


@pytest.fixture(autouse=True)
def _saved(cluster: Cluster) -> None:
    with opened(file(recorded.DESCRIPTION["name"])) as history:
        runs.save(history, RUN)


def test_equal_nodes_are_one_entry(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("log", "inventory.py") == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "2026-11-20 18:40 UTC  ann on deploy1, 2 min 10 s, Lockstep 0.1.0, site 1a2b3c+\n"
        "  $ pyinfra -y inventory.py\n"
        "  worker[1-2]  changed\n"
        "    Files: /etc/a, /etc/b\n"
        "    Service\n"
        "  worker3  failed: failed in Service\n"
        "  head1  none\n"
        "\n"
        "1 run of this machine in "
    )


def test_many_files_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    many = Change("Files", tuple(f"/{number}" for number in range(9)))
    with opened(file(recorded.DESCRIPTION["name"])) as history:
        runs.save(history, replace(RUN, nodes={"head1": OnNode(Result.CHANGED, (many,))}))
    ended("log", "inventory.py")
    assert "    Files: /0, /1, /2, /3, /4, /5, and 3 more\n" in capsys.readouterr().out


def test_one_node_and_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("log", "inventory.py", "--node", "worker3", "--since", "2026-11-20") == 0
    said = capsys.readouterr().out
    assert "worker3" in said
    assert "worker1" not in said
    ended("log", "inventory.py", "--since", "2026-11-21")
    assert capsys.readouterr().out.startswith("0 runs of this machine in ")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("log", "inventory.py", "--json", "-") == 0
    document = json.loads(capsys.readouterr().out)
    (run,) = document["runs"]
    assert (document["format"], run["user"], run["commit"]) == (1, "ann", "1a2b3c+")
    assert run["nodes"]["worker1"] == {
        "result": "changed",
        "changes": [
            {"operation": "deploys/worker.py | Files", "what": ["/etc/a", "/etc/b"]},
            {"operation": "Service", "what": []},
        ],
        "reason": "",
    }


def test_wrong_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "log", "inventory.py", "--node", "worker")
    assert "unknown node 'worker'" in said
    said = refused(capsys, "log", "inventory.py", "--since", "yesterday")
    assert "ERROR --since 'yesterday': not a time\n  expected  an age such as 90m" in said
