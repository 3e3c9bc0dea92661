"""Validates the fields of one hardware class against each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from lockstep.catalog import gpus
from lockstep.spec import names
from lockstep.spec.hardware import Gpu, HardwareClass, Nics
from lockstep.spec.problem import Problem
from lockstep.spec.validate_gpus import gpu_problems

PLANNED_ARGS = {
    "isolcpus": "kernel.isolation",
    "nohz_full": "kernel.isolation",
    "rcu_nocbs": "housekeeping_cpus",
    "irqaffinity": "housekeeping_cpus",
    "hugepages": "hugepages",
    "hugepagesz": "hugepages",
    "default_hugepagesz": "hugepages",
    "transparent_hugepage": "kernel.transparent_hugepages",
    "cpufreq.default_governor": "kernel.cpu_governor",
    "processor.max_cstate": "kernel.max_cstate",
    "intel_idle.max_cstate": "kernel.max_cstate",
}
"""Kernel argument -> the field that sets it; it must not be set in two places."""


def hardware_problems(name: str, hardware: HardwareClass) -> Iterator[Problem]:
    """Yield the problems of one hardware class."""
    path = ("hardware", name)
    yield from _housekeeping(path, hardware)
    yield from _hugepages(path, hardware)
    if hardware.sockets * hardware.cores_per_socket % hardware.numa_nodes:
        yield Problem(
            (*path, "numa_nodes"),
            str(hardware.numa_nodes),
            f"a divisor of the {hardware.sockets * hardware.cores_per_socket} cores",
        )
    if hardware.gpu is not None:
        yield from _gpu((*path, "gpu"), hardware, hardware.gpu)
    yield from _kernel(path, hardware)
    yield from _nics((*path, "nics"), hardware.nics)
    for number, argument in enumerate(hardware.kernel_args):
        if not re.fullmatch(r"[A-Za-z0-9_.,:;=/@+-]+", argument):
            yield Problem(
                (*path, "kernel_args", number), repr(argument), "one kernel argument, no spaces"
            )


def _housekeeping(path: tuple[str, ...], hardware: HardwareClass) -> Iterator[Problem]:
    chosen = names.cpus(hardware.housekeeping_cpus)
    missing = sorted(cpu for cpu in chosen if cpu >= hardware.cpus)
    if missing:
        yield Problem(
            (*path, "housekeeping_cpus"),
            f"{hardware.housekeeping_cpus}: CPU {names.cpulist(missing)} does not exist",
            f"CPUs 0-{hardware.cpus - 1} ({hardware.sockets} sockets x "
            f"{hardware.cores_per_socket} cores x {hardware.threads_per_core} threads)",
        )
        return
    if len(chosen) == hardware.cpus:
        yield Problem(
            (*path, "housekeeping_cpus"),
            f"{hardware.housekeeping_cpus}: all CPUs",
            "some of the CPUs; jobs need the others",
        )
    split = sorted(
        sibling for cpu in chosen for sibling in siblings(hardware, cpu) if sibling not in chosen
    )
    if split:
        yield Problem(
            (*path, "housekeeping_cpus"),
            f"{hardware.housekeeping_cpus}: shares cores with CPU {names.cpulist(split)}",
            f"whole cores: {names.cpulist(chosen | set(split))}",
        )


def siblings(hardware: HardwareClass, cpu: int) -> tuple[int, ...]:
    """Return the Linux CPU numbers of all threads of the core that ``cpu`` belongs to."""
    threads, cores = hardware.threads_per_core, hardware.cpus // hardware.threads_per_core
    if hardware.cpu_numbering == "threads_last":
        return tuple(cpu % cores + thread * cores for thread in range(threads))
    return tuple(cpu // threads * threads + thread for thread in range(threads))


def _hugepages(path: tuple[str, ...], hardware: HardwareClass) -> Iterator[Problem]:
    memory_mib = hardware.memory_mib // hardware.numa_nodes
    taken: Counter[int] = Counter()
    for index, pages in enumerate(hardware.hugepages):
        here: tuple[str | int, ...] = (*path, "hugepages", index)
        if pages.numa_node >= hardware.numa_nodes:
            yield Problem(
                (*here, "numa_node"), str(pages.numa_node), f"0 to {hardware.numa_nodes - 1}"
            )
            continue
        taken[pages.numa_node] += pages.mib
        if taken[pages.numa_node] >= memory_mib:
            yield Problem(
                (*here, "count"),
                f"{pages.count} pages of {pages.size}: {taken[pages.numa_node]} MiB of huge pages "
                f"on NUMA node {pages.numa_node}",
                f"less than the NUMA node's memory, {memory_mib} MiB",
            )


def _kernel(path: tuple[str, ...], hardware: HardwareClass) -> Iterator[Problem]:
    kernel = hardware.kernel
    if hardware.boot_loader == "none" and (
        hardware.kernel_args or hardware.hugepages or kernel != type(kernel)()
    ):
        yield Problem(
            (*path, "boot_loader"),
            "none",
            '"grub": kernel, kernel_args and hugepages need a machine that boots its own kernel',
        )
    if kernel.isolation and not hardware.housekeeping_cpus:
        yield Problem(
            (*path, "kernel", "isolation"),
            ", ".join(kernel.isolation),
            "housekeeping_cpus: the CPUs for everything except jobs",
        )
    if "nohz_full" in kernel.isolation and 0 not in names.cpus(hardware.housekeeping_cpus):
        yield Problem(
            (*path, "kernel", "isolation"),
            f"nohz_full without CPU 0 in housekeeping_cpus {hardware.housekeeping_cpus}",
            "CPU 0 in housekeeping_cpus: the kernel needs its tick for timekeeping",
        )
    for number, argument in enumerate(hardware.kernel_args):
        key, _, value = argument.partition("=")
        declared = {
            "iommu": kernel.iommu is not None,
            "numa_balancing": kernel.numa_balancing is not None,
            "pci": bool(kernel.disable_acs_redir) and value.startswith("disable_acs_redir"),
        }
        if key in PLANNED_ARGS:
            yield Problem(
                (*path, "kernel_args", number), argument, f"the field {PLANNED_ARGS[key]}"
            )
        elif declared.get(key):
            yield Problem((*path, "kernel_args", number), argument, "set it with the field kernel")


def _nics(path: tuple[str, ...], nics: Nics) -> Iterator[Problem]:
    if nics.rdma != "none" and not nics.count:
        yield Problem((*path, "rdma"), nics.rdma, "a count: the number of RDMA interfaces")
    for field, text in (("rdma_devices", nics.rdma_devices), ("interfaces", nics.interfaces)):
        named = names.expand(text) if text else ()
        if named and len(named) != nics.count:
            yield Problem(
                (*path, field),
                f"{text}: {len(named)} names",
                f"{nics.count} names, as in nics.count",
            )
    if nics.rdma_devices and nics.rdma == "none":
        yield Problem((*path, "rdma_devices"), nics.rdma_devices, "rdma: infiniband or roce")


def _gpu(path: tuple[str | int, ...], hardware: HardwareClass, gpu: Gpu) -> Iterator[Problem]:
    if gpu.model not in gpus.known():
        yield Problem((*path, "model"), gpu.model, "one of " + ", ".join(gpus.known()))
    else:
        yield from gpu_problems(path, gpu, gpus.load(gpu.model))
    if gpu.devices:
        listed = names.expand(gpu.devices)
        if len(listed) != gpu.count:
            yield Problem(
                (*path, "devices"),
                f"{gpu.devices}: {len(listed)} devices",
                f"{gpu.count} devices, as in gpu.count",
            )
    if gpu.numa:
        slots = Counter(slot for text in gpu.numa.values() for slot in names.cpus(text))
        if set(slots) != set(range(gpu.count)) or max(slots.values()) > 1:
            yield Problem(
                (*path, "numa"), str(gpu.numa), f"each GPU 0 to {gpu.count - 1} on one NUMA node"
            )
        for node in gpu.numa:
            if node >= hardware.numa_nodes:
                yield Problem(
                    (*path, "numa", node), str(node), f"NUMA node 0 to {hardware.numa_nodes - 1}"
                )
