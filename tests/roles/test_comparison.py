"""Workers that are drained until they have been compared with their class."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyinfra.api.exceptions import PyinfraError

from lockstep.facts.reboot import Conversation, HoldState, Unanswered
from lockstep.facts.slurm import AWAITS_REBOOT, NOT_COMPARED, TO_COMPARE, new_nodes
from lockstep.question import Taken
from lockstep.roles.operations import comparison as operations
from lockstep.roles.steps import comparison
from lockstep.roles.steps.comparison import LONGEST_REASON, compared
from lockstep.roles.steps.reboot.decision import is_ours
from tests.checks import recorded
from tests.roles.local import Done, run

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
        (folder / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {self.log}\n')
        (folder / "scontrol").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.setattr(comparison, "waiting", lambda state: {"@local"})
        self.checks = 0

    def deploy(self, reason: str, *findings: dict[str, Any], fails: str = "") -> tuple[Done, str]:
        """Return the result, and what the controller is told."""
        self.log.write_text("")
        hold = HoldState(frozenset({"IDLE", "DRAIN"}), reason)

        def checked(inventory: str, nodes: str) -> list[dict[str, Any]]:
            self.checks += 1
            if fails:
                raise Unanswered(fails)
            return list(findings)

        self.monkeypatch.setattr(Conversation, "ask", lambda *_, **__: hold)
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
    reason = f"{NOT_COMPARED} fingerprint.file /etc/x (found a, expected b)"
    assert told == f"update NodeName=worker1 State=DRAIN Reason={reason}\n"
    assert "worker1 stays drained, because it differs from its class" in slurm.said.text
    done, told = slurm.deploy(reason, differs)
    assert (done.succeeded, told) == (False, ""), "the reason is written once"
    done, told = slurm.deploy(reason)
    assert (done.succeeded, told) == (True, RESUMED)


def test_a_reason_is_one_short_line_without_quotes(slurm: Slurm) -> None:
    _, told = slurm.deploy(TO_COMPARE, finding("a.b", found='it\'s\n"x" ' + 300 * "y"))
    reason = told.partition("Reason=")[2].rstrip("\n")
    assert reason.startswith(f"{NOT_COMPARED} a.b (found itsx yyy")
    assert len(reason) == LONGEST_REASON


def test_a_worker_that_needs_a_reboot_is_left_to_the_rolling_reboot(slurm: Slurm) -> None:
    done, told = slurm.deploy(TO_COMPARE, finding("kernel.args", status="pending reboot"))
    assert done.succeeded
    assert told == f"update NodeName=worker1 State=DRAIN Reason={AWAITS_REBOOT}\n"
    assert "deploys/reboot.py --limit worker1" in slurm.said.text
    assert is_ours(AWAITS_REBOOT)
    assert not is_ours(TO_COMPARE)


def test_nobody_else_s_drain_is_touched(slurm: Slurm) -> None:
    for reason in ("", "fan", "lockstep: gpu.count", "lockstep-reboot: kernel"):
        assert slurm.deploy(reason)[1] == ""
    assert slurm.checks == 0


def test_a_check_that_fails_resumes_nobody(slurm: Slurm) -> None:
    done, told = slurm.deploy(TO_COMPARE, fails="lockstep check failed")
    assert (done.succeeded, told) == (False, "")
    assert "was not compared, so it stays drained: lockstep check failed" in slurm.said.text


def test_without_a_worker_that_waits_nothing_is_asked(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "waiting", lambda state: set())
    done, told = slurm.deploy(TO_COMPARE)
    assert (done.succeeded, done.commands, told) == (True, 0, "")


def test_a_run_compares_if_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, answer in (({}, False), ({"compare": "no"}, False), ({"compare": "yes"}, True)):
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
    answer = new_nodes().answer
    assert answer(Taken({"slurm.nodes": {"value": nodes}})) == ("worker1",)
    assert answer(Taken({"slurm.nodes": {"unread": "no answer"}})) == ()
