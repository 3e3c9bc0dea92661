"""Turns of the heads: after a failure, and while another head is not ready, no head is touched."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import FunctionCommand, Host
from pyinfra.connectors.util import CommandOutput, OutputLine
from typing_extensions import override

from lockstep.facts.reboot import Conversation, HoldState, Unanswered
from lockstep.fast.failures import failures_of
from lockstep.plan.reboot import Pending, Reason
from lockstep.roles.operations import kubernetes_certificates as certificates
from lockstep.roles.operations import kubernetes_manifests as manifests
from lockstep.roles.operations import kubernetes_turns as turns
from lockstep.roles.operations import operation as of_operations
from lockstep.roles.operations.kubernetes_certificates import DAY_S
from lockstep.roles.steps import upgrade
from lockstep.roles.steps.reboot import driver as drivers
from lockstep.roles.steps.reboot import turn as reboots
from lockstep.roles.steps.reboot.decision import Decision
from lockstep.roles.steps.reboot.failures import Failed
from lockstep.roles.steps.reboot.pods import Pods, Seen
from lockstep.roles.steps.reboot.rollout import Rollout
from tests.golden.write import plan_of
from tests.roles.hosts import LoggingHost
from tests.roles.test_kubernetes_certificates import listed

PLANS = plan_of("kubernetes").nodes
DIFFERS = {"kube-apiserver": "differs: x"}


class State:
    """A run in which some API servers are not ready, and that keeps what each head was asked."""

    is_executing = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *down: str, days: int = 1) -> None:
        self.patch, self.down, self.asked = monkeypatch, down, list[tuple[str, str]]()
        self.noted = list[str]()
        self.failed_hosts = list[SimpleNamespace]()
        self.silent = ""
        self.differs = DIFFERS
        self.listed = listed(("etcd-server", days * DAY_S, {}))
        self.inventory = SimpleNamespace(
            get_host=lambda name: SimpleNamespace(name=name, state=self)
        )
        kept = SimpleNamespace(
            said=lambda host: f"the API server of {host.name} was not ready after 150 s",
            note=lambda host, why: self.noted.append(why),
        )
        monkeypatch.setattr(turns, "failures_of", lambda state: kept)
        monkeypatch.setattr(of_operations, "failures_of", lambda state: kept)
        monkeypatch.setattr(of_operations, "strictly", nullcontext)
        monkeypatch.setattr(of_operations, "host", SimpleNamespace(noop=lambda why: None))
        for module in (certificates, manifests, turns):
            monkeypatch.setattr(module, "connector_arguments", lambda host: {}, raising=False)
            monkeypatch.setattr(
                module,
                "Conversation",
                lambda host, arguments: SimpleNamespace(
                    say=lambda command, within_s: self._answer(host.name, command)
                ),
                raising=False,
            )
        monkeypatch.setattr(manifests, "ask", lambda question: self.differs)

    def _answer(self, head: str, command: str) -> tuple[bool, Any]:
        if "check-expiration" in command:
            return True, SimpleNamespace(stdout_lines=[self.listed], stderr_lines=[])
        if head == self.silent:
            raise Unanswered("it does not answer")
        (about,) = (name for name, plan in PLANS.items() if f"//{plan.endpoint(6443)} " in command)
        self.asked.append((head, about))
        said = ["attempt 1", "connection refused."]
        return about not in self.down, SimpleNamespace(stdout_lines=[], stderr_lines=said)

    def begin(self, operation: Any, head: str) -> Generator[Any, None, None]:
        """Return the commands of an operation on a head."""
        host = SimpleNamespace(name=head, state=self, log=lambda text: None)
        for module in (certificates, manifests):
            self.patch.setattr(module, "host", host)
        commands: Generator[Any, None, None] = operation._inner(plan=PLANS[head])
        return commands

    def refused(self, operation: Any, head: str) -> str:
        """Return the error with which a head is left alone; "" if it is changed."""
        commands = list(self.begin(operation, head))
        if not isinstance(commands[0], FunctionCommand):
            return ""
        (only,) = commands
        host = SimpleNamespace(name=head, state=self, log_styled=lambda *_, **given: None)
        assert only.execute(self, host, {}) is False
        return self.noted[-1]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> State:
    return State(monkeypatch)


OPERATIONS = [manifests.as_configured, certificates.renewed]


@pytest.mark.parametrize("first", OPERATIONS)
@pytest.mark.parametrize("second", OPERATIONS)
def test_after_a_head_has_failed_the_others_are_left_alone(
    run: State, first: Any, second: Any
) -> None:
    begun = run.begin(first, "head1")
    next(begun)
    begun.close()  # as pyinfra does after a failure
    run.failed_hosts.append(SimpleNamespace(name="head1"))
    run.asked.clear()
    for head in ("head2", "head3"):
        assert run.refused(second, head) == (
            f"{head} was left alone, because head1 failed: the API server of head1 was not ready "
            "after 150 s. Next: on head1: crictl ps --all, and journalctl -u kubelet; repair it, "
            "then run this again"
        )
    assert run.asked == []
    assert not run.refused(second, "head1"), "a retry on the same head"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_turn_that_is_decided_again_is_no_failure(run: State, operation: Any) -> None:
    """As for an operation whose readings were taken before its turn."""
    begun = run.begin(operation, "head1")
    next(begun)
    begun.close()
    assert not run.refused(operation, "head2")
    # The head may still fail afterwards.
    run.failed_hosts.append(SimpleNamespace(name="head1"))
    assert "head1 failed" in run.refused(operation, "head2")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_another_run_and_a_turn_that_worked_hinder_nobody(
    run: State, monkeypatch: pytest.MonkeyPatch, operation: Any
) -> None:
    for head in ("head1", "head2", "head3"):
        assert not run.refused(operation, head)
    begun = run.begin(operation, "head1")
    next(begun)
    begun.close()
    assert not State(monkeypatch).refused(operation, "head2")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_head_is_touched_while_another_one_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, operation: Any
) -> None:
    run = State(monkeypatch, "head3")
    assert run.refused(operation, "head1") == (
        "head1 was left alone, because the API server of head3 is not ready: connection refused. "
        "Next: on head3: crictl ps --all, and journalctl -u kubelet; repair it, or deploy it if it "
        "has not joined yet; then run this again"
    )
    assert run.asked[:2] == [("head1", "head2"), ("head1", "head3")]
    assert not run.refused(operation, "head3"), "the head itself is repaired"
    run.silent = "head2"
    assert "head1 is not ready: it does not answer" in run.refused(certificates.renewed, "head2")


def test_only_an_api_server_that_is_down_anyway_is_changed_beside_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = State(monkeypatch, "head1", "head2")
    assert not run.refused(manifests.as_configured, "head1")
    assert "head2 is not ready" in run.refused(certificates.renewed, "head1"), "etcd stops, too"


def test_a_head_whose_certificates_have_ended_does_not_wait_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = State(monkeypatch, "head1", "head2", "head3", days=-1)
    begun = run.begin(certificates.renewed, "head1")
    next(begun)
    begun.close()
    run.failed_hosts.append(SimpleNamespace(name="head1"))
    assert not run.refused(certificates.renewed, "head2")
    run.listed = listed(("super-admin.conf", -DAY_S, {}))
    assert "head1 failed" in run.refused(certificates.renewed, "head3")


def test_a_run_with_nothing_to_do_asks_no_other_head(monkeypatch: pytest.MonkeyPatch) -> None:
    run = State(monkeypatch, "head3", days=300)
    run.differs = {}
    for operation in OPERATIONS:
        assert list(run.begin(operation, "head1")) == []
    assert run.asked == []


def test_with_one_head_nothing_is_asked(run: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "control_planes", lambda plan: (plan,))
    for operation in OPERATIONS:
        assert not run.refused(operation, "head1")
    assert run.asked == []


# -- a head that is about to stop as a whole


class Asked(Conversation):
    """A head, and what it says of the other heads' API servers, and of its own etcd.

    ``down``: the names of heads whose API servers are down, and "etcd" if its own etcd is.
    """

    def __init__(self, *down: str, joined: bool = True, silent: bool = False) -> None:
        self.down, self.joined, self.silent = set(down), joined, silent
        self.asked, self.commands = list[str](), list[str]()

    @override
    def say(self, command: str, within_s: float = 0, **further: Any) -> tuple[bool, CommandOutput]:
        self.commands.append(command)
        if self.silent:
            raise Unanswered("no answer within 60 s")
        if command == "test ! -e /var/lib/lockstep/kubernetes/done":
            return not self.joined, CommandOutput([])
        about = "etcd"
        if "--server=http://[::1]:2381 " not in command:
            (about,) = (
                name for name, plan in PLANS.items() if f"//{plan.endpoint(6443)} " in command
            )
        self.asked.append(about)
        return about not in self.down, CommandOutput([OutputLine("stderr", "connection refused.")])


def test_a_head_may_stop_if_the_api_servers_of_the_others_are_ready() -> None:
    talk = Asked()
    assert turns.hindrance(PLANS["head2"], talk) == ("", "")
    assert talk.asked == ["head1", "head3"]
    assert turns.hindrance(PLANS["head2"], Asked("head2")) == ("", "")


def test_a_head_whose_etcd_is_not_ready_takes_no_member_away() -> None:
    assert turns.hindrance(PLANS["head2"], Asked("head1", "etcd")) == ("", "")


def test_a_head_whose_api_server_alone_is_down_has_a_member_that_counts() -> None:
    down = Asked("head1", "head2")
    assert turns.hindrance(PLANS["head2"], down) == ("head1", "connection refused")


def test_the_checks_that_failed_are_named_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        r'(InternalError): an error on the server ("[+]ping ok\n[-]etcd failed: reason withheld\n'
    )
    monkeypatch.setattr(
        Asked, "say", lambda *_, **given: (False, CommandOutput([OutputLine("stderr", said)]))
    )
    assert turns._answer(Asked(), "true") == "etcd failed"


def test_another_head_that_is_not_ready_is_named() -> None:
    for head in ("head1", "head2"):
        assert turns.hindrance(PLANS[head], Asked("head3")) == ("head3", "connection refused")
    with pytest.raises(Unanswered, match="no answer"):
        turns.hindrance(PLANS["head1"], Asked(silent=True))


def test_a_head_may_stop_if_there_is_no_majority_to_lose() -> None:
    """Heads that are planned may not have joined yet."""
    assert turns.hindrance(PLANS["head1"], Asked("head2", "head3")) == ("", "")


@pytest.mark.parametrize(
    ("down", "named"),
    [("2", ""), ("23", "head2"), ("234", "")],
    ids=["one down", "two down", "no majority to lose"],
)
def test_three_of_five_heads_are_a_majority(
    monkeypatch: pytest.MonkeyPatch, down: str, named: str
) -> None:
    five = tuple(
        SimpleNamespace(
            name=f"head{number}",
            runs=lambda service: True,
            endpoint=lambda port, number=number: f"[::{number}]:{port}",
            kubernetes=SimpleNamespace(settings=SimpleNamespace(api_port=6443)),
            address_family="ipv6",
        )
        for number in range(1, 6)
    )
    monkeypatch.setattr(turns, "control_planes", lambda plan: five)
    monkeypatch.setitem(globals(), "PLANS", {one.name: one for one in five})
    talk = Asked(*(f"head{number}" for number in down))
    assert turns.hindrance(cast("Any", five[0]), talk)[0] == named


def test_nodes_without_a_member_of_etcd_and_a_single_head_ask_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, new, alone = Asked("head1"), Asked("head1", joined=False), Asked("head2")
    assert turns.hindrance(PLANS["worker01"], worker) == ("", "")
    assert turns.hindrance(PLANS["head2"], new) == ("", "")
    monkeypatch.setattr(turns, "control_planes", lambda plan: (plan,))
    assert turns.hindrance(PLANS["head1"], alone) == ("", "")
    assert new.asked == worker.commands == alone.commands == []


class Drained:
    """A head's Node object, and what happens while the head is drained."""

    ours = False

    def __init__(self, talk: Asked, *lost: str) -> None:
        self.talk, self.lost, self.said = talk, lost, list[str]()

    def emptied(self, *_: object) -> bool:
        self.said.append("drained")
        self.talk.down |= set(self.lost)
        self.ours = True
        return True

    def released(self, again: str) -> None:
        self.said.append("released")


@pytest.mark.parametrize(
    ("down", "lost", "said"),
    [
        ((), (), ["drained", "rebooted", "released"]),
        (("head3",), (), []),
        ((), ("head3",), ["drained"]),
    ],
)
def test_no_head_is_rebooted_while_another_one_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, down: tuple[str, ...], lost: tuple[str, ...], said: list[str]
) -> None:
    talk, host, rollout = Asked(*down), LoggingHost("head1"), Rollout()
    pods = Drained(talk, *lost)
    monkeypatch.setattr(reboots.Turn, "_reboot", lambda self: pods.said.append("rebooted"))
    monkeypatch.setattr(reboots.Turn, "_settled", lambda self, look: "")
    for name in ("trusted", "loadable"):
        monkeypatch.setattr(drivers, name, lambda *_: None)
    worked = reboots.Turn(
        cast("Host", host),
        PLANS["head1"],
        talk,
        Decision(Pending((Reason("reboot-required", ""),)), "1", HoldState(), worker=False),
        rollout,
        Pending,
        cast("Pods", pods),
    ).run()
    assert pods.said == said
    assert worked == (not down and not lost)
    # A head that is not ready itself may be helped by its own reboot.
    assert rollout.stopped == ""
    if not worked:
        assert failures_of(host.state).said(cast("Host", host)) + ". Next" in host.logged[-1]
        assert host.logged[-1] == (
            "head1 was not rebooted, because the API server of head3 is not ready: connection "
            f"refused.{' It stays cordoned.' if lost else ''} Next: on head3: crictl ps --all, and "
            "journalctl -u kubelet; repair it, or deploy it if it has not joined yet; then run "
            "this again"
        )


def test_no_head_is_upgraded_while_another_one_is_not_ready() -> None:
    made = cast("Any", object.__new__(upgrade.Turn))
    made.plan, made.talk, made.wanted = PLANS["head1"], Asked("head2"), "v1.34.4"
    made.pods = SimpleNamespace(look=lambda: Seen(True, version="v1.33.9"))
    made._say = lambda command, within_s: ["yes"]
    with pytest.raises(Failed, match=r"head1 was not upgraded, because .* head2 is not ready"):
        made._steps()
