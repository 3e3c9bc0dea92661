"""All changes of tests/lab/changes, on three workers of which two are as before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.changes.catalogue import chosen, sample
from tests.lab.changes.repairing import Repairing, install_tools
from tests.lab.changes.trial import Trial
from tests.lab.labs import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]
OWN = "test-changes"
BOUND = frozenset({"swap"})
"""Domains whose command cannot run in the lab: its swap area is a line in a file that is bound over
/proc/swaps."""


@pytest.fixture(scope="module")
def three_workers() -> Iterator[Lab]:
    lab = Lab(os.environ.get("LOCKSTEP_TEST_LAB", OWN))
    if lab.name != OWN:  # a developer's own lab stays as it is
        yield lab
        return
    with lab.booted(workers=3):
        deployed = lab.deploy()
        assert deployed.status == 0, deployed.errors
        yield lab


def test_every_change_is_found_and_gone_after_its_undo(three_workers: Lab, tmp_path: Path) -> None:
    trial = Trial(three_workers, tmp_path / "records")
    assert len(trial.nodes) == 3
    outcomes = list(trial.outcomes(chosen()))
    assert [str(outcome) for outcome in outcomes if not outcome.is_good] == []
    assert len(outcomes) == len(chosen())


def test_the_named_repair_of_a_change_of_each_domain_repairs_it(
    three_workers: Lab, tmp_path: Path
) -> None:
    install_tools(three_workers)
    repairing = Repairing(Trial(three_workers, tmp_path / "records"))
    changes = [change for change in sample() if change.domain not in BOUND]
    attempts = list(repairing.attempts(changes))
    assert [str(attempt) for attempt in attempts if not attempt.is_good] == []
    assert len(attempts) == len(changes)
    assert {attempt.how for attempt in attempts} >= {"command", "deploy"}
