"""The example inventories: prod.py declares all that a role can do, small.py is short, gb200.py has
racks."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from lockstep.__main__ import main
from lockstep.files import managed
from lockstep.roles import declared
from lockstep.spec import Cluster
from tests.golden.write import FAKE, NODES, ROOT, plan_of

ONE_SCREEN = 50
"""Lines of inventories/small.py."""

ROLES_OF_OTHER_MACHINES = {
    "nvidia_imex": "only for multi-node NVLink (GB200 NVL72), whose processors are not x86",
}
"""Role that no node of prod.py has, but the racks' trays have -> the reason."""
ROLES_OF_KUBERNETES = dict.fromkeys(
    (
        "kubernetes_control_plane",
        "kubernetes_gpus",
        "kubernetes_metrics",
        "kubernetes_node",
        "kubernetes_objects",
        "kubernetes_releases",
        "kubernetes_virtual_address",
        "kubernetes_snapshots",
        "kubernetes_worker",
    ),
    "prod.py has Slurm; inventories/kubernetes.py has Kubernetes",
)
"""Role that no node of prod.py has, but those of kubernetes.py have -> the reason."""
ROLES_OF_OTHER_RELEASES = {
    "selinux": "Debian and Ubuntu do not run SELinux; the RHEL family does (docs/systems.md)",
}
"""Role that no node of an example has -> the reason."""

NOT_DECLARED = {
    "Access.key": "the agent's keys and ssh's default files are the usual case",
    "Access.known_hosts": "the user's own file is the usual case",
    "Access.port": "sshd listens on its usual port",
    "Access.user": "ops is the usual account",
    "Checks.accepted": "the file beside the inventory",
    "Checks.exceptions": "no difference is known to be harmless",
    "Checks.overrides": "the built-in rules apply as they are",
    "Checks.rules": "the rules of a site depend on the site",
    "Cluster.access": "see the fields of Access",
    "Cluster.checks": "see the fields of Checks",
    "Cluster.records_dir": "the user's state folder",
    "Cluster.secrets_dir": "the user's state folder",
    "Cluster.files": "the site adds nothing to Lockstep's files",
    "Cluster.unmanaged": "it switches roles off",
    "NodeGroup.unmanaged": "it switches roles off",
    "Firewall.services": "the cluster's own services are open already",
    "Gpu.clocks_mhz": "locked clocks cost speed; they are for measurements",
    "Gpu.compute_mode": "Slurm gives each GPU to one job",
    "Gpu.devices": "the driver's own names",
    "Gpu.ecc": "as the model is delivered",
    "Gpu.imex": "only for multi-node NVLink",
    "Gpu.in_sysfs": "only for simulated GPUs and some virtual machines",
    "Gpu.mig": "training uses whole GPUs",
    "Gpu.multi_node_nvlink": "an HGX board has NVLink only inside the node",
    "Gpu.persistence": "on, because Lockstep installs the driver",
    "Gpu.vendor": "NVIDIA is the default",
    "HardwareClass.architecture": "the processors are x86",
    "HardwareClass.boot_loader": "the machines boot their own kernel",
    "HardwareClass.cgroup": "v2 is the default",
    "HardwareClass.clock": "the machines set their own clock",
    "HardwareClass.cpu_numbering": "x86 numbers the first threads first",
    "Kernel.page_size": "x86 has only one page size",
    "Kernel.disable_acs_redir": "the PCI addresses differ from machine to machine",
    "Monitoring.dcgm_exporter_port": "the exporter's usual port",
    "Monitoring.node_exporter_port": "the exporter's usual port",
    "Monitoring.prometheus_port": "its usual port",
    "Monitoring.xid": "Lockstep's severities apply",
    "NodeGroup.leaf_switch": "sixteen workers are behind the same leaf switches",
    "NodeGroup.nvlink_domain": "only for multi-node NVLink",
    "NodeGroup.pods": "see ROLES_OF_KUBERNETES",
    "NodeGroup.scheduler": "the cluster has one scheduler",
    "NodeGroup.release": "all nodes have the same release",
    "Network.rail_length": "a rail has a /64, as usual with IPv6",
    "Network.second_family": "the nodes have IPv6 alone",
    "NodeGroup.fabric_second": "see Network.second_family",
    "NodeGroup.management_second": "see Network.second_family",
    "Nvidia.imex": "see ROLES_OF_OTHER_MACHINES",
    "Os.address_family": "IPv6 is the default",
    "Os.automatic_upgrades": "the nodes of a class are upgraded together",
    "Os.hugetlb_gid": "all users may use huge pages",
    "Os.locale": "C.UTF-8 is the default",
    "Os.memlock": "unlimited is the default, which RDMA needs",
    "Os.selinux": "see ROLES_OF_OTHER_RELEASES",
    "Os.nofile": "the default is enough",
    "Partition.max_time": "no limit is the default",
    "Reboots.drain_timeout_s": "a day is the default",
    "Reboots.return_timeout_s": "half an hour is the default",
    "Repository.frozen": "no repository is a snapshot",
    "Repository.architectures": "all nodes have the same architecture",
    "Repository.releases": "all nodes have the same release",
    "Slurm.epilog_check": "on is the default",
    "Slurm.health_check_interval_s": "on is the default",
    "Slurm.prolog_check": "on is the default",
    "Software.versions_on": "all nodes have the same release",
    "Time.max_offset_s": "the default suits munge and Slurm",
}
"""Optional field of the description that prod.py leaves out -> the reason."""


def optional(value: object) -> Iterator[tuple[str, bool]]:
    """Each optional field in a part of the description, and whether it is given there."""
    match value:
        case BaseModel():
            for name, field in type(value).model_fields.items():
                if not field.is_required():
                    yield f"{type(value).__name__}.{name}", name in value.model_fields_set
                yield from optional(getattr(value, name))
        case dict():
            for one in value.values():
                yield from optional(one)
        case list() | tuple():
            for one in value:
                yield from optional(one)


def not_given(cluster: Any) -> set[str]:
    """The optional fields that are given nowhere in a description."""
    fields = list(optional(cluster))
    return {name for name, _ in fields} - {name for name, given in fields if given}


def test_every_role_is_on_a_node_of_the_production_cluster_or_has_a_reason() -> None:
    used = {role for node in plan_of("prod").nodes.values() for role in node.roles}
    reasons = ROLES_OF_OTHER_MACHINES | ROLES_OF_OTHER_RELEASES | ROLES_OF_KUBERNETES
    assert {role.name for role in declared()} - used == set(reasons)


def test_every_optional_field_is_in_the_production_description_or_has_a_reason() -> None:
    spec = plan_of("prod").spec
    assert isinstance(spec, Cluster)
    assert not_given(spec) == set(NOT_DECLARED)


def test_the_racks_have_what_the_production_cluster_lacks() -> None:
    nodes = plan_of("gb200").nodes
    trays = [node for node in nodes.values() if node.is_worker]
    assert len(trays) == 2 * 18
    assert all(ROLES_OF_OTHER_MACHINES.keys() <= node.roles.keys() for node in trays)
    missing = not_given(plan_of("gb200").spec)
    assert not missing & {
        *("Gpu.multi_node_nvlink", "HardwareClass.architecture", "Kernel.page_size"),
        *("NodeGroup.leaf_switch", "NodeGroup.nvlink_domain", "Nvidia.imex"),
        "Repository.architectures",
    }
    assert trays[0].hardware.cpu.workload == "2-71,74-143", "no second threads"


@pytest.mark.parametrize("inventory", NODES)
def test_every_file_of_an_example_renders_and_its_scripts_parse(inventory: str) -> None:
    for name in NODES[inventory]:
        node = plan_of(inventory).nodes[name]
        files = {one.path: one for one in managed(node, FAKE)}
        assert files.keys() >= set(node.system.paths())
        scripts = [one for one in files.values() if one.content.startswith(b"#!/bin/sh")]
        for one in scripts:
            done = subprocess.run(["sh", "-n"], input=one.content, capture_output=True, check=False)
            assert (done.returncode, done.stderr) == (0, b""), one.path


def test_a_tray_has_the_files_of_a_rack() -> None:
    tray, head = (plan_of("gb200").nodes[name] for name in ("rack1-tray01", "head1"))
    files = {one.path: one.content.decode() for one in managed(tray, FAKE)}
    imex = files["/etc/nvidia-imex/nodes_config.cfg"].splitlines()
    assert [line for line in imex if line and line[0] != "#"] == [
        f"fd5a:7c1e:3000::1{number:02x}" for number in range(1, 19)
    ]
    assert "/sbsa" in files["/etc/apt/sources.list.d/lockstep.sources"]
    assert "pagesize=512M" in files["/etc/systemd/system/dev-hugepages512M.mount"]
    slurm = {one.path: one.content.decode() for one in managed(head, FAKE)}
    assert "Topology=nvlink" in slurm["/etc/slurm/slurm.conf"]
    assert 'nodes: "rack1-tray[01-18]"' in slurm["/etc/slurm/topology.yaml"]


def test_a_field_that_is_taken_out_is_noticed() -> None:
    spec = plan_of("prod").spec
    software = spec.software.model_copy(update={"containers": type(spec.software.containers)()})
    missing = not_given(spec.model_copy(update={"software": software}))
    assert {"Containers.engines", "Containers.pyxis"} <= missing


@pytest.mark.parametrize(
    ("role", "node"),
    [
        *(("prometheus", "head2"), ("node_exporter", "head1"), ("slurm_accounting", "head1")),
        *((role, "worker01") for role in ("nvidia_driver", "cuda", "dcgm", "dcgm_exporter")),
        *((role, "worker01") for role in ("nvidia_fabric_manager", "container_runtime", "enroot")),
        *((role, "worker16") for role in ("pyxis", "gpu_settings", "node_check", "rdma")),
    ],
)
def test_the_production_cluster_has_what_the_readme_names(role: str, node: str) -> None:
    assert role in plan_of("prod").nodes[node].roles


@pytest.mark.parametrize(
    ("page", "right", "wrong"),
    [
        ("nvidia.md", "590.48.01", "575.57.08"),
        ("getting-started.md", '"0-1,56-57,112-113,168-169"', '"0-1,56-57"'),
    ],
)
def test_a_page_shows_the_problem_of_a_wrong_production_description(
    page: str,
    right: str,
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(ROOT / "inventories" / "keys", tmp_path / "inventories" / "keys")
    text = (ROOT / "inventories" / "prod.py").read_text(encoding="utf-8")
    (tmp_path / "inventories" / "prod.py").write_text(text.replace(right, wrong), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["plan", "inventories/prod.py"])
    lines = "".join(capsys.readouterr()).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["ERROR", "found", "allowed"]
    shown = "```text\n" + "\n".join(lines[:3]) + "\n```"
    assert shown in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_small_example_fits_on_one_screen_and_has_ipv4_and_pcie_gpus() -> None:
    text = (ROOT / "inventories" / "small.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= ONE_SCREEN
    nodes = plan_of("small").nodes
    assert [node.address_family for node in nodes.values()] == ["ipv4"] * 3
    (gpu,) = (one.gpu for one in plan_of("small").spec.hardware.values() if one.gpu)
    assert (gpu.nvswitch, nodes["worker2"].hardware.slurm.gres) == (False, "gpu:l40s:4")
