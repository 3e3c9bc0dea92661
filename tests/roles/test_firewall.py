"""The role firewall: the real nft and firewalld read its files, and open what the plan has."""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from lockstep.facts.firewall import listens, loaded_rules
from lockstep.files import ManagedFile, managed
from lockstep.node.readers import firewall as reader
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT
from lockstep.plan import NodePlan
from lockstep.plan.firewall import FIREWALLD_CONF, NFT_FILE, ZONE_FILE
from lockstep.question import Question, Taken, Unreadable
from lockstep.roles.operations import files as of_files
from lockstep.roles.operations import firewall as role
from lockstep.roles.operations import operation as of_operations
from tests.checks import test_firewall
from tests.roles.test_network import in_namespace, needs

NODE = "worker3"
LIST_ALL = """\
lockstep (default, active)
  target: default
  ingress-priority: 0
  icmp-block-inversion: no
  interfaces: eno1
  sources:
  services: cockpit
  ports: 22/tcp
  forward: yes
  masquerade: no
  rich rules:
\trule family="ipv6" source address="fd00::/64" accept
"""


def node(kind: str = "nftables") -> NodePlan:
    return test_firewall.cluster(kind).plan.nodes[NODE]


def file(path: str, kind: str = "nftables") -> ManagedFile:
    (found,) = [one for one in managed(node(kind), None, "firewall") if one.path == path]
    return found


class Scripted(Commands):
    """Programs with fixed answers: command line -> exit status, output."""

    def __init__(self, **answers: tuple[int, str]) -> None:
        super().__init__()
        self.answers = answers

    @override
    def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
        status, out = self.answers[
            argv[0].replace("-", "_") + ("_list" if "--stateless" in argv else "")
        ]
        return status, out, "why" if status else ""


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "installed", lambda name: True)


def read(kind: str, commands: Commands) -> Any:
    return reader.read_firewall({"firewall": [kind]}, commands)["firewall.rules"][kind]


# -- the reader


@needs("nft", "nftables")
@in_namespace
def test_the_kernel_shows_the_rules_as_the_plan_has_them(tmp_path: Path) -> None:
    rules = tmp_path / "firewall.nft"
    rules.write_bytes(file(NFT_FILE).content)
    check = file(NFT_FILE).validate.format(new=rules)
    other = "add table inet other; add chain inet other c { type filter hook input priority 1; }"
    # Twice: the rules take the place of the old ones, and other tables stay.
    done = subprocess.run(
        [
            *("unshare", "--net", "sh", "-ec"),
            f"{check}; nft '{other}'; nft -f {rules}; nft -f {rules}; nft list tables; "
            "nft --stateless --numeric-priority --numeric-protocol list table inet lockstep",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, *shown = done.stdout.splitlines()
    assert {first, second} == {"table inet other", "table inet lockstep"}
    commands = Scripted(nft=(0, f"{first}\n{second}\n"), nft_list=(0, "\n".join(shown)))
    assert read("nftables", commands) == list(node().firewall.rules)


@pytest.mark.parametrize(
    ("kind", "answers", "found"),
    [
        ("nftables", {"nft": (0, "table ip nat\n")}, ABSENT),
        ("nftables", {"nft": (1, "")}, {"unread": "nft: exit 1: why"}),
        ("firewalld", {"firewall_cmd": (252, "")}, ABSENT),
        ("firewalld", {"firewall_cmd": (1, "")}, {"unread": "firewall-cmd: exit 1: why"}),
        (
            "firewalld",
            {"firewall_cmd": (0, LIST_ALL), "nft": (0, "table inet firewalld\n")},
            [
                "ports: 22/tcp",
                'rule family="ipv6" source address="fd00::/64" accept',
                "services: cockpit",
                "table inet firewalld",
                "target: default",
                "zone: lockstep",
            ],
        ),
    ],
)
def test_what_is_loaded(kind: str, answers: dict[str, tuple[int, str]], found: object) -> None:
    assert read(kind, Scripted(**answers)) == found


def test_without_the_program_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "installed", lambda name: False)
    assert [read(kind, Scripted()) for kind in ("nftables", "firewalld")] == [ABSENT, ABSENT]


# -- firewalld's files, by the real firewalld


@needs("firewall-offline-cmd", "firewalld")
@pytest.mark.parametrize("broken", [False, True])
def test_firewalld_reads_its_files(tmp_path: Path, broken: bool) -> None:
    news = []
    for path in (ZONE_FILE, FIREWALLD_CONF):
        new = tmp_path / f"{path.removeprefix('/etc/firewalld/')}.lockstep-new"
        new.parent.mkdir(exist_ok=True)
        text = file(path, "firewalld").content
        new.write_bytes(text.replace(b"tcp", b"tpc") if broken else text)
        news.append(str(new))
    check = file(ZONE_FILE, "firewalld").validate.replace("/etc/firewalld/", f"{tmp_path}/")
    done = subprocess.run(
        check.format(new=news[0], every_new=" ".join(news)),
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == broken, done.stderr


# -- operations


def ran(
    monkeypatch: pytest.MonkeyPatch, operation: Any, *given: Any, answers: dict[str, Any]
) -> list[str]:
    def ask(question: Question[Any]) -> Any:
        return answers[question.name]

    monkeypatch.setattr(role, "ask", ask)
    monkeypatch.setattr(of_operations, "host", SimpleNamespace(noop=lambda why: None))
    monkeypatch.setattr(of_operations, "strictly", nullcontext)
    monkeypatch.setattr(of_files.managed_files, "_inner", lambda files: iter(["written"]))
    return [str(one) for one in operation._inner(*given)]


def test_the_rules_are_loaded_only_where_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, command in role.LOAD.items():
        plan = node(kind)
        for rules, commands in (
            (plan.firewall.rules, []),
            (plan.firewall.rules[:-1], [command]),
            ((), [command]),
        ):
            found = ran(monkeypatch, role.loaded, plan, answers={"packet filter": rules})
            assert found == commands


def test_nothing_is_written_where_the_rules_would_close_the_port_of_ssh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ran(monkeypatch, role.files, node(), answers={"listeners": True}) == ["written"]
    (refused,) = ran(monkeypatch, role.files, node(), answers={"listeners": False})
    assert refused.startswith("cat >&2; exit 1")
    assert "access.port" in role.unsafe(NODE, "tcp/22")


def test_an_unread_value_is_no_answer() -> None:
    taken = Taken({"firewall.rules": {"value": {"nftables": {"unread": "nft: not installed"}}}})
    with pytest.raises(Unreadable):
        loaded_rules("nftables").answer(taken)
    with pytest.raises(Unreadable):
        listens("tcp/22").answer(Taken({"listeners": {"unread": "timed out"}}))
    gone = Taken({"firewall.rules": {"value": {"nftables": ABSENT}}})
    assert loaded_rules("nftables").answer(gone) == ()
