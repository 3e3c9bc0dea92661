"""Packages, pins and units of a node, from its role and the services it runs."""

from __future__ import annotations

from lockstep.catalog.os import Release
from lockstep.spec import Cluster, Node, Role, Service

ALWAYS = ("packages", "os_settings", "cpu_sets", "hugepages", "time_sync", "node_exporter")

UNITS = {
    "time_sync": ("chrony.service",),
    "munge": ("munge.service",),
    "node_exporter": ("prometheus-node-exporter.service",),
    "prometheus": ("prometheus.service",),
    "slurm_accounting": ("mariadb.service", "slurmdbd.service"),
    "slurm_controller": ("slurmctld.service",),
    "slurm_worker": ("slurmd.service",),
}

MASKED_UNITS = ("apt-daily-upgrade.timer", "apt-daily.timer")
"""Debian's own upgrade timers: an upgrade nobody asked for breaks the version lock."""


def capabilities(cluster: Cluster, node: Node) -> tuple[str, ...]:
    """Return what the node does, by the names of the roles that set it up, in deploy order."""
    chosen = list(ALWAYS)
    if cluster.scheduler is not None:
        chosen.append("munge")
    chosen += [service.value for service in Service if service in node.runs]
    if cluster.scheduler is not None and node.role is Role.WORKER:
        chosen.append("slurm_worker")
    return tuple(chosen)


def packages(release: Release, done: tuple[str, ...], locale: str) -> tuple[str, ...]:
    """Return the packages behind these capabilities, sorted."""
    names = {name for capability in done for name in release.packages.get(capability, ())}
    # glibc has C.UTF-8 built in; any other locale is made by locale-gen.
    return tuple(sorted(names | (set() if locale.startswith("C.") else set(release.locales))))


def units(done: tuple[str, ...]) -> tuple[str, ...]:
    """Return the units that must be enabled and running."""
    return tuple(unit for capability in done for unit in UNITS.get(capability, ()))


def every_package(release: Release) -> tuple[str, ...]:
    """Return every package that any node of a cluster may get, sorted."""
    return release.every_package
