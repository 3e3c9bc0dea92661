"""CPU sets in the numbers of Linux and of Slurm, for both ways of numbering threads."""

import itertools
from collections.abc import Iterator

import pytest

from lockstep.plan import cpu
from lockstep.spec import HardwareClass
from lockstep.spec.names import cpus
from tests.plan.example import machine


def test_two_sockets_threads_last() -> None:
    assert cpu.plan(machine(housekeeping_cpus="0,8,16,24")) == cpu.CpuPlan(
        all="0-31",
        housekeeping="0,8,16,24",
        workload="1-7,9-15,17-23,25-31",
        numa=("0-7,16-23", "8-15,24-31"),
        # Core 0 has Slurm's CPUs 0 and 1, core 8 (the second socket's first) 16 and 17.
        slurm_cpu_spec_list="0-1,16-17",
        slurm_numa_cores=("0-7", "8-15"),
    )


def test_two_sockets_threads_adjacent() -> None:
    hardware = machine(cpu_numbering="threads_adjacent", housekeeping_cpus="0-1,16-17")
    assert cpu.plan(hardware) == cpu.CpuPlan(
        all="0-31",
        housekeeping="0-1,16-17",
        workload="2-15,18-31",
        numa=("0-15", "16-31"),
        slurm_cpu_spec_list="0-1,16-17",
        slurm_numa_cores=("0-7", "8-15"),
    )


def test_one_socket_without_threads_or_housekeeping() -> None:
    hardware = machine(sockets=1, threads_per_core=1, numa_nodes=1)
    assert cpu.plan(hardware) == cpu.CpuPlan(
        all="0-7",
        housekeeping="",
        workload="0-7",
        numa=("0-7",),
        slurm_cpu_spec_list="",
        slurm_numa_cores=("0-7",),
    )


def test_one_socket_of_four_numa_nodes() -> None:
    planned = cpu.plan(machine(sockets=1, numa_nodes=4))
    assert planned.numa == ("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15")
    assert planned.slurm_numa_cores == ("0-1", "2-3", "4-5", "6-7")


def test_the_production_worker() -> None:  # 2 x 56 cores x 2 threads
    hardware = machine(cores_per_socket=56, housekeeping_cpus="0-1,56-57,112-113,168-169")
    planned = cpu.plan(hardware)
    assert planned.slurm_cpu_spec_list == "0-3,112-115"
    assert planned.numa == ("0-55,112-167", "56-111,168-223")


def siblings(hardware: HardwareClass, number: int) -> list[int]:
    """Return the threads of the core of a CPU, counted in another way than ``core_of``."""
    step = hardware.cores if hardware.cpu_numbering == "threads_last" else 1
    first = number % step if step > 1 else number - number % hardware.threads_per_core
    return [first + thread * step for thread in range(hardware.threads_per_core)]


def machines() -> Iterator[HardwareClass]:
    shapes = itertools.product((1, 2), (4, 6), (1, 2, 4), ("threads_last", "threads_adjacent"))
    for sockets, cores, threads, numbering in shapes:
        hardware = machine(
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=threads,
            numa_nodes=sockets * 2,
            cpu_numbering=numbering,
        )
        first_core = ",".join(map(str, siblings(hardware, 0)))
        for housekeeping in ("", first_core):
            yield hardware.model_copy(update={"housekeeping_cpus": housekeeping})


@pytest.mark.parametrize(
    "hardware",
    list(machines()),
    ids=lambda h: (
        f"{h.sockets}x{h.cores_per_socket}x{h.threads_per_core} {h.cpu_numbering} "
        f"[{h.housekeeping_cpus}]"
    ),
)
def test_every_cpu_has_one_owner_one_numa_node_and_one_abstract_number(
    hardware: HardwareClass,
) -> None:
    planned = cpu.plan(hardware)
    everything = set(range(hardware.cpus))
    assert cpus(planned.all) == everything
    assert cpus(planned.housekeeping) | cpus(planned.workload) == everything
    assert not cpus(planned.housekeeping) & cpus(planned.workload)

    nodes = [cpus(numbers) for numbers in planned.numa]
    assert set().union(*nodes) == everything
    assert sum(len(node) for node in nodes) == len(everything)
    assert len({len(node) for node in nodes}) == 1

    assert {cpu.abstract(hardware, number) for number in everything} == everything
    assert len(cpus(planned.slurm_cpu_spec_list)) == len(cpus(planned.housekeeping))

    for number in everything:
        core = siblings(hardware, number)
        assert number in core
        assert {hardware.core_of(thread) for thread in core} == {hardware.core_of(number)}
        # Slurm counts the threads of a core one after the other.
        abstract = sorted(cpu.abstract(hardware, thread) for thread in core)
        first = hardware.core_of(number) * hardware.threads_per_core
        assert abstract == list(range(first, first + hardware.threads_per_core))
        # A core lies on one NUMA node, the one that gres.conf gives it to.
        (node,) = (i for i, members in enumerate(nodes) if members & set(core))
        assert hardware.core_of(number) in cpus(planned.slurm_numa_cores[node])
