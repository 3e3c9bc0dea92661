"""The kernels for which the driver's modules are missing, and what building them needs."""

import pytest

from lockstep.plan.driver import Driver, Kernel

OPEN = Driver("550.163.01", {}, "open", (), "linux-headers-{release}")
OLD, NEW = "6.12.94+deb13-amd64", "6.12.117+deb13-amd64"


@pytest.mark.parametrize("module", ["", "535.1 (open)", "550.163.01 (proprietary)"])
def test_a_kernel_without_the_planned_module_is_named(module: str) -> None:
    kernels = (Kernel(OLD, True, "550.163.01 (open)"), Kernel(NEW, True, module))
    assert [one.release for one in OPEN.lacking(kernels)] == [NEW]


def test_headers_are_wanted_where_a_module_is_to_be_built_and_there_are_none() -> None:
    kernels = (Kernel(OLD, False, "550.163.01 (open)"), Kernel(NEW, False))
    assert OPEN.header_packages(kernels) == {f"linux-headers-{NEW}": NEW}
    assert OPEN.header_packages([Kernel(NEW, True)]) == {}, "also where nobody packaged them"


def test_a_kernel_that_is_not_the_machines_own_lacks_nothing() -> None:
    assert Driver("550.163.01", {}).lacking([Kernel(NEW, False)]) == ()
