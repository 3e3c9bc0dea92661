"""``lockstep explain`` on recorded nodes."""

from __future__ import annotations

import re

import pytest

from lockstep.checks.catalogue import all_rules
from lockstep.when import HOUR_S
from tests.checks import recorded
from tests.commands.conftest import Cluster, ended, refused


def test_a_rule_is_explained_from_its_own_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("explain", "gpu.clock_idle") == 0
    out = capsys.readouterr().out
    assert out.startswith("gpu.clock_idle: ")
    for label in ("why", "blind", "reading", "tolerance", "repair", "source", "from", "check it"):
        assert f"\n  {label:13}" in out, label
    assert max(map(len, out.splitlines())) <= 100


def test_every_rule_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for rule in all_rules():
        assert ended("explain", rule.id) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert said.startswith(f"{rule.id}: {rule.claim} ")


def test_a_node_is_explained_from_what_is_kept(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.change("worker3", "gpu.vbios", ("gpu3",), "old")
    cluster.change("worker4", "os.locale", (), "")
    ended("check", "inventory.py")
    cluster.now += HOUR_S
    ended("check", "inventory.py")
    cluster.now += HOUR_S
    capsys.readouterr()
    assert ended("explain", "inventory.py", "worker3") == 1
    said = capsys.readouterr()
    assert said.err == ""  # no node was read
    about, finding, *_ = said.out.split("\n\n")
    assert about.startswith(
        "worker3: worker of class hgx-h200, fd00:1::103\n"
        "  record       from 2026-11-20 19:40 UTC, the newest of 2 since 2026-11-20 18:40 UTC\n"
        "  peers        worker[1-2,4-8]\n"
        "  GPUs         8 x h200\n"
        "  NICs         2, RDMA: roce\n"
        "  driver       590.48.01\n"
    )
    assert about.endswith("whole plan   lockstep plan inventory.py worker3")
    assert "gpu.vbios  worker3 gpu3\n" in finding
    assert "  since     2026-11-20 18:40 UTC (2 checks)\n" in finding
    assert "os.locale" not in said.out


def test_a_node_that_is_down_says_so_first_and_its_last_record_has_no_say(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.change("worker3", "gpu.vbios", ("gpu3",), "old")
    ended("check", "inventory.py")
    up = cluster.context
    cluster.context = recorded.unreachable(up, "worker3")
    for _ in range(2):
        cluster.now += HOUR_S
        ended("check", "inventory.py")
    capsys.readouterr()
    assert ended("explain", "inventory.py", "worker3") == 1
    about, finding, *_ = capsys.readouterr().out.split("\n\n")
    assert about.splitlines()[1:3] == [
        "  record       unreachable since 2026-11-20 19:40 UTC (2 checks); before that: from "
        "2026-11-20 18:40",
        "               UTC, the newest of 1 since 2026-11-20 18:40 UTC",
    ]
    assert finding.startswith("ERROR   node.reachable  worker3\n")
    assert "  found     not reached by the check of 2026-11-20 20:40 UTC\n" in finding
    assert "gpu.vbios" not in finding
    cluster.context = up
    cluster.now += HOUR_S
    ended("record", "inventory.py")
    capsys.readouterr()
    assert ended("explain", "inventory.py", "worker3") == 1
    assert "gpu.vbios  worker3 gpu3\n" in capsys.readouterr().out


def test_what_a_node_said_before_it_went_down_is_no_vote(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in range(1, 5):
        cluster.change(f"worker{node}", "gpu.vbios", (), {f"gpu{n}": "old" for n in range(8)})
    ended("check", "inventory.py")
    ended("explain", "inventory.py", "worker5")
    assert "gpu.vbios" in capsys.readouterr().out
    cluster.context = recorded.unreachable(cluster.context, *(f"worker{n}" for n in range(1, 5)))
    cluster.now += HOUR_S
    ended("check", "inventory.py")
    assert "gpu.vbios" not in capsys.readouterr().out
    assert ended("explain", "inventory.py", "worker5") == 0


def test_a_node_that_never_answered_is_explained_once_a_check_asked_it(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.context = recorded.unreachable(cluster.context, "worker3")
    ended("check", "inventory.py")
    capsys.readouterr()
    assert ended("explain", "inventory.py", "worker3") == 1
    assert "unreachable since 2026-11-20 18:40 UTC (1 check); before that: none saved" in (
        capsys.readouterr().out
    )


def test_a_node_can_be_read_now(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("explain", "inventory.py", "worker3", "--fresh") == 0
    said = capsys.readouterr()
    assert said.err == "reading 9 nodes ...\nread 9 of 9 nodes in 0 s\n"
    assert "  record       read now, 2026-11-20 18:40 UTC\n" in said.out
    assert said.out.endswith("all consistent. Nothing was changed. Exit 0.\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("gpu.powerlimit",),
            "unknown rule 'gpu.powerlimit'\n  expected  did you mean gpu.power_limit",
        ),
        (
            ("worker3",),
            "unknown rule 'worker3'\n  expected  a rule from the output of lockstep rules\n"
            "  next      for a node: lockstep explain INVENTORY worker3\n",
        ),
        (("cpuset",), "unknown rule 'cpuset'\n  expected  cpuset.housekeeping, cpuset.services\n"),
        (
            ("gpu.power.enforced_w",),
            "unknown rule 'gpu.power.enforced_w'\n  expected  gpu.power_limit, gpu.power_module\n",
        ),
        (
            ("gpu.power.enforced_w.gpu3",),
            "unknown rule 'gpu.power.enforced_w.gpu3'\n  expected  gpu.p",
        ),
        (("inventory.py",), "lockstep explain inventory.py: wrong arguments\n"),
        (
            ("inventory.py", "worker33"),
            "inventory.py: unknown node 'worker33'\n  expected  did you mean worker3",
        ),
        (
            ("inventory.py", "worker3"),
            "no saved record of worker3\n"
            "  next      lockstep explain inventory.py worker3 --fresh\n",
        ),
    ],
)
def test_what_does_not_exist_ends_with_3(
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    assert refused(capsys, "explain", *words).startswith(f"ERROR {message}")


def test_a_family_of_many_rules_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "explain", "gpu").splitlines()[1]
    assert said.startswith("  expected  gpu.")
    assert re.search(r", and \d+ more$", said)


def test_rules_of_a_rule_says_who_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "rules", "gpu.power_limit") == (
        "ERROR gpu.power_limit is a rule, not an inventory\n"
        "  next      lockstep explain gpu.power_limit\n"
    )
