"""Packages, pins and units of a node, from its role and the services it runs."""

from __future__ import annotations

from lockstep.catalog.os import Release
from lockstep.spec import Cluster, HardwareClass, Node, Role, Service

ALWAYS = (
    *("packages", "os_settings", "kernel", "cpu_sets", "hugepages", "boot_loader"),
    *("time_sync", "node_exporter"),
)

UNITS = {
    "time_sync": ("chrony.service",),
    "munge": ("munge.service",),
    "node_exporter": ("prometheus-node-exporter.service",),
    "prometheus": ("prometheus.service",),
    "slurm_accounting": ("mariadb.service", "slurmdbd.service"),
    "slurm_controller": ("slurmctld.service",),
    "slurm_worker": ("slurmd.service",),
}

BALANCER = "irqbalance.service"
"""It moves interrupts to any CPU (irqbalance(1)); ours stay on the housekeeping CPUs."""


def masked_units(cluster: Cluster, release: Release, hardware: HardwareClass) -> tuple[str, ...]:
    """Return the units that must never start on a machine of a class."""
    units = () if cluster.os.automatic_upgrades else release.upgrade_timers
    return (*units, BALANCER) if hardware.housekeeping_cpus else units


def capabilities(cluster: Cluster, release: Release, node: Node) -> tuple[str, ...]:
    """Return what the node does, by the names of the roles that set it up, in deploy order.

    What its system cannot get yet is left out; ``validate`` refuses a description that asks for it.
    """
    chosen = list(ALWAYS)
    if node.role is Role.WORKER and cluster.hardware[node.hardware].nics.rdma != "none":
        chosen.append("rdma")
    if node.role is Role.WORKER and node.fabric:
        chosen.append("fabric")
    if cluster.scheduler is not None:
        chosen.append("munge")
    chosen += [service.value for service in Service if service in node.runs]
    if cluster.scheduler is not None and node.role is Role.WORKER:
        chosen.append("slurm_worker")
    return tuple(name for name in chosen if release.can(name))


def packages(release: Release, done: tuple[str, ...], locale: str) -> tuple[str, ...]:
    """Return the packages behind these capabilities, sorted."""
    if "packages" not in done:
        return ()
    names = {name for capability in done for name in release.packages.get(capability, ())}
    # glibc has C.UTF-8 built in; any other locale is made by locale-gen.
    return tuple(sorted(names | (set() if locale.startswith("C.") else set(release.locales))))


def units(done: tuple[str, ...]) -> tuple[str, ...]:
    """Return the units that must be enabled and running."""
    return tuple(unit for capability in done for unit in UNITS.get(capability, ()))


def every_package(release: Release) -> tuple[str, ...]:
    """Return every package that any node of a cluster may get, sorted."""
    return release.every_package
