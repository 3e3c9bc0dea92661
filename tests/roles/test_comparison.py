"""Workers that are drained until they have been compared with their class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operation import add_op
from pyinfra.operations import python

from lockstep.facts.reboot import Conversation, HoldState, Unanswered
from lockstep.facts.slurm import (
    AWAITS_REBOOT,
    NOT_COMPARED,
    TO_COMPARE,
    is_healthy,
    known_nodes,
    new_nodes,
    slurm_node,
)
from lockstep.plan.slurm_files import SLURM_CONF
from lockstep.question import Question, Taken, Unreadable
from lockstep.roles.operations import comparison as operations
from lockstep.roles.operations import operation as of_operations
from lockstep.roles.operations import slurm_controller
from lockstep.roles.steps import comparison
from lockstep.roles.steps.comparison import compared, noted
from lockstep.roles.steps.reboot.decision import is_ours
from lockstep.roles.steps.reboot.objections import LONGEST_REASON
from tests.checks import recorded
from tests.roles.local import Done, machine, run, run_in_order

RESUMED = "update NodeName=worker1 State=RESUME\n"


def finding(rule: str, **more: str) -> dict[str, Any]:
    return {
        "rule": rule,
        "node": "worker[1-2]",
        "device": "",
        "status": "differs",
        "severity": "warning",
        "reference": "peers (2 of 3)",
        "found": "a",
        "expected": "b",
        **more,
    }


class Slurm:
    """A controller, and the findings of a check."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
    ) -> None:
        self.said = said
        said.set_level("INFO")
        self.log, self.monkeypatch = folder / "log", monkeypatch
        self.shown = folder / "shown"
        (folder / "scontrol").write_text(
            f'#!/bin/sh\n[ "$1" = update ] || exec cat {self.shown}; echo "$@" >> {self.log}\n'
        )
        (folder / "scontrol").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.setattr(comparison, "waiting", lambda state: {"@local"})
        monkeypatch.setattr(comparison, "CHECK_EVERY_S", 0.001)
        self.limit(0.0)
        self.checks = 0
        self.settles_after = 0
        self.takes: Callable[[], None] = lambda: None
        self.healthy = True
        self.states = {"IDLE", "DRAIN"}

    def limit(self, seconds: float) -> None:
        """Set how long findings may take to settle."""
        self.monkeypatch.setattr(comparison, "SETTLE_S", seconds)

    def repairs(self) -> None:
        """Let the health check have drained the node before this deploy."""
        self.monkeypatch.setattr(comparison, "repaired", lambda state: {"@local"})

    def deploy(
        self, reason: str, *findings: dict[str, Any], fails: str = "", meanwhile: str = ""
    ) -> tuple[Done, str]:
        """Return the result, and what the controller is told; meanwhile the state may change."""
        self.log.write_text("")
        hold = HoldState(frozenset(self.states), reason)
        state = f"State={'+'.join(sorted(self.states))} Partitions=a Reason={reason} [root@x]"
        self.shown.write_text(f"NodeName=worker1 {meanwhile or state}\n")

        def answered(talk: Conversation, question: Question[Any]) -> Any:
            return self.healthy if question.name == is_healthy().name else hold

        def checked(inventory: str, nodes: str) -> list[dict[str, Any]]:
            self.checks += 1
            self.takes()
            if fails:
                raise Unanswered(fails)
            return [] if 0 < self.settles_after < self.checks else list(findings)

        self.monkeypatch.setattr(Conversation, "ask", answered)
        self.monkeypatch.setattr(comparison, "check", checked)
        plan = recorded.consistent().plan.nodes["worker1"]
        return run(compared, plan=plan), self.log.read_text()


@pytest.fixture
def slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Slurm:
    return Slurm(tmp_path, monkeypatch, caplog)


def test_an_equal_worker_is_resumed(slurm: Slurm) -> None:
    done, told = slurm.deploy(TO_COMPARE, finding("slurm.state"), finding("a.b", node="worker3"))
    assert done.succeeded
    assert told == RESUMED


def test_a_worker_that_differs_stays_drained_and_the_reason_says_why(slurm: Slurm) -> None:
    differs = finding("fingerprint.file", device="/etc/x")
    done, told = slurm.deploy(TO_COMPARE, differs)
    assert not done.succeeded
    reason = f"{NOT_COMPARED} fingerprint.file /etc/x (from: peers (2 of 3))"
    assert told == f"update NodeName=worker1 State=DRAIN Reason={reason}\n"
    assert (
        "worker1 stays drained, because it differs from its class: "
        "fingerprint.file /etc/x (found a, expected b). Next: " in slurm.said.text
    )
    done, told = slurm.deploy(reason, differs)
    assert (done.succeeded, told) == (False, ""), "the reason is written once"
    done, told = slurm.deploy(reason)
    assert (done.succeeded, told) == (True, RESUMED)


def test_a_reason_is_one_short_line_without_quotes(slurm: Slurm) -> None:
    _, told = slurm.deploy(TO_COMPARE, finding("a.b", device='it\'s\n"x" ' + 300 * "y"))
    reason = told.partition("Reason=")[2].rstrip("\n")
    assert reason.startswith(f"{NOT_COMPARED} a.b itsx yyy")
    assert len(reason) == LONGEST_REASON


def test_a_reason_that_everybody_can_read_has_no_values(slurm: Slurm) -> None:
    _, told = slurm.deploy(TO_COMPARE, finding("fingerprint.user", device="eve", found="uid 0"))
    assert "fingerprint.user eve" in told
    assert "uid 0" not in told


def test_a_difference_of_which_nobody_knows_the_right_side_is_only_said(slurm: Slurm) -> None:
    doubtful = finding("fingerprint.sysctl", device="kernel.x", status="undecided")
    done, told = slurm.deploy(TO_COMPARE, doubtful)
    assert (done.succeeded, told) == (True, RESUMED)
    assert (
        "worker1 differs from its class, and the right value is not known: "
        "fingerprint.sysctl kernel.x (found a, expected b). This does not keep the node drained. "
        "Next: run lockstep check " in slurm.said.text
    )


def test_a_notice_keeps_nobody_drained_and_an_unread_value_does(slurm: Slurm) -> None:
    assert slurm.deploy(TO_COMPARE, finding("fingerprint.file", severity="notice"))[1] == RESUMED
    unread = finding("fingerprint.file", status="unknown")
    done, told = slurm.deploy(TO_COMPARE, unread)
    assert not done.succeeded
    assert "State=DRAIN" in told


def test_a_worker_that_the_health_check_drained_is_compared_once_it_is_healthy(
    slurm: Slurm,
) -> None:
    slurm.repairs()
    drained, differs = "lockstep: gpu.count", finding("fingerprint.file", device="/etc/x")
    slurm.healthy = False
    assert slurm.deploy(drained) == (Done(True, 0, ""), "")
    assert slurm.checks == 0
    slurm.healthy = True
    assert slurm.deploy(drained)[1] == RESUMED
    done, told = slurm.deploy(drained, differs)
    assert not done.succeeded
    assert told.startswith(f"update NodeName=worker1 State=DRAIN Reason={NOT_COMPARED} ")


def test_a_worker_that_the_health_check_resumed_meanwhile_is_drained_if_it_differs(
    slurm: Slurm,
) -> None:
    slurm.states = {"IDLE"}
    assert slurm.deploy("", finding("a.b"))[1] == "", "nobody had drained it"
    slurm.repairs()
    assert slurm.deploy("")[1] == ""
    assert slurm.deploy("", finding("kernel.args", status="pending reboot"))[1] == ""
    done, told = slurm.deploy("", finding("a.b"))
    assert not done.succeeded
    assert told.startswith(f"update NodeName=worker1 State=DRAIN Reason={NOT_COMPARED} a.b")


@pytest.mark.parametrize(
    ("reason", "compare", "waits"),
    [
        ("lockstep: gpu.count", "yes", True),
        ("lockstep: gpu.count", "no", False),
        ("fan", "yes", False),
    ],
)
def test_a_deploy_notes_which_workers_the_health_check_has_drained(
    monkeypatch: pytest.MonkeyPatch, reason: str, compare: str, waits: bool
) -> None:
    shown = {"state": ["IDLE", "DRAIN"], "reason": reason, "registered_at": None}
    node = {"slurm.node": {"value": {"worker1": shown}}, "units.started": {"value": {}}}

    def answered(question: Question[Any]) -> Any:
        return question.answer(Taken(node))

    noted_as: list[bool] = []
    monkeypatch.setattr(comparison, "ask", answered)
    monkeypatch.setattr(comparison, "compares", lambda: compare == "yes")
    monkeypatch.setattr(
        comparison, "wait_for_comparison", lambda *, after_repair: noted_as.append(after_repair)
    )
    assert answered(slurm_node("worker1")).reason == reason
    done = run(noted, plan=recorded.consistent().plan.nodes["worker1"])
    assert (done.succeeded, done.commands) == (True, 0)
    assert any(noted_as) is waits


def test_a_worker_that_needs_a_reboot_is_left_to_the_rolling_reboot(slurm: Slurm) -> None:
    done, told = slurm.deploy(TO_COMPARE, finding("kernel.args", status="pending reboot"))
    assert done.succeeded
    assert told == f"update NodeName=worker1 State=DRAIN Reason={AWAITS_REBOOT}\n"
    assert "deploys/reboot.py --limit worker1" in slurm.said.text
    assert is_ours(AWAITS_REBOOT)
    assert not is_ours(TO_COMPARE)


def test_findings_of_services_that_have_just_started_may_settle(slurm: Slurm) -> None:
    slurm.limit(60.0)
    slurm.settles_after = 3
    assert slurm.deploy(TO_COMPARE, finding("time.synchronised"))[1] == RESUMED
    assert slurm.checks == 4


@pytest.mark.parametrize(
    "lasting",
    [finding("fingerprint.file"), finding("kernel.args", status="pending reboot")],
    ids=lambda lasting: str(lasting["rule"]),
)
def test_for_what_does_not_settle_nobody_waits(slurm: Slurm, lasting: dict[str, Any]) -> None:
    slurm.limit(60.0)
    slurm.settles_after = 1
    assert slurm.deploy(TO_COMPARE, lasting)[1] != RESUMED
    assert slurm.checks == 1


def test_nobody_else_s_drain_is_touched(slurm: Slurm) -> None:
    for reason in ("", "fan", "lockstep-reboot: kernel"):
        assert slurm.deploy(reason)[1] == ""
    assert slurm.checks == 0


def test_a_resumed_worker_is_waited_for_until_slurmctld_reaches_it(
    slurm: Slurm, tmp_path: Path
) -> None:
    (tmp_path / "sleep").write_text(f"#!/bin/sh\nsed -i s/+NOT_RESPONDING// {slurm.shown}\n")
    (tmp_path / "sleep").chmod(0o755)
    slurm.states.add("NOT_RESPONDING")
    assert slurm.deploy(TO_COMPARE)[1] == RESUMED
    assert "State=DRAIN+IDLE Partitions" in slurm.shown.read_text()


DRAINED_BY_HAND = "State=IDLE+DRAIN Partitions=a Reason=fan [root@2026-11-24T10:00:00]"


def test_a_drain_by_hand_during_the_check_is_kept(slurm: Slurm) -> None:
    done, told = slurm.deploy(TO_COMPARE, meanwhile=DRAINED_BY_HAND)
    assert (done.succeeded, told) == (True, "")
    assert "worker1 was changed in Slurm meanwhile, so it stays out of service: fan" in (
        slurm.said.text
    )
    assert "resumed:" not in slurm.said.text


@pytest.mark.parametrize(
    "found", [finding("fingerprint.file"), finding("kernel.args", status="pending reboot")]
)
def test_the_reason_of_a_drain_by_hand_is_not_replaced(slurm: Slurm, found: dict[str, Any]) -> None:
    assert slurm.deploy(TO_COMPARE, found, meanwhile=DRAINED_BY_HAND)[1] == ""


def test_a_worker_of_which_slurmctld_tells_no_state_is_not_changed(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []
    kept = SimpleNamespace(note=lambda host, why: noted.append(why))
    monkeypatch.setattr(of_operations, "failures_of", lambda state: kept)
    done, told = slurm.deploy(TO_COMPARE, meanwhile="not found")
    assert (done.succeeded, told) == (False, "")
    (why,) = noted  # pyinfra's command repeats it when it ends (lockstep.fast.failures)
    assert "no state: NodeName=worker1 not found" in why
    assert why in slurm.said.text


@pytest.mark.parametrize("lacks", [False, True])
def test_without_an_answer_of_slurmctld_a_run_fails_unless_there_is_none_yet(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch, lacks: bool
) -> None:
    slurm.states = set()
    monkeypatch.setattr(comparison, "lacks_controller", lambda plan: lacks)
    done, told = slurm.deploy("")
    assert (done.succeeded, told, slurm.checks) == (lacks, "", 0)
    assert ("slurmctld on head1 does not answer. Next: " in slurm.said.text) is not lacks


def test_a_check_that_fails_is_not_repeated_for_the_other_workers(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_once = machine()
    slurm.deploy(TO_COMPARE, fails="late")
    slurm.checks = 0
    for _ in range(2):
        with pytest.raises(Unanswered, match="late"):
            comparison._findings(run_once, "x", "@local")
    assert slurm.checks == 1


def test_the_check_gets_the_names_of_many_workers_as_ranges(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux accepts 128 KiB in one argument (execve(2))."""
    asked: list[str] = []

    def checked(inventory: str, nodes: str) -> list[dict[str, Any]]:
        asked.append(nodes)
        return []

    monkeypatch.setattr(comparison, "waiting", lambda state: {f"w{n}" for n in range(10_000)})
    monkeypatch.setattr(comparison, "check", checked)
    comparison._findings(machine(), "x", "w1")
    assert asked == ["w[0-9999]"]


def test_the_workers_of_each_step_are_compared_with_those_before_it(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def checked(inventory: str, nodes: str) -> list[dict[str, Any]]:
        asked.append(nodes)
        return []

    hosts = [SimpleNamespace(name=f"w{number}") for number in range(1, 5)]
    active = [hosts[:2], hosts[:2], hosts[2:], hosts[2:]]

    class Inventory(list[SimpleNamespace]):
        def get_active_hosts(self) -> list[SimpleNamespace]:
            return active[0]

    run_once = machine()
    monkeypatch.setattr(run_once, "inventory", Inventory(hosts))
    monkeypatch.setattr(comparison, "waiting", lambda state: {host.name for host in hosts})
    monkeypatch.setattr(comparison, "check", checked)
    for name in ("w1", "w2", "w3", "w4"):
        comparison._findings(run_once, "x", name)
        active.pop(0)
    assert asked == ["w[1-2]", "w[3-4]"]


def test_findings_may_settle_for_as_long_after_a_slow_check(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is the check's: it takes longer than the time in which findings may settle."""
    now = [0.0]
    monkeypatch.setattr(
        comparison, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: None)
    )
    slurm.limit(60.0)
    slurm.settles_after = 1
    slurm.takes = lambda: now.__setitem__(0, now[0] + 100.0)
    assert slurm.deploy(TO_COMPARE, finding("time.synchronised"))[1] == RESUMED
    assert slurm.checks == 2


def test_a_check_that_fails_resumes_nobody(slurm: Slurm) -> None:
    done, told = slurm.deploy(TO_COMPARE, fails="lockstep check failed")
    assert (done.succeeded, told) == (False, "")
    assert (
        "worker1 was not compared with its class, so its state was not changed: lockstep check "
        "failed. Next: fix this, then run: pyinfra -y " in slurm.said.text
    )


def test_without_a_worker_that_waits_nothing_is_asked(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "waiting", lambda state: set())
    done, told = slurm.deploy(TO_COMPARE)
    assert (done.succeeded, done.commands, told) == (True, 0, "")


def test_a_run_compares_unless_it_is_asked_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, answer in (({}, True), ({"compare": "no"}, False), ({"compare": "yes"}, True)):
        monkeypatch.setattr(operations, "host", SimpleNamespace(data=given))
        assert operations.compares() is answer
    monkeypatch.setattr(operations, "host", SimpleNamespace(data={"compare": "maybe"}))
    with pytest.raises(PyinfraError, match="--data compare=maybe: expected yes or no"):
        operations.compares()


def test_nodes_that_never_registered_are_new() -> None:
    states = {
        "worker1": ["NOT_RESPONDING", "UNKNOWN"],
        "worker2": ["DRAIN", "UNKNOWN"],
        "worker3": ["IDLE"],
        "worker4": ["DOWN", "NOT_RESPONDING"],
        "worker5": ["UNKNOWN"],  # slurmctld has just restarted
    }
    nodes = {
        name: {"state": state, "was_busy": name == "worker5"} for name, state in states.items()
    }
    taken = Taken({"slurm.nodes": {"value": nodes}})
    assert new_nodes(None).answer(taken) == ("worker1",)
    known = frozenset(states)
    assert new_nodes(known).answer(taken) == ("worker1",)
    # Those that slurmctld did not know may have registered meanwhile.
    first = known - {"worker2", "worker3"}
    assert new_nodes(first).answer(taken) == ("worker1", "worker3")


def test_an_unread_list_of_nodes_is_not_an_empty_one() -> None:
    unread = Taken({"slurm.nodes": {"unread": "no answer"}})
    with pytest.raises(Unreadable):
        new_nodes(None).answer(unread)


@pytest.mark.parametrize(
    ("conf", "nodes", "known"),
    [
        ({"absent": True}, {"unread": "not installed"}, frozenset()),
        ({"sha256": "a"}, {"unread": "no answer"}, None),
        ({"sha256": "a"}, {"value": {"worker1": {}}}, frozenset({"worker1"})),
        ({"absent": True}, {"value": {"worker1": {}}}, frozenset({"worker1"})),
    ],
)
def test_slurmctld_knows_no_node_only_without_a_slurm_conf(
    conf: dict[str, Any], nodes: dict[str, Any], known: frozenset[str] | None
) -> None:
    read = {"files": {"value": {SLURM_CONF: conf}}, "slurm.nodes": nodes}
    assert known_nodes().answer(Taken(read)) == known


@pytest.mark.parametrize("looks_first", [True, False])
def test_a_run_drains_the_nodes_that_slurmctld_did_not_know_when_it_began(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch, looks_first: bool
) -> None:
    """slurmd was deployed first, and has registered before the run has come to this step."""
    absent = {"unread": "not installed"}
    read = {"files": {"value": {SLURM_CONF: {"absent": True}}}, "slurm.nodes": absent}
    after: dict[str, Any] = {"value": {"worker1": {"state": ["IDLE"], "was_busy": True}}}

    def deployed() -> None:
        read.update({"files": {"value": {SLURM_CONF: {"sha256": "a"}}}, "slurm.nodes": after})

    def drains() -> Done:
        slurm.log.write_text("")
        return run_in_order(
            lambda state: add_op(state, slurm_controller.known_nodes_noted),
            lambda state: add_op(state, python.call, function=deployed),
            lambda state: add_op(state, slurm_controller.drained_until_compared),
            looks_first=looks_first,
        )

    monkeypatch.setattr(slurm_controller, "ask", lambda question: question.answer(Taken(read)))
    monkeypatch.setattr(slurm_controller, "compares", lambda: True)
    assert drains().succeeded
    assert slurm.log.read_text() == f"update NodeName=worker1 State=DRAIN Reason={TO_COMPARE}\n"
    assert drains().commands == 0, "it is known by now"
    after["unread"] = after.pop("value")
    assert not drains().succeeded
