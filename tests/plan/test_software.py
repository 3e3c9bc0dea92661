"""Packages, versions and units by role and service."""

import pytest

from lockstep.catalog import os as operating_systems
from lockstep.plan.declaration import nothing
from lockstep.roles import declared
from lockstep.spec import every_package
from tests.plan.example import planned

EVERYWHERE = ("chrony", "munge", "prometheus-node-exporter")


@pytest.mark.parametrize(
    ("node", "packages"),
    [
        ("head1", ("mariadb-server", "slurm-client", "slurmctld", "slurmdbd")),
        ("head2", ("prometheus",)),
        ("worker1", ("slurm-client", "slurmd")),
    ],
)
def test_each_node_gets_the_packages_of_what_it_does(node: str, packages: tuple[str, ...]) -> None:
    assert planned().nodes[node].software.packages == tuple(sorted({*EVERYWHERE, *packages}))


@pytest.mark.parametrize(
    ("node", "units"),
    [
        ("head1", ("mariadb.service", "slurmdbd.service", "slurmctld.service")),
        ("head2", ("prometheus.service",)),
        (
            "worker1",
            ("slurmd.service", "lockstep-gpu-settings.service", "lockstep-node-check.timer"),
        ),
    ],
)
def test_each_node_runs_the_units_of_what_it_does(node: str, units: tuple[str, ...]) -> None:
    everywhere = ("chrony.service", "prometheus-node-exporter.service", "munge.service")
    assert set(planned().nodes[node].system.units) == {*everywhere, *units}


def test_a_node_has_the_locked_versions_of_its_own_packages_only() -> None:
    nodes = planned().nodes
    assert nodes["worker1"].software.versions == {"slurmd": "24.11.5-4"}
    assert nodes["head1"].software.versions == {}


def test_the_database_is_set_up_before_the_controller() -> None:
    done = list(planned().nodes["head1"].roles)
    assert done.index("munge") < done.index("slurm_accounting") < done.index("slurm_controller")


@pytest.mark.parametrize(("locale", "needed"), [("C.UTF-8", False), ("en_US.UTF-8", True)])
def test_locales_are_installed_only_where_glibc_has_none_built_in(
    locale: str, needed: bool
) -> None:
    plan = planned(lambda wanted: wanted["os"].update(locale=locale))
    assert ("locales" in plan.nodes["worker1"].software.packages) is needed


@pytest.mark.parametrize("name", operating_systems.known())
def test_a_release_names_packages_for_every_role_with_a_unit(name: str) -> None:
    release = operating_systems.load(name)
    # The units of the settings and of the node check are files of Lockstep itself.
    # kubernetes_node has the packages of the other roles of Kubernetes.
    without = {"gpu_settings", "node_check", "kubernetes_control_plane", "kubernetes_worker"} | {
        "kubernetes_snapshots"
    }
    for role in declared():
        of_description = role.more_packages is not nothing
        if role.units and role.name not in without and not of_description:
            assert role.packages_on(release), role.name
    if release.family == "debian":
        known = set(every_package(release, declared()))
        assert {"munge", "slurmd", "slurmctld", "slurmdbd"} <= known
