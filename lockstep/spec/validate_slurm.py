"""Validates that the nodes' Slurm daemons understand each other."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.catalog import os as operating_systems
from lockstep.catalog import slurm
from lockstep.catalog.os import Release
from lockstep.spec.model import Cluster, NodeGroup, NodeRole, Service
from lockstep.spec.problem import Problem

DAEMONS = {
    Service.SLURM_ACCOUNTING: "slurmdbd",
    Service.SLURM_CONTROLLER: "slurmctld",
}


def slurm_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find nodes whose Slurm is newer, or much older, than the one that they talk to.

    slurmctld talks to slurmdbd, and slurmd talks to slurmctld.
    """
    if cluster.slurm is None:
        return
    of_service = {
        service: (index, group)
        for index, group in enumerate(cluster.nodes)
        if group.role is NodeRole.HEAD
        for service in DAEMONS
        if service in group.runs
    }
    database, controller = map(of_service.get, DAEMONS)
    if controller is None:
        return
    if database is not None:
        yield from _too_far(
            cluster, *controller, "slurmctld", database[1], DAEMONS[Service.SLURM_ACCOUNTING]
        )
    for index, group in enumerate(cluster.nodes):
        if cluster.scheduler_of(group) == "slurm":
            yield from _too_far(cluster, index, group, "slurmd", controller[1], "slurmctld")


def series_of(cluster: Cluster, release: str, daemon: str) -> slurm.Series | None:
    """Return the Slurm series of a daemon on nodes with a release; None if it is not known.

    A locked version of the daemon decides, or that of another daemon, because they come from one
    source package; without a lock, the archive of the release.
    """
    locked = cluster.software.locked_on(release)
    versions = (
        locked[name]
        for one in (daemon, "slurmd", *DAEMONS.values())
        for name in (one, f"slurm-{one}")  # the names in Debian and in EPEL
        if name in locked
    )
    found = operating_systems.find(release)
    version = next(versions, None)
    if version is not None:
        return slurm.of_version(version)
    return found.slurm if found else None


def series_on(cluster: Cluster, release: Release) -> slurm.Series:
    """Return the series of slurmd on nodes with a release: of a locked version, or the archive's.

    A locked version may also be the site's own build, on every release.
    """
    return series_of(cluster, release.name, "slurmd") or release.slurm


def _too_far(
    cluster: Cluster, index: int, group: NodeGroup, daemon: str, head: NodeGroup, other: str
) -> Iterator[Problem]:
    release, of_head = cluster.release_of(group), cluster.release_of(head)
    own, newer = series_of(cluster, release, daemon), series_of(cluster, of_head, other)
    accepted = slurm.accepted_by(newer) if newer else ()
    if own is None or newer is None or not accepted or own in accepted:
        return
    one_of = ", ".join(map(slurm.text, accepted))
    yield Problem(
        ("nodes", index, "release"),
        f"{daemon} {slurm.text(own)} on {release}",
        f"Slurm {one_of}: what {other} {slurm.text(newer)} on {of_head} ({head.name}) accepts; "
        f"lock such a version in software.versions_on, or choose another release",
        group.name,
    )
