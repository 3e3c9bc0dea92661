"""What the disks of the kernel lab hold already is what the deploy asks for."""

import pytest

from lab.disk_files import PREINSTALLED
from lab.state import Role
from lockstep.catalog.os import load
from lockstep.roles import declared


@pytest.mark.parametrize(
    ("role", "capabilities"),
    [
        ("head", ("slurm_controller", "slurm_accounting", "prometheus")),
        ("worker", ("slurm_worker", "rdma")),
    ],
)
def test_every_package_of_the_role_is_on_its_disk(
    role: Role, capabilities: tuple[str, ...]
) -> None:
    release = load("debian_13")
    everywhere = ("time_sync", "munge", "node_exporter")
    wanted = {
        package
        for one in declared()
        if one.name in (*everywhere, *capabilities)
        for package in one.packages_on(release)
    }
    assert wanted <= set(PREINSTALLED[role])
