"""What roles ask of Slurm: one node, the clusters of the database, and its login."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lockstep.node.readers import collect
from lockstep.node.readers.slurm import HEALTH_CHECK, SLURMDBD_CONF
from lockstep.plan import slurm_files
from tests.probe.test_collect import Node, node

__all__ = ["node"]

SHOWN = (
    "NodeName=worker01 Arch=x86_64 CoresPerSocket=56 CPUAlloc=0 CPUEfctv=216 CPUTot=224 "
    "Gres=gpu:h200:8 State={state} ThreadsPerCore=2 Weight=1 Owner=N/A Partitions=train "
    "BootTime=2026-01-02T03:04:05 SlurmdStartTime=2026-01-02T03:04:05{reason}"
)


def asked(node: Node, reading: str, **request: Any) -> Any:
    return collect.collect(request, frozenset({reading}))["readings"][reading]


def shown(node: Node, state: str, reason: str = "") -> Any:
    node.tool("scontrol", f"echo '{SHOWN.format(state=state, reason=reason)}'")
    return asked(node, "slurm.node", slurm_nodes=["worker01"])["value"]["worker01"]


@pytest.mark.parametrize(
    ("state", "states"),
    [
        ("IDLE", {"IDLE"}),
        ("IDLE+DRAIN", {"IDLE", "DRAIN"}),
        ("DOWN*", {"DOWN", "NOT_RESPONDING"}),
        ("DOWN+DRAIN+NOT_RESPONDING", {"DOWN", "DRAIN", "NOT_RESPONDING"}),
        ("UNKNOWN*", {"UNKNOWN", "NOT_RESPONDING"}),
    ],
)
def test_states_of_a_node(node: Node, state: str, states: set[str]) -> None:
    assert shown(node, state) == {
        "state": sorted(states),
        "reason": "",
        "slurmd_started": "2026-01-02T03:04:05",
        "registered_at": time.mktime(time.strptime("2026-01-02T03:04:05", "%Y-%m-%dT%H:%M:%S")),
    }


def test_the_reason_ends_where_slurm_says_who_gave_it(node: Node) -> None:
    reason = " Reason=a person: 7 of 8 GPUs [root@2026-01-02T03:04:05]"
    assert shown(node, "IDLE+DRAIN", reason)["reason"] == "a person: 7 of 8 GPUs"
    assert shown(node, "DOWN", " Reason=Not responding")["reason"] == "Not responding"


def test_a_comment_of_a_person_is_no_state(node: Node) -> None:
    state = shown(node, "IDLE+DRAIN", " Comment=was State=DOWN yesterday")["state"]
    assert state == ["DRAIN", "IDLE"]


@pytest.mark.parametrize("said", ["echo end", "echo Node worker01 not found", "exit 1"])
def test_a_controller_that_does_not_answer_is_unread(node: Node, said: str) -> None:
    node.tool("scontrol", said)
    (found,) = asked(node, "slurm.node", slurm_nodes=["worker01"])["value"].values()
    assert set(found) == {"unread"}


@pytest.mark.parametrize(
    ("said", "healthy"), [("echo ok", True), ("echo gpu.count: 7 of 8; exit 1", False)]
)
def test_the_health_check_passes_or_not(
    node: Node, monkeypatch: pytest.MonkeyPatch, said: str, healthy: bool
) -> None:
    node.tool("check", said)
    monkeypatch.setattr("lockstep.node.readers.slurm.HEALTH_CHECK", str(node.bin / "check"))
    assert asked(node, "slurm.health") == {"value": healthy}


def test_the_health_check_is_the_one_of_the_role() -> None:
    assert HEALTH_CHECK == slurm_files.HEALTH_CHECK


def test_clusters_of_the_database(node: Node) -> None:
    node.tool("sacctmgr", "echo b; echo a")
    assert asked(node, "slurm.clusters") == {"value": ["a", "b"]}
    node.tool("sacctmgr", "echo 'no connection' >&2; exit 1")
    assert asked(node, "slurm.clusters") == {"unread": "sacctmgr: exit 1: no connection"}


PASSWORD = "tr0ub4dor"


def test_the_login_of_the_database_shows_its_password_nowhere(node: Node) -> None:
    assert asked(node, "slurm.database_login") == {"value": False}, "nothing there yet"
    node.file(SLURMDBD_CONF, f"DbdHost=head1\nStoragePass={PASSWORD}\n")
    assert asked(node, "slurm.database_login") == {"value": False}, "no mariadb there"
    node.tool("mariadb", f'while read -r l; do [ "$l" != password={PASSWORD} ] || echo 1; done')
    record = collect.collect({}, frozenset({"slurm.database_login"}))
    assert record["readings"]["slurm.database_login"] == {"value": True}
    assert PASSWORD not in str(record)
    node.tool("mariadb", f"echo 'Access denied ({PASSWORD})' >&2; exit 1")
    record = collect.collect({}, frozenset({"slurm.database_login"}))
    assert record["readings"]["slurm.database_login"] == {"value": False}
    assert PASSWORD not in str(record)


def test_what_a_file_names(node: Node) -> None:
    node.file("/etc/slurm/slurm.conf", "Prolog=/usr/bin/check\n")
    names = ["/etc/slurm/slurm.conf /usr/bin/check", "/etc/slurm/slurm.conf /bin/a b", "/none x"]
    assert asked(node, "files.naming", naming=names)["value"] == dict(
        zip(names, (True, False, False), strict=True)
    )
