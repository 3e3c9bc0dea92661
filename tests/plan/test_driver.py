"""The kernels for which the driver's modules are missing, and what building them needs."""

import pytest

from lockstep.plan.driver import Driver, Kernel, header_packages

OPEN = Driver("550.163.01", {}, "open")
HEADERS = "linux-headers-{release}"
OLD, NEW = "6.12.94+deb13-amd64", "6.12.117+deb13-amd64"


@pytest.mark.parametrize("module", ["", "535.1 (open)", "550.163.01 (proprietary)"])
def test_a_kernel_without_the_planned_module_is_named(module: str) -> None:
    kernels = (Kernel(OLD, True, "550.163.01 (open)"), Kernel(NEW, True, module))
    assert [one.release for one in OPEN.lacking(kernels)] == [NEW]


def test_headers_are_wanted_where_a_module_is_to_be_built_and_there_are_none() -> None:
    kernels = (Kernel(OLD, False, "550.163.01 (open)"), Kernel(NEW, False))
    assert header_packages(HEADERS, OPEN.lacking(kernels)) == {f"linux-headers-{NEW}": NEW}
    assert header_packages(HEADERS, [Kernel(NEW, True)]) == {}, "also where nobody packaged them"
    assert header_packages("", [Kernel(NEW, False)]) == {}


def test_a_kernel_that_is_not_the_machines_own_lacks_nothing() -> None:
    assert Driver("550.163.01", {}).lacking([Kernel(NEW, False)]) == ()
