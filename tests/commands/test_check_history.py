"""``lockstep check`` over time: what it saves, and how the next check uses it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lockstep.checks.rule import Kind, Rule, by_hand
from lockstep.history import records
from lockstep.history.store import opened
from lockstep.probe.record import Unreachable
from lockstep.when import DAY_S, HOUR_S, MINUTE_S
from tests.checks import recorded
from tests.commands.conftest import INVENTORY, START, Cluster, ended


def kept(history: Path, node: str = "worker3") -> list[float]:
    with opened(history) as database:
        return records.times(database, node)


def test_a_check_keeps_what_it_read(cluster: Cluster, history: Path) -> None:
    assert ended("check", "inventory.py") == 0
    assert kept(history) == [START]
    assert history.stat().st_mode & 0o777 == 0o600


def test_the_spec_may_say_where(cluster: Cluster, tmp_path: Path) -> None:
    description = '{**DESCRIPTION, "records_dir": "%s"}' % (tmp_path / "mine")
    Path("inventory.py").write_text(INVENTORY.format(description=description))
    assert ended("check", "inventory.py") == 0
    assert kept(tmp_path / "mine" / "history.sqlite") == [START]


@pytest.mark.parametrize("words", [("--records", "records.json"), ("--no-history",)])
def test_saved_records_and_a_check_without_history_keep_nothing(
    cluster: Cluster, history: Path, words: tuple[str, ...]
) -> None:
    cluster.save("records.json")
    assert ended("check", "inventory.py", *words) == 0
    assert not history.exists()


def test_a_finding_says_since_when_and_how_often(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.change("worker3", "gpu.vbios", ("gpu3",), "old")
    for _ in range(5):
        ended("check", "inventory.py")
        cluster.now += 10 * MINUTE_S
    capsys.readouterr()
    assert ended("check", "inventory.py", "--json", "report.json", "--junit", "report.xml") == 1
    assert capsys.readouterr().out == (
        "WARNING gpu.vbios  worker3 gpu3\n"
        "  reading   gpu.vbios\n"
        "  found     old\n"
        "  expected  96.00.A5.00.03   (from: peers: 8 nodes of class hgx-h200)\n"
        "  since     2026-11-20 18:40 UTC (6 checks)\n"
        "  repair    flash VBIOS 96.00.A5.00.03 onto each GPU of worker3 that has a "
        "different VBIOS (drain worker3 first; use the server vendor's tool)\n"
        "\n"
        "Reasons and limits of a rule: lockstep explain RULE\n"
        f"9 nodes, {len(json.loads(Path('report.json').read_text())['rules'])} rules, 1 finding: "
        "1 differing. Nothing was changed. Exit 1.\n"
    )
    (found,) = json.loads(Path("report.json").read_text())["findings"]
    assert (found["since"], found["checks"]) == ("2026-11-20 18:40 UTC", 6)
    failure = ElementTree.parse("report.xml").getroot().find(".//failure")
    assert failure is not None
    assert "  since     2026-11-20 18:40 UTC (6 checks)\n" in (failure.text or "")


def test_nodes_that_differ_alike_are_one_block_with_the_oldest_moment(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in ("worker3", "worker2"):
        cluster.change(node, "os.locale", (), "")
        ended("check", "inventory.py")
        cluster.now += 10 * MINUTE_S
    out = capsys.readouterr().out
    assert "os.locale  worker[2-3]\n" in out
    assert "  since     2026-11-20 18:40 UTC (2 checks)\n" in out


def test_a_node_that_was_away_keeps_the_row_of_its_findings(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.change("worker3", "os.locale", (), "")
    there = cluster.context
    ended("check", "inventory.py")
    cluster.context = recorded.unreachable(there, "worker3")
    cluster.now += HOUR_S
    ended("check", "inventory.py")
    cluster.context = there
    cluster.now += HOUR_S
    capsys.readouterr()
    ended("check", "inventory.py")
    out = capsys.readouterr().out
    assert "since     2026-11-20 18:40 UTC (2 checks)" in out
    cluster.context = recorded.unreachable(there, "worker3")
    ended("check", "inventory.py")
    assert "since     2026-11-20 20:40 UTC (1 check)" in capsys.readouterr().out


RESETS = Rule(
    id="gpu.resets",
    claim="no resets",
    reading="gpu.resets",
    kind=Kind.GROWTH,
    repair=by_hand("look at {node}"),
    applies=lambda view: view.plan.name == "worker3",
)


def test_a_counter_is_compared_with_the_check_before(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.commands.rules_of", lambda spec: (RESETS,))
    cluster.change("worker3", "gpu.resets", (), {"gpu3": 5})
    assert ended("check", "inventory.py") == 0
    first, summary = capsys.readouterr().out.splitlines()
    assert first == "growth: 1 of 1 node has no earlier record of this boot"
    assert summary.endswith("all consistent. Nothing was changed. Exit 0.")
    cluster.change("worker3", "gpu.resets", (), {"gpu3": 7})
    cluster.now += 1 * MINUTE_S
    assert ended("check", "inventory.py") == 0  # too close to the first to compare with it
    assert "no earlier record" in capsys.readouterr().out
    cluster.now += 4 * MINUTE_S
    assert ended("check", "inventory.py") == 1
    assert "found     7: 2 more in 5 min\n" in capsys.readouterr().out
    cluster.now += 10 * MINUTE_S
    assert ended("check", "inventory.py") == 0  # none since the one before
    assert capsys.readouterr().out.startswith("9 nodes, 1 rule: all consistent.")
    cluster.change("worker3", "gpu.resets", (), {"gpu3": 9})
    cluster.now += 2 * HOUR_S
    assert ended("check", "inventory.py") == 1
    assert capsys.readouterr().out == (
        "ERROR   gpu.resets  worker3 gpu3\n"
        "  reading   gpu.resets\n"
        "  found     9: 2 more in 2 h\n"
        "  expected  7, no more   (from: earlier record, 2026-11-20 18:55 UTC)\n"
        "  since     2026-11-20 20:55 UTC (1 check)\n"
        "  repair    look at worker3\n"
        "\n"
        "Reasons and limits of a rule: lockstep explain RULE\n"
        "9 nodes, 1 rule, 1 finding: 1 differing. Nothing was changed. Exit 1.\n"
    )


def test_a_reset_is_reported_once_and_growth_counts_from_there(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.commands.rules_of", lambda spec: (RESETS,))

    def counted(value: int, status: int) -> str:
        cluster.change("worker3", "gpu.resets", (), {"gpu3": value})
        cluster.now += 5 * MINUTE_S
        assert ended("check", "inventory.py") == status
        return capsys.readouterr().out

    counted(5, 0)
    counted(6, 1)
    assert counted(2, 0).startswith(
        "growth: counters of worker3 were reset after 2026-11-20 18:50 UTC (a reset of GPUs"
    )
    out = counted(3, 1)
    assert "found     3: 1 more in 5 min\n" in out, "the earlier record is of before the reset"
    assert "were reset" not in out
    assert "found     4: 2 more in 10 min\n" in counted(4, 1)


def test_an_unusable_history_is_reported_before_a_node_is_read(
    cluster: Cluster, history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history.parent.mkdir(parents=True)
    history.write_bytes(b"x" * 4096)
    history.chmod(0o600)
    assert ended("check", "inventory.py") == 3
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"ERROR {history}: file is not a database\n"
        "  expected  the history of a cluster, format 3\n"
        f"  next      mv {history} {history}.old; the next check creates a new one\n",
    )
    assert ended("check", "inventory.py", "--no-history") == 0


def test_earlier_records_go_with_saved_ones(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.save("records.json")
    words = ("check", "inventory.py", "--earlier", "records.json")
    assert ended(*words, "--records", "records.json") in (0, 2)  # the same moment: no growth told
    assert ended(*words) == 3
    assert capsys.readouterr().err.startswith("ERROR --earlier needs --records")


@pytest.mark.parametrize("node", ["worker2", "worker3"])
@pytest.mark.parametrize(
    ("reading", "path", "value", "device", "both"),
    [
        # Fourteen other GPUs are as they were.
        ("gpu.vbios", ("gpu3",), "old", "gpu3", {"worker2", "worker3"}),
        ("net.queue", ("eno1",), "fq_codel, 1000 packets", "management", {"worker[2-3]"}),
    ],
)
def test_of_two_workers_the_one_that_has_changed_is_wrong(
    cluster: Cluster,
    node: str,
    reading: str,
    path: tuple[str, ...],
    value: str,
    device: str,
    both: set[str],
) -> None:
    gone = {f"worker{number}": Unreachable("off") for number in (1, 4, 5, 6, 7, 8)}
    cluster.context = replace(cluster.context, reading={**cluster.context.reading, **gone})

    def found() -> list[dict[str, str]]:
        ended("check", "inventory.py", "--rule", reading, "--json", "report.json")
        every = json.loads(Path("report.json").read_text())["findings"]
        names = ("node", "device", "reference", "changed")
        return [{name: one[name] for name in names} for one in every if one["rule"] == reading]

    cluster.change("worker2", "os.boot_id", (), "after a reboot")
    ended("check", "inventory.py")
    cluster.now += DAY_S
    cluster.change(node, reading, path, value)
    for _ in range(2):
        assert found() == [
            {
                "node": node,
                "device": device,
                "reference": "earlier record",
                "changed": "between 2026-11-20 18:40 and 2026-11-21 18:40 UTC",
            }
        ]
        cluster.now += 30 * DAY_S
    other = {"worker2": "worker3", "worker3": "worker2"}[node]
    cluster.change(other, reading, path, f"{value}, too")
    assert {one["node"] for one in found()} == both
