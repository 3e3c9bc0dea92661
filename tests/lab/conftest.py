"""A deployed cluster for all lab tests of a session; it is removed when the session ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.labs import Lab, deployed_lab

CLUSTER = "test-cluster"
PODS = "test-pods"
# Beyond the slowest of them, which boots emulated machines: only a test that hangs takes this long.
HANGS_AFTER_S = 2400


@pytest.hookimpl(tryfirst=True)  # before -m chooses by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow tests of machines more time; what uses the cluster is a lab test, marked or not.

    pytest calls this with the items of all folders, and other folders have fixtures of this name.
    """
    here = Path(__file__).parent
    for item in (item for item in items if here in item.path.parents):
        item.add_marker(pytest.mark.timeout(HANGS_AFTER_S))
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Lab]:
    """One head and two workers, freshly deployed."""
    lab = Lab(os.environ.get("LOCKSTEP_TEST_LAB", CLUSTER))
    kept = lab.name != CLUSTER  # a developer's own lab stays as it is
    try:
        boot(lab, anew=not kept)
        yield lab
    finally:
        if not kept:
            lab.lab("down")


@pytest.fixture(scope="session")
def pods() -> Iterator[Lab]:
    """One head and two workers with Kubernetes, freshly deployed."""
    up = ("--workers", "2", "--kubernetes", "1.34")
    with deployed_lab(PODS, *up, variable="LOCKSTEP_TEST_LAB_PODS") as lab:
        yield lab


@pytest.fixture(scope="module")
def booted_anew_afterwards(cluster: Lab) -> Iterator[None]:
    """For tests that leave packages or units behind, which later tests would find."""
    yield
    if cluster.name == CLUSTER:
        boot(cluster, anew=True)


def boot(lab: Lab, *, anew: bool) -> None:
    """Boot one head and two workers, and deploy them."""
    if anew:
        lab.lab("down")
    lab.lab("up", "--workers", "2")
    done = lab.deploy()
    assert done.status == 0, done.errors
