"""Kernel arguments: huge pages per NUMA node, CPUs, and additions of the hardware class."""

from lockstep.plan import boot, cpu
from lockstep.spec import HardwareClass
from tests.plan.example import machine


def pages(*entries: tuple[str, int, int]) -> list[dict[str, object]]:
    return [{"size": size, "numa_node": node, "count": count} for size, node, count in entries]


def cpu_args(hardware: HardwareClass) -> tuple[str, ...]:
    return boot.cpu_args(hardware, cpu.plan(hardware))


def test_huge_pages_keep_their_split_over_the_numa_nodes() -> None:
    hardware = machine(hugepages=pages(("2M", 0, 512), ("2M", 1, 1024)))
    assert boot.hugepage_args(hardware) == ("hugepagesz=2M", "hugepages=0:512,1:1024")


def test_a_numa_node_without_huge_pages_is_named_with_none() -> None:
    hardware = machine(hugepages=pages(("2M", 1, 1024)))
    assert boot.hugepages(hardware) == {"2M": {0: 0, 1: 1024}}
    assert boot.hugepage_args(hardware) == ("hugepagesz=2M", "hugepages=0:0,1:1024")


def test_each_size_is_announced_before_its_count() -> None:
    hardware = machine(hugepages=pages(("2M", 0, 512), ("1G", 1, 4), ("1G", 0, 2)))
    assert boot.hugepage_args(hardware) == (
        "hugepagesz=1G",
        "hugepages=0:2,1:4",
        "hugepagesz=2M",
        "hugepages=0:512,1:0",
    )


def test_two_entries_of_one_numa_node_add_up() -> None:
    hardware = machine(hugepages=pages(("1G", 0, 2), ("1G", 0, 3)))
    assert boot.hugepages(hardware) == {"1G": {0: 5, 1: 0}}
    assert hardware.hugepages_mib == 5 * 1024


def test_no_huge_pages_no_arguments() -> None:
    assert boot.hugepage_args(machine()) == ()


def test_interrupts_and_callbacks_stay_on_the_housekeeping_cpus() -> None:
    hardware = machine(housekeeping_cpus="0,8,16,24")
    assert cpu_args(hardware) == ("irqaffinity=0,8,16,24", "rcu_nocbs=1-7,9-15,17-23,25-31")


def test_isolation_names_the_workload_cpus_and_the_flags_in_a_fixed_order() -> None:
    flags = ["domain", "nohz_full", "managed_irq"]
    hardware = machine(housekeeping_cpus="0,8,16,24", kernel={"isolation": flags})
    workload = "1-7,9-15,17-23,25-31"
    assert cpu_args(hardware)[2:] == (
        f"nohz_full={workload}",
        f"isolcpus=managed_irq,domain,{workload}",
    )


def test_without_housekeeping_cpus_only_the_classes_own_arguments() -> None:
    hardware = machine(kernel_args=["iommu=pt"])
    assert (cpu_args(hardware), boot.kernel_args(hardware)) == ((), ("iommu=pt",))


def test_what_the_kernel_declares_comes_before_the_further_arguments() -> None:
    kernel = {"iommu": "pt", "max_cstate": 1, "disable_acs_redir": ["3b:00.0", "5e:00.0"]}
    assert boot.kernel_args(machine(kernel=kernel, kernel_args=["init_on_alloc=0"])) == (
        "iommu=pt",
        "pci=disable_acs_redir=3b:00.0;5e:00.0",
        "processor.max_cstate=1",
        "intel_idle.max_cstate=1",
        "init_on_alloc=0",
    )


def test_machines_without_a_boot_loader_get_no_arguments() -> None:
    assert cpu_args(machine(housekeeping_cpus="0,16", boot_loader="none")) == ()
