"""A deployed cluster for all lab tests of a session; gone when the session ends."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.lab.labs import Lab

CLUSTER = "test-cluster"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Lab]:
    """One head and two workers, freshly deployed."""
    lab = Lab(os.environ.get("LOCKSTEP_TEST_LAB", CLUSTER))
    kept = lab.name != CLUSTER  # a developer's own lab stays as it is
    if not kept:
        lab.lab("down")
    lab.lab("up", "--workers", "2")
    try:
        deployed = lab.deploy()
        assert deployed.status == 0, deployed.errors
        yield lab
    finally:
        if not kept:
            lab.lab("down")
