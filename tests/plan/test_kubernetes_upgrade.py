"""Which upgrades of Kubernetes are refused, and kubeadm's configuration of the others."""

from __future__ import annotations

import json

import pytest

from lockstep.plan.kubernetes_upgrade import configuration, objection
from tests.plan.test_virtual_address import planned, three_heads


@pytest.mark.parametrize(
    ("running", "wanted"),
    [("v1.33.13", "1.34.4"), ("v1.34.1", "1.34.4"), ("v1.34.4", "1.34.4"), ("v1.34.4-x", "1.34.4")],
)
def test_one_minor_release_or_less_is_allowed(running: str, wanted: str) -> None:
    assert objection(running, wanted) == ""


def test_a_skipped_minor_release_is_refused_with_the_next_step() -> None:
    assert objection("v1.32.7", "1.34.4") == (
        "the API server runs 1.32.7, and scheduler.version is 1.34.4: that skips a minor release. "
        "Next: set scheduler.version to a version of 1.33, run deploys/upgrade.py, and then repeat "
        "it with 1.34.4"
    )


@pytest.mark.parametrize("running", ["v1.35.0", "v1.34.10"])
def test_nothing_is_downgraded(running: str) -> None:
    assert "cannot be downgraded" in objection(running, "1.34.4")


def test_kubeadm_waits_no_longer_than_its_limits() -> None:
    found = json.loads(configuration(planned(three_heads()).nodes["head1"]))
    assert found["kind"] == "UpgradeConfiguration"
    assert found["apply"]["kubernetesVersion"] == "v1.34.4"
    assert found["timeouts"]["upgradeManifests"] == "180s"
