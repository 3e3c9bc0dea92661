"""Validates the processors of a hardware class, and the CPUs that are reserved for the system."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.spec import names
from lockstep.spec.hardware import HardwareClass
from lockstep.spec.problem import Problem, Relation

MOST_CPUS = 8192
"""Linux, arch/x86/Kconfig: NR_CPUS_RANGE_END; on arm64 it is half of this."""


def too_many_cpus(name: str, hardware: HardwareClass) -> list[Problem]:
    """Return the problem of more CPUs than a machine can have."""
    if hardware.cpus <= MOST_CPUS:
        return []
    larger = hardware.sockets > hardware.cores_per_socket
    return [
        Problem(
            ("hardware", name, "sockets" if larger else "cores_per_socket"),
            f"{hardware.cpus:,} CPUs ({hardware.sockets:,} sockets x "
            f"{hardware.cores_per_socket:,} cores x {hardware.threads_per_core} threads)",
            f"at most {MOST_CPUS:,} CPUs, as Linux has",
        )
    ]


def processor_relations(hardware: HardwareClass) -> Iterable[Relation]:
    """Return the relations between the processors, the NUMA nodes and the CPUs of the system."""
    text, field = hardware.housekeeping_cpus, ("housekeeping_cpus",)
    chosen, every = names.cpus(text), frozenset(range(hardware.cpus))
    missing = chosen - every
    cores = {hardware.core_of(cpu) for cpu in chosen}
    split = {cpu for cpu in every - chosen if hardware.core_of(cpu) in cores}
    return (
        (
            hardware.cores % hardware.numa_nodes,
            ("numa_nodes",),
            str(hardware.numa_nodes),
            f"a divisor of the number of cores, {hardware.cores}",
        ),
        (
            missing,
            field,
            f"{text}: CPU {names.cpulist(missing)} does not exist",
            f"CPUs 0-{hardware.cpus - 1} ({hardware.sockets} sockets x "
            f"{hardware.cores_per_socket} cores x {hardware.threads_per_core} threads)",
        ),
        (
            chosen == every,
            field,
            f"{text}: all CPUs",
            "some of the CPUs; jobs need the others",
        ),
        (
            split and not missing,
            field,
            f"{text}: shares cores with CPU {names.cpulist(split)}",
            f"whole cores: {names.cpulist(chosen | split)}",
        ),
    )
