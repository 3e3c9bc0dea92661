"""A sample of the changes of tests/lab/changes: with two workers, the past says which is right."""

from __future__ import annotations

from pathlib import Path

from tests.lab.changes.catalogue import sample
from tests.lab.changes.trial import Trial
from tests.lab.labs import Lab

TOGETHER = 4
"""Changes of different domains that are made on each worker at once: 27 changes in four rounds."""


def test_a_change_of_each_domain_is_found_and_gone_after_its_undo(
    cluster: Lab, tmp_path: Path
) -> None:
    trial = Trial(cluster, tmp_path / "records")
    outcomes = list(trial.outcomes(sample(), TOGETHER))
    assert [str(outcome) for outcome in outcomes if not outcome.is_good] == []
    assert len(outcomes) == len(sample())
