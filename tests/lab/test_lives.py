"""Which lives labs get, and what counts as silent; without machines."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import dataclass
from itertools import count

from typing_extensions import override

from tests.lab.labs import Lab
from tests.lab.silence.deployments import DEPLOYMENTS, WORKERS
from tests.lab.silence.events import EVENTS
from tests.lab.silence.life import drawn
from tests.lab.silence.trial import PID_1, Outcome, lived

LIVES = [drawn(1, number) for number in range(20)]


def test_a_seed_gives_the_same_life_again_and_another_seed_another_one() -> None:
    assert [drawn(1, number) for number in range(20)] == LIVES
    assert drawn(2, 0).events != LIVES[0].events


def test_every_deployment_has_its_turn() -> None:
    counted = Counter(life.deployment.name for life in LIVES)
    assert counted == {one.name: 20 // len(DEPLOYMENTS) for one in DEPLOYMENTS}


def test_every_event_happens_in_each_lab_or_in_some() -> None:
    for event in EVENTS:
        labs = [life for life in LIVES if event in [one for _, one in life.events]]
        assert len(labs) == len(LIVES) if not event.rare else 4 < len(labs) < len(LIVES), event


def test_most_events_happen_to_one_worker_alone_and_each_worker_has_its_turn() -> None:
    workers: Counter[str] = Counter()
    alone = 0
    for life in LIVES:
        counted = Counter(event.name for _, event in life.events)
        alone += sum(number == 1 for number in counted.values())
        workers.update(worker for worker, _ in life.events)
    assert alone > sum(len(life.events) for life in LIVES) / 2
    assert set(workers) == set(WORKERS)
    assert min(workers.values()) > max(workers.values()) / 2


def test_events_do_not_come_in_the_order_of_their_list() -> None:
    assert len({next(event.name for _, event in life.events) for life in LIVES}) > len(LIVES) / 2


def test_only_a_lab_in_which_all_happened_and_nothing_was_found_is_silent() -> None:
    life = LIVES[0]
    assert Outcome(life, statuses=[0, 0, 0]).silent
    assert not Outcome(life, statuses=[0, 0]).silent
    assert not Outcome(life, statuses=[0, 2, 0]).silent
    assert not Outcome(life, statuses=[0, 0, 0], failed=["worker1, a reboot: x"]).silent
    loud = Outcome(life, statuses=[0, 1, 1], findings=[{"rule": "fingerprint.file"}])
    assert not loud.silent
    first, *rest = loud.lines()
    assert first.startswith("NOT SILENT: life 1.0, all at once, ")
    assert rest == ['  finding: {"rule": "fingerprint.file"}']


def test_names_of_events_are_unique() -> None:
    assert len({event.name for event in EVENTS}) == len(EVENTS)


# --- what a life becomes, on a lab that only answers


ANSWERS = count()


@dataclass(frozen=True)
class Answering(Lab):
    """A lab without machines: every command succeeds, but for those with one word."""

    fails: str = "no such word"
    found: str = ""
    """Word of the check's command line; that check has a finding."""

    @override
    def command(
        self, *argv: str, timeout_s: float = 1800, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        line = " ".join(argv)
        failed = self.fails in line
        if check and failed:
            raise AssertionError(line)
        findings = [{"rule": "fingerprint.file"}] if self.found and self.found in line else []
        said = {"results": {"operations": []}, "findings": findings}
        # Each question about the boot is answered with a later boot.
        text = f"{next(ANSWERS)}\nrunning\n" if PID_1 in argv[-1] else json.dumps(said)
        return subprocess.CompletedProcess(argv, int(failed or bool(findings)), text, "")


def test_a_finding_of_one_check_is_kept_with_its_status() -> None:
    outcome = lived(Answering("none", found="--slow"), LIVES[1])
    assert (outcome.findings, outcome.statuses) == ([{"rule": "fingerprint.file"}], [0, 0, 1])
    assert not outcome.silent


def test_an_event_that_fails_is_named_and_the_life_goes_on() -> None:
    event = next(event for event in EVENTS if event.name == "all logs rotated")
    outcome = lived(Answering("none", fails=event.script), LIVES[1])
    times = [one for _, one in LIVES[1].events].count(event)
    assert [event.name in text for text in outcome.failed] == [True] * times
    assert (outcome.statuses, outcome.silent) == ([0, 0, 0], False)


def test_a_deploy_that_fails_ends_the_life() -> None:
    outcome = lived(Answering("none", fails="deploys/cluster.py"), LIVES[1])
    assert (len(outcome.failed), outcome.statuses, outcome.silent) == (1, [], False)
