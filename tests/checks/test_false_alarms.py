"""Healthy clusters of many kinds have no findings."""

from __future__ import annotations

import pytest

from lockstep.checks.context import Context
from tests.checks import healthy, recorded

CLUSTERS = 200


def found(cluster: Context) -> list[tuple[str, ...]]:
    report = recorded.report(cluster)
    return [(f.rule, f.node, f.device, f.found, f.expected) for f in report]


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_a_healthy_cluster_has_no_finding(seed: int) -> None:
    assert found(healthy.clustered(seed)) == []


@pytest.mark.parametrize("seed", range(0, CLUSTERS, 20))
def test_one_value_of_it_that_is_wrong_is_found(seed: int) -> None:
    cluster = healthy.clustered(seed)
    node = list(cluster.plan.nodes)[-1]
    wrong = recorded.mutated(cluster, node, "os.locale", (), "POSIX")
    assert found(wrong) == [("os.locale", node, "", "POSIX", "C.UTF-8")]
