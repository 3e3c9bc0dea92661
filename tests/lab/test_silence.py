"""Two lives of labs after which a check finds nothing; tests/lab/silence has the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.labs import Lab
from tests.lab.silence.deployments import WORKERS
from tests.lab.silence.life import drawn
from tests.lab.silence.trial import lived

pytestmark = [pytest.mark.lab, pytest.mark.slow]
SEED, NUMBERS = 1, (0, 1)
"""All deployed at once, and one worker later than the other."""


@pytest.fixture
def lab() -> Iterator[Lab]:
    one = Lab("test-silence")
    with one.booted(len(WORKERS)):
        yield one


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lab_that_lived_has_no_finding(lab: Lab, number: int) -> None:
    outcome = lived(lab, drawn(SEED, number))
    assert outcome.silent, "\n".join(outcome.lines())
