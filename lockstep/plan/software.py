"""Packages, pins and units of a node, from its role and the services it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lockstep.catalog.os import Release
from lockstep.plan import job_containers, nvidia
from lockstep.spec import Cluster, HardwareClass, Node, Role, Service
from lockstep.spec.hardware import Gpu

ALWAYS = (
    *("packages", "os_settings", "kernel", "cpu_sets", "hugepages", "boot_loader"),
    *("time_sync", "node_exporter"),
)

NODE_CHECK_TIMER = "lockstep-node-check.timer"

UNITS = {
    "nvidia_driver": (nvidia.PERSISTENCED,),
    "nvidia_fabric_manager": (nvidia.FABRIC_MANAGER,),
    "nvidia_imex": (nvidia.IMEX,),
    "dcgm": (nvidia.DCGM,),
    "dcgm_exporter": (nvidia.DCGM_EXPORTER,),
    "gpu_settings": (nvidia.GPU_SETTINGS,),
    "time_sync": ("chrony.service",),
    "munge": ("munge.service",),
    "node_exporter": ("prometheus-node-exporter.service",),
    "prometheus": ("prometheus.service",),
    "slurm_accounting": ("mariadb.service", "slurmdbd.service"),
    "slurm_controller": ("slurmctld.service",),
    "slurm_worker": ("slurmd.service",),
    "node_check": (NODE_CHECK_TIMER,),
}

ENGINE_UNITS = {
    "containerd": ("containerd.service",),
    # Debian's Docker starts its containers by containerd.
    "docker": ("containerd.service", "docker.service"),
}
"""Podman has no daemon."""

JOB_PARENTS = {"slurm_worker": ("slurmd.service",), **ENGINE_UNITS}
"""Role or engine -> services whose children do the jobs' work."""


def _engines(cluster: Cluster, done: tuple[str, ...]) -> tuple[str, ...]:
    return cluster.software.containers.engines if "container_runtime" in done else ()


def job_parents(cluster: Cluster, done: tuple[str, ...]) -> tuple[str, ...]:
    """Return the services of a node that reach the jobs' CPUs, because jobs begin in them."""
    names = (*done, *_engines(cluster, done))
    return tuple(dict.fromkeys(unit for name in names for unit in JOB_PARENTS.get(name, ())))


BALANCER = "irqbalance.service"
"""It moves interrupts to any CPU (irqbalance(1)); ours stay on the housekeeping CPUs."""


def masked_units(cluster: Cluster, release: Release, hardware: HardwareClass) -> tuple[str, ...]:
    """Return the units that must never start on a machine of a class."""
    units = () if cluster.os.automatic_upgrades else release.upgrade_timers
    return (*units, BALANCER) if hardware.housekeeping_cpus else units


GPU_ROLES = {
    "driver": "nvidia_driver",
    "cuda_runtime": "cuda",
    "cuda_toolkit": "cuda",
    "fabric_manager": "nvidia_fabric_manager",
    "imex": "nvidia_imex",
    "dcgm": "dcgm",
    "dcgm_exporter": "dcgm_exporter",
}
"""Part of the NVIDIA stack -> the role that sets it up, in deploy order."""

STACK_ROLES = {
    **GPU_ROLES,
    "modules_open": "nvidia_driver",
    "modules_proprietary": "nvidia_driver",
    "nscq": "nvidia_fabric_manager",
    "container_toolkit": "container_runtime",
}
"""Part of the NVIDIA stack -> the role that works with it."""


def gpu_capabilities(
    cluster: Cluster, hardware: HardwareClass, stack: nvidia.NvidiaPlan | None
) -> Iterator[str]:
    """Yield what a node with GPUs does for them."""
    if stack is not None:
        yield from dict.fromkeys(role for part, role in GPU_ROLES.items() if stack.has(part))
    if hardware.gpu is not None:
        yield "gpu_settings"
    if cluster.software.containers.engines:
        yield "container_runtime"


def capabilities(
    cluster: Cluster, release: Release, node: Node, stack: nvidia.NvidiaPlan | None
) -> tuple[str, ...]:
    """Return what the node does, by the names of the roles that set it up, in deploy order.

    What its system cannot get yet is left out; ``validate`` refuses a description that asks for it.
    """
    chosen = list(ALWAYS)
    if node.role is Role.WORKER:
        chosen += gpu_capabilities(cluster, cluster.hardware[node.hardware], stack)
        # Where Slurm does not load pyxis, that role has the node check take the node out.
        chosen.append("node_check")
    chosen += job_containers.plan(cluster, release, node).capabilities
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


def packages_by_role(
    cluster: Cluster,
    release: Release,
    node: Node,
    done: tuple[str, ...],
    stack: nvidia.NvidiaPlan | None,
) -> dict[str, set[str]]:
    """Return role -> packages that it needs; what only has to be there is ``packages``' own."""
    needed = {role: set(release.packages.get(role, ())) for role in done}

    def add(role: str | None, names: Iterable[str]) -> None:
        needed.setdefault(role if role in done else "packages", set()).update(names)

    if stack is not None:
        for part, names in stack.packages_of.items():
            add(STACK_ROLES.get(part), names)
    gpu = cluster.hardware[node.hardware].gpu
    if gpu is not None and gpu.mig and "slurm_worker" in done:
        add("slurm_worker", release.slurm_mig)
    for part, versions in job_containers.plan(cluster, release, node).packages_of.items():
        add(part, versions)
    for engine in _engines(cluster, done):
        add("container_runtime", release.engines[engine])
    # glibc has C.UTF-8 built in; any other locale is made by locale-gen.
    if not cluster.os.locale.startswith("C."):
        add("os_settings", release.locales)
    return needed


def packages(
    cluster: Cluster,
    release: Release,
    node: Node,
    done: tuple[str, ...],
    stack: nvidia.NvidiaPlan | None,
) -> tuple[str, ...]:
    """Return the packages behind these capabilities, sorted."""
    if "packages" not in done:
        return ()
    needed = packages_by_role(cluster, release, node, done, stack)
    return tuple(sorted(set[str]().union(*needed.values())))


def units_by_role(cluster: Cluster, done: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return role -> units that it runs."""
    engines = [unit for engine in _engines(cluster, done) for unit in ENGINE_UNITS.get(engine, ())]
    return {role: UNITS[role] for role in done if role in UNITS} | {
        "container_runtime": tuple(engines)
    }


def units(cluster: Cluster, done: tuple[str, ...], gpu: Gpu | None) -> tuple[str, ...]:
    """Return the units that must be enabled and running."""
    chosen = [unit for units in units_by_role(cluster, done).values() for unit in units]
    if gpu is not None and not gpu.persistence:
        chosen = [unit for unit in chosen if unit != nvidia.PERSISTENCED]
    return tuple(dict.fromkeys(chosen))


def every_package(release: Release) -> tuple[str, ...]:
    """Return every package that any node of a cluster may get, sorted."""
    return release.every_package
