"""Which changes are made at the same time, and what findings say of them; without machines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.changes import Change, catalogue
from tests.lab.changes.judge import judged, left
from tests.lab.changes.repairing import shell_command
from tests.lab.changes.rounds import packed, rounds, touched, used

NODES = ("worker1", "worker2", "worker3")


def change(domain: str, thing: str, script: str = "") -> Change:
    return Change(f"a change of {thing}", script, "true", domain, thing)


def finding(node: str, device: str, **other: Any) -> dict[str, Any]:
    usual = {"rule": "fingerprint.file", "status": "differs", "detail": "", "found": "x"}
    return {
        **usual, "node": node, "device": device, "expected": "y", "reference": "peers (2 of 3)",
        **other,
    }  # fmt: skip


HOSTS, ROUTE, CLOCK = (
    change("file", "/etc/hosts"),
    change("route", "10.9.0.0/16"),
    change("unit", "chrony.service"),
)
MADE = {"worker1": (HOSTS,), "worker2": (ROUTE,)}


# --- rounds


@pytest.mark.parametrize(("nodes", "together"), [(NODES, 1), (NODES[:2], 4)])
def test_every_change_has_one_turn(nodes: tuple[str, ...], together: int) -> None:
    planned = list(rounds(catalogue.CHANGES, nodes, together))
    made = [one for some in planned for changes in some.values() for one in changes]
    assert sorted(made, key=str) == sorted(catalogue.CHANGES, key=str)


@pytest.mark.parametrize(("nodes", "together"), [(NODES, 1), (NODES[:2], 4)])
def test_changes_of_a_round_and_of_the_next_have_nothing_in_common(
    nodes: tuple[str, ...], together: int
) -> None:
    before: list[Change] = []
    for planned in rounds(catalogue.CHANGES, nodes, together):
        made = [one for changes in planned.values() for one in changes]
        assert len({one.domain for one in made}) == len(made)
        names = [name for one in made for name in touched(one)]
        assert len(set(names)) == len(names)
        assert not set(names) & {name for one in before for name in touched(one)}
        for changes in planned.values():
            on_node = [name for one in changes for name in used(one)]
            assert len(set(on_node)) == len(on_node)
        before = made


def test_all_nodes_are_used() -> None:
    of_workers = [one for one in catalogue.chosen() if not one.node]
    counted = [len(one) for one in rounds(of_workers, NODES)]
    assert sum(counted) == len(of_workers)
    assert counted.count(3) > 0.95 * len(counted)


def test_the_sample_has_a_change_of_each_domain() -> None:
    every = {one.domain for one in catalogue.CHANGES} - catalogue.SLOWER
    assert sorted(one.domain for one in catalogue.sample()) == sorted(every)


def test_what_a_script_touches() -> None:
    one = change("file", "/etc/x", "cp /etc/munge/a.key /run/saved; systemctl stop munge.service")
    assert touched(one) == {"/etc/x", "/etc/munge/a.key", "munge.service"}
    assert used(one) == {*touched(one), "/run/saved"}


# --- judgements


@pytest.mark.parametrize(
    ("new", "word"),
    [
        ([finding("worker1", "/etc/hosts")], "found"),
        ([finding("worker1", "/etc/a, /etc/hosts")], "found"),
        ([finding("worker1", "/etc", detail="also differs: file /etc/hosts")], "cause"),
        ([finding("worker1", "/etc/hosts", rule="system.files")], "rule"),
        ([finding("worker1", "hosts", rule="system.names")], "rule"),
        ([finding("worker1", "/etc/hosts", status="undecided")], "side"),
        ([finding("worker1", "/etc/hosts", expected="")], "side"),
        ([finding("worker1-2", "/etc/hosts")], "blamed"),
        ([finding("worker1", "/etc/hosts"), finding("head", "/etc/passwd")], "blamed"),
        ([finding("worker2", "/etc/hosts")], "blamed"),
        ([finding("worker1", "10.9.0.0/16")], "missed"),
        ([finding("worker2", "10.9.0.0/16")], "missed"),
        ([], "missed"),
    ],
)
def test_a_change_is_judged_by_the_findings_about_its_node(
    new: list[dict[str, Any]], word: str
) -> None:
    assert judged(HOSTS, "worker1", MADE, new).word == word


def test_of_several_changes_on_a_node_each_must_be_named() -> None:
    made = {"worker1": (HOSTS, CLOCK)}
    assert judged(HOSTS, "worker1", made, [finding("worker1", "chrony.service")]).word == "missed"
    assert judged(HOSTS, "worker1", made, [finding("worker1", "clock")]).word == "missed"
    both = [finding("worker1", "chrony.service"), finding("worker1", "/etc/hosts")]
    assert judged(HOSTS, "worker1", made, both).word == "found"


def test_a_rule_names_a_sysctl_that_runs_otherwise() -> None:
    one = change("running", "sysctl vm.swappiness")
    new = [finding("worker1", "vm.swappiness", rule="sysctl.running")]
    assert judged(one, "worker1", {"worker1": (one, HOSTS)}, new).word == "rule"


def test_the_source_of_the_right_value_is_kept() -> None:
    new = [finding("worker1", "/etc/hosts")]
    assert judged(HOSTS, "worker1", MADE, new).by == "peers"


def test_what_is_left_of_the_round_before_is_named() -> None:
    old = [finding("worker1", "chrony.service"), finding("worker2", "/etc/passwd")]
    assert left(old, [old[0], finding("worker1", "/etc/hosts")], MADE) == [old[0]]
    assert left(old, [finding("worker2", "chrony.service")], MADE) == []


def test_the_same_object_changed_again_is_not_left() -> None:
    old = [finding("worker1", "/etc/hosts")]
    assert left(old, old, MADE) == []
    assert left(old, old, {"worker2": (ROUTE,)}) == old


# --- repairs


@pytest.mark.parametrize(
    ("rule", "repair", "command"),
    [
        ("fingerprint.file", "on worker1: rm /etc/x && rmdir /etc", "rm /etc/x && rmdir /etc"),
        ("fingerprint.file", "on worker1: make /etc/x the same as on worker[2-3]", ""),
        ("fingerprint.file", "on worker2: rm /etc/x", ""),
        ("fingerprint.file", "pyinfra -y lab.py deploys/worker.py", ""),
        ("sysctl.common", "declare it, or run on worker1: sysctl -w a='1'", "sysctl -w a='1'"),
        ("unit.failed", "on worker1: run systemctl status x, fix the cause", ""),
    ],
)
def test_the_command_that_a_finding_names(rule: str, repair: str, command: str) -> None:
    assert shell_command(finding("worker1", "x", rule=rule, repair=repair)) == command


def test_many_changes_of_a_domain_are_made_at_once_but_none_twice() -> None:
    changes = [change("file", f"/etc/{number % 30}", str(number)) for number in range(60)]
    planned = packed(changes, NODES, 10)
    assert [len(some) for made in planned for some in made.values()] == [10] * 6
    for made in planned:
        objects = [one.object for some in made.values() for one in some]
        assert len(set(objects)) == len(objects), "a majority decides each of them"


def test_a_node_has_one_change_of_units_and_one_of_accounts_at_a_time() -> None:
    changes = [
        *(change("unit", f"{name}.service", "systemctl stop x") for name in "abc"),
        *(change("user", name) for name in "abc"),
    ]
    (made,) = packed(changes, NODES, 10)
    assert [sorted(one.domain for one in some) for some in made.values()] == [["unit", "user"]] * 3


def test_a_change_that_reaches_other_nodes_is_made_alone() -> None:
    far = Change("far", "x", "y", "file", "/etc/far", apart=True)
    assert [len(made) for made in packed([HOSTS, far, ROUTE], NODES, 10)] == [2, 1]
