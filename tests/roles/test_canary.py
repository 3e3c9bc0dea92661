"""Deploys that go in steps: pyinfra's own command runs them on hosts of its ``@fake`` connector."""

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lockstep.roles.steps.canary import verdict
from tests.test_pyinfra_assumptions import ROOT, pyinfra

pytestmark = pytest.mark.integration

INVENTORY = """\
from tests.plan.example import planned
_wanted = {"canary": True, "share": 0.5}
plan = planned(lambda wanted: wanted.update(deploys=_wanted))
_hosts = [
    (f"@fake/{name}", {"fake_delay": 0, "fake_delay_jitter": 0, "plan": node})
    for name, node in plan.nodes.items()
]
head, worker = _hosts[:2], _hosts[2:]
"""

CASE = """\
import json, time
from pathlib import Path
from pyinfra.api import FunctionCommand
from pyinfra.context import ctx_host
from lockstep.facts.reboot import Unanswered
from lockstep.roles.operations.operation import operation, refusal
from lockstep.roles.steps.canary import verdict

CASE = json.loads(Path("case.json").read_text())

def log(text):
    with open("log", "a") as file:
        file.write(text + "\\n")

def check(inventory, nodes):
    log(f"check {nodes}")
    number = sum(line.startswith("check") for line in open("log"))
    found = CASE["checks"][min(number, len(CASE["checks"])) - 1]
    if isinstance(found, str):
        raise Unanswered(found)
    return found

verdict.check = check
verdict.SETTLE_S = verdict.CHECK_EVERY_S = 0.0

@operation()
def own(kind):
    host = ctx_host.get()
    name = host.data.plan.name
    def change(state, host):
        if CASE["waits"]:
            time.sleep(60)
        log(f"{kind} {name}")
        return True
    if name in CASE["changing"]:
        if not host.state.is_executing or name not in CASE["failing"]:
            yield FunctionCommand(change, (), {})
        else:
            yield refusal("postinst failed")
"""

DEPLOY = """\
from pyinfra import host
from lockstep.roles.steps import barrier, canary
from case import own
plan = host.data.plan
canary.begins(plan)
if not plan.is_worker:
    own(name="Head", kind="head")
canary.checked(name="Heads are done", plan=plan)
if plan.is_worker:
    own(name="Package", kind="package")
barrier.reached(name="Workers are registered")
if plan.is_worker:
    own(name="Service", kind="service")
canary.checked(name="Workers are done", plan=plan)
"""
WORKERS = ["worker1", "worker2", "worker3", "worker4"]


@dataclass(frozen=True)
class Ran:
    """A run of pyinfra."""

    code: int
    said: str
    log: list[str]
    """The changes and the checks, in order."""

    @property
    def told(self) -> list[str]:
        """The lines about the steps."""
        return re.findall(r"--> Canary: (.*)", self.said)


def prepared(folder: Path, **case: Any) -> None:
    usual = {"changing": WORKERS, "failing": [], "checks": [[]], "waits": False}
    (folder / "case.json").write_text(json.dumps({**usual, **case}))
    (folder / "case.py").write_text(CASE)
    (folder / "log").touch()


def deployed(folder: Path, *options: str, **case: Any) -> Ran:
    prepared(folder, **case)
    done = pyinfra(folder, DEPLOY, *(options or ("-y",)), inventory=INVENTORY)
    return Ran(done.returncode, done.stderr, (folder / "log").read_text().splitlines())


def finding(rule: str, node: str, **more: Any) -> dict[str, Any]:
    usual = {"rule": rule, "node": node, "device": "", "found": "a", "expected": "b", "roles": []}
    return {**usual, "severity": "error", "status": "differs", "reference": "spec", **more}


def test_one_node_goes_first_and_is_checked_and_then_the_others_in_steps(tmp_path: Path) -> None:
    ran = deployed(tmp_path)
    assert ran.code == 0, ran.said
    canary = ["check head[1-2],worker[1-4]", "package worker1", "service worker1", "check worker1"]
    assert ran.log[:4] == canary
    assert {*ran.log[4:6]} == {"package worker2", "package worker3"}
    assert {*ran.log[6:8]} == {"service worker2", "service worker3"}
    last = ["check worker[1-3]", "package worker4", "service worker4", "check worker[1-4]"]
    assert ran.log[8:] == last
    assert "worker1 first, then worker[2-3], then worker4" in ran.told


def test_a_canary_that_fails_stops_the_deploy_and_the_others_are_untouched(tmp_path: Path) -> None:
    ran = deployed(tmp_path, failing=["worker1"])
    assert (ran.code, ran.log) == (1, ["check head[1-2],worker[1-4]"])
    assert ran.told[-1] == (
        'stopped after step 1 of 3, because worker1 failed in "Package". Untouched: worker[2-4]. '
        "Next: repair worker1, then run: pyinfra -y cluster.py deploy.py"
    )
    assert re.search(r"Grand total *\|? *", ran.said)
    assert not re.search(r"\[@fake/worker2\] +(Success|Error)", ran.said)


def test_a_new_finding_stops_the_deploy_and_an_old_one_does_not(tmp_path: Path) -> None:
    old = finding("unit.active", "worker[1-2]", device="a.service")
    new = finding("unit.active", "worker1", device="b.service")
    ran = deployed(tmp_path, checks=[[old], [old, new]])
    assert ran.code == 1
    assert ran.log[1:] == ["package worker1", "service worker1", "check worker1"]
    assert (
        "because worker1 has findings that it did not have before this deploy: unit.active "
        "b.service (found a, expected b). Untouched: worker[2-4]. Next: repair worker1"
    ) in ran.told[-1]


def test_a_finding_of_an_earlier_step_stops_the_deploy(tmp_path: Path) -> None:
    late = finding("unit.active", "worker1", device="b.service")
    ran = deployed(tmp_path, checks=[[], [], [late]])
    assert ran.code == 1
    assert "package worker3" in ran.log
    assert "package worker4" not in ran.log
    assert "worker1 has findings that it did not have before this deploy" in ran.said
    assert "Untouched: worker4" in ran.told[-1]


def test_nodes_that_wait_for_their_step_are_not_compared_with_the_canary(tmp_path: Path) -> None:
    """They have had an earlier part of the deploy, as the workers' node check is one."""
    deploy = DEPLOY.replace(
        'if not plan.is_worker:\n    own(name="Head"',
        'if plan.is_worker:\n    own(name="Before", kind="before")\n'
        'canary.checked(name="Before the heads", plan=plan)\n'
        'if not plan.is_worker:\n    own(name="Head"',
    )
    prepared(tmp_path, changing=["head1", *WORKERS])
    done = pyinfra(tmp_path, deploy, "-y", inventory=INVENTORY)
    assert done.returncode == 0, done.stderr
    checks = [line for line in (tmp_path / "log").read_text().splitlines() if "check" in line]
    everywhere = ["check worker1", "check worker[1-3]"]
    assert checks == [
        *("check head[1-2],worker[1-4]", *everywhere, "check worker[1-4]"),
        *("check head1,worker[1-4]", *everywhere, "check head1,worker[1-4]"),
    ]


def test_heads_have_a_canary_of_their_own_and_stop_the_workers(tmp_path: Path) -> None:
    ran = deployed(tmp_path, changing=["head1", *WORKERS], failing=["head1"])
    assert (ran.code, ran.log) == (1, ["check head[1-2],worker[1-4]"])
    assert 'stopped, because head1 failed in "Head". Untouched: worker[1-4]' in ran.told[-1]


def test_without_changes_there_are_no_steps_and_no_check(tmp_path: Path) -> None:
    ran = deployed(tmp_path, changing=[])
    assert (ran.code, ran.log) == (0, [])
    assert ran.told == ["no node needs a change, so there are no steps"]
    assert ran.said.count("Starting operation: ") == 6
    assert "Success" not in ran.said.split("--> Results")[0]


def test_the_run_can_leave_the_steps_out(tmp_path: Path) -> None:
    ran = deployed(tmp_path, "-y", "--data", "canary=no")
    assert (ran.code, ran.told) == (0, [])
    assert [line.split()[0] for line in ran.log] == ["package"] * 4 + ["service"] * 4


@pytest.mark.parametrize(
    ("options", "case", "why"),
    [
        (["-y", "--data", "canary=maybe"], {}, "--data canary=maybe: expected yes or no"),
        (["-y", "--serial"], {}, "--serial cannot be used for a deploy that goes in steps"),
        (["-y", "--no-wait"], {}, "--no-wait cannot be used for a deploy that goes in steps"),
        (["-y"], {"checks": ["no ssh"]}, "the check before the deploy failed: no ssh. Next: run"),
    ],
)
def test_what_prevents_the_steps_is_said_before_a_change(
    tmp_path: Path, options: list[str], case: dict[str, Any], why: str
) -> None:
    ran = deployed(tmp_path, *options, **case)
    assert ran.code == 1
    assert [line for line in ran.log if not line.startswith("check")] == []
    assert why in ran.said


def test_ctrl_c_is_said_in_one_line_and_is_no_success(tmp_path: Path) -> None:
    prepared(tmp_path, waits=True)
    (tmp_path / "cluster.py").write_text(INVENTORY)
    (tmp_path / "deploy.py").write_text(DEPLOY)
    running = subprocess.Popen(
        [sys.executable, "-m", "pyinfra", "-y", "cluster.py", "deploy.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    ends = time.monotonic() + 30
    while "check" not in (tmp_path / "log").read_text() and time.monotonic() < ends:
        time.sleep(0.1)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)
    assert running.returncode == 1
    (line,) = (one for one in said.splitlines() if "interrupted" in one)
    assert "interrupted while deploying worker1 (may be incomplete)" in line
    assert "Untouched: worker[2-4]. Next: run: pyinfra -y cluster.py deploy.py" in line
    assert "Traceback" not in said


# -- what is new


def verdict_of(monkeypatch: pytest.MonkeyPatch, *checks: list[dict[str, Any]]) -> list[str]:
    """Return the rules of worker1's new findings; each check returns the next list."""
    answers = [*checks]
    monkeypatch.setattr(
        verdict, "check", lambda *_: answers.pop(0) if len(answers) > 1 else answers[0]
    )
    monkeypatch.setattr(verdict, "CHECK_EVERY_S", 0.001)
    one = verdict.Verdict("prod.py")
    one.begin(["worker1"])
    return [finding["rule"] for finding in one.new(["worker1"]).get("worker1", [])]


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        ({}, {}, []),
        ({"found": "a"}, {"found": "c"}, []),
        # A deploy is to repair it, and left another fault.
        ({"found": "a", "roles": ["munge"]}, {"found": "c", "roles": ["munge"]}, ["x.y"]),
        ({"found": "a", "roles": ["munge"]}, {"found": "a", "roles": ["munge"]}, []),
        ({"device": "a"}, {"device": "b"}, ["x.y"]),
        ({"node": "worker2"}, {}, ["x.y"]),
        ({"node": "worker2"}, {"severity": "notice"}, []),
        ({"node": "worker2"}, {"status": "pending reboot"}, []),
        ({"node": "worker2"}, {"status": "undecided"}, []),
        ({"node": "worker2"}, {"status": "unknown"}, ["x.y"]),
        ({"status": "undecided", "node": "worker[1-2]"}, {}, []),
    ],
)
def test_a_finding_is_new_if_the_node_had_none_in_its_place(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, Any], after: dict[str, Any], new: list[str]
) -> None:
    monkeypatch.setattr(verdict, "SETTLE_S", 0.0)
    checks = ([finding("x.y", **{"node": "worker1", **one})] for one in (before, after))
    assert verdict_of(monkeypatch, *checks) == new


def test_findings_of_rules_may_settle_and_those_of_fingerprints_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verdict, "SETTLE_S", 30.0)
    starting = [finding("unit.active", "worker1")]
    assert verdict_of(monkeypatch, [], starting, starting, starting, []) == []
    differs = [finding("fingerprint.file", "worker1")]
    began = time.monotonic()
    assert verdict_of(monkeypatch, [], differs) == ["fingerprint.file"]
    assert time.monotonic() - began < 5
