"""The disks of the kernel lab hold the packages that the deploy installs."""

import pytest

from lab.disk_files import PREINSTALLED
from lab.state import NodeRole
from lockstep.catalog.os import load
from lockstep.roles import declared


@pytest.mark.parametrize(
    ("role", "role_names"),
    [
        ("head", ("slurm_controller", "slurm_accounting", "prometheus")),
        ("worker", ("slurm_worker", "rdma")),
    ],
)
def test_every_package_of_the_role_is_on_its_disk(
    role: NodeRole, role_names: tuple[str, ...]
) -> None:
    release = load("debian_13")
    everywhere = ("time_sync", "munge", "node_exporter")
    wanted = {
        package
        for one in declared()
        if one.name in (*everywhere, *role_names)
        for package in one.packages_on(release)
    }
    assert wanted <= set(PREINSTALLED[role])
