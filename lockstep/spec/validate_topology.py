"""Validates the leaf switches of the fabric, from which Slurm's topology/tree follows."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.spec.model import Cluster, NodeRole
from lockstep.spec.problem import Problem, violated

ROOT = "spine"
"""Name of the switch above all leaf switches in Slurm's topology."""


def topology_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find leaf switches that Slurm could not use."""
    for index, group in enumerate(cluster.nodes):
        yield from violated(
            ("nodes", index),
            (
                group.leaf_switch and group.role is not NodeRole.WORKER,
                ("leaf_switch",),
                str(group.leaf_switch),
                "leave it out: only workers run jobs",
            ),
            (
                group.leaf_switch == ROOT,
                ("leaf_switch",),
                ROOT,
                "another name: Slurm's topology has this one above all leaf switches",
            ),
            node=group.name,
        )
