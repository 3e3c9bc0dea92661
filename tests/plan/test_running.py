"""Settings of the running kernel: written values, and how the kernel shows them."""

import pytest

from lockstep.plan import cpu, running
from lockstep.plan.running import KernelFile
from tests.plan.example import machine


@pytest.mark.parametrize(
    ("cpulist", "mask"),
    [
        ("0", "1"),
        ("0,2", "5"),
        ("0-31", "ffffffff"),
        ("32", "1,00000000"),
        ("0-1,56-57,112-113,168-169", "300,00000000,00030000,00000000,03000000,00000003"),
    ],
)
def test_a_mask_is_what_the_kernel_prints(cpulist: str, mask: str) -> None:
    assert running.cpu_mask(cpulist) == mask


@pytest.mark.parametrize(
    ("form", "shown", "value"),
    [
        ("choice", "always [madvise] never", "madvise"),
        ("choice", "always defer [defer+madvise] madvise never", "defer+madvise"),
        ("word", "performance", "performance"),
        ("mask", "00000000,00000005", "5"),
        ("mask", "00000001,00000000", "1,00000000"),
        ("mask", "0", "0"),
    ],
)
def test_what_the_kernel_shows_is_read_as_the_value(form: str, shown: str, value: str) -> None:
    file = KernelFile.__new__(KernelFile)
    object.__setattr__(file, "form", form)
    assert file.read(shown) == value


def test_what_is_not_declared_is_not_set() -> None:
    hardware = machine()
    assert running.kernel_files(hardware) == ()
    assert running.cpu_files(hardware, cpu.plan(hardware)) == ()
    assert running.sysctl(hardware, None) == {}


def test_the_kernels_own_work_and_new_interrupts_stay_on_the_housekeeping_cpus() -> None:
    hardware = machine(housekeeping_cpus="0,8,16,24")
    assert {f.path: f.value for f in running.cpu_files(hardware, cpu.plan(hardware))} == {
        "/sys/devices/virtual/workqueue/cpumask": "1010101",
        "/proc/irq/default_smp_affinity": "1010101",
    }


def test_sysctls_follow_from_the_class() -> None:
    pages = [{"size": "2M", "numa_node": 0, "count": 8}]
    hardware = machine(hugepages=pages, kernel={"numa_balancing": False})
    assert running.sysctl(hardware, 991) == {
        "kernel.numa_balancing": "0",
        "vm.hugetlb_shm_group": "991",
    }
