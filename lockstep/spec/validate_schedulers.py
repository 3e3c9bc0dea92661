"""Validates which nodes run the schedulers' services, and which scheduler each worker has."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from lockstep.catalog import os as operating_systems
from lockstep.report import alike, fold
from lockstep.spec import names
from lockstep.spec.model import Cluster, NodeRole, Service
from lockstep.spec.problem import Problem, violated

OF_SLURM = (Service.SLURM_CONTROLLER, Service.SLURM_ACCOUNTING)
SINGLE = (
    (Service.SLURM_CONTROLLER, "one controller (a second one would need shared state)"),
    (Service.SLURM_ACCOUNTING, "one accounting database"),
    (Service.PROMETHEUS, "one Prometheus"),
)
"""Service of which a cluster has one at most -> what is allowed."""


def scheduler_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find services on too many nodes or on none, and workers without a scheduler."""
    yield from _services(cluster)
    yield from _kinds(cluster)
    yield from _workers(cluster)
    yield from _running(cluster)


def _services(cluster: Cluster) -> Iterator[Problem]:
    for service, allowed in SINGLE:
        first, *others = [
            (name, index)
            for index, group in enumerate(cluster.nodes)
            if group.role is NodeRole.HEAD and service in group.runs
            for name in names.expand(group.name)
        ] or [("", 0)]
        for index, further in alike(others, itemgetter(1)).items():
            more = fold(name for name, _ in further)
            yield Problem(
                ("nodes", index, "runs"),
                f"{service.value} on {first[0]} and {more}",
                allowed,
                node=more,
            )


def _kinds(cluster: Cluster) -> Iterator[Problem]:
    seen: list[str] = []
    for index, one in enumerate(cluster.schedulers):
        if one.kind in seen:
            yield Problem(
                ("scheduler", index, "kind"), one.kind, "each scheduler once: slurm, kubernetes"
            )
        seen.append(one.kind)
    if cluster.scheduler == ():
        yield Problem(("scheduler",), "an empty list", "at least one scheduler, or None")


def _workers(cluster: Cluster) -> Iterator[Problem]:
    kinds = [one.kind for one in cluster.schedulers]
    for index, group in enumerate(cluster.nodes):
        here, is_worker = ("nodes", index), group.role is NodeRole.WORKER
        yield from violated(
            here,
            (
                group.scheduler and not is_worker,
                ("scheduler",),
                str(group.scheduler),
                "leave it out: a head belongs to the schedulers whose services it runs",
            ),
            (
                is_worker and group.scheduler and group.scheduler not in kinds,
                ("scheduler",),
                str(group.scheduler),
                f"one of the cluster's schedulers: {', '.join(kinds) or 'there are none'}",
            ),
            (
                is_worker and len(set(kinds)) > 1 and group.scheduler is None,
                ("scheduler",),
                "nothing",
                f"{' or '.join(kinds)}: a worker belongs to one scheduler",
            ),
            node=group.name,
        )
    found = (
        (group.name, operating_systems.find(cluster.release_of(group)))
        for group in cluster.nodes
        if group.role is NodeRole.WORKER
    )
    able = [name for name, release in found if not release or release.supports("slurm_worker")]
    if able and not kinds:
        yield Problem(
            ("scheduler",),
            "no scheduler",
            '{"kind": "slurm"}: nodes with role worker need a scheduler',
            node=able[0],
        )


def _running(cluster: Cluster) -> Iterator[Problem]:
    """Find schedulers whose services no node runs, and services without their scheduler."""
    needed = {
        "slurm": OF_SLURM,
        "kubernetes": (Service.KUBERNETES_CONTROL_PLANE,),
    }
    kinds = [one.kind for one in cluster.schedulers]
    for kind, services in needed.items():
        for service in services:
            running = [index for index, group in enumerate(cluster.nodes) if service in group.runs]
            if kind in kinds and not running:
                yield Problem(
                    ("nodes",),
                    f"no node runs {service.value}",
                    f'runs: ["{service.value}"] on a head node',
                )
            if kind not in kinds and running:
                yield Problem(
                    ("nodes", running[0], "runs"),
                    service.value,
                    f'set scheduler to {{"kind": "{kind}"}}, which this service needs',
                    node=names.expand(cluster.nodes[running[0]].name)[0],
                )
