"""Every wrong description: the message has file, line, node, field, value and rule."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockstep.catalog import gpus, job_containers
from lockstep.catalog import os as operating_systems
from lockstep.inventory import load
from lockstep.roles import declared
from lockstep.spec import every_package
from tests.spec.example import SOURCE, edited, line_of

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Wrong:
    """One change of the example, and the whole of what is said about it."""

    id: str
    old: str
    new: str
    field: str
    found: str
    allowed: str
    at: str = ""
    """Text whose line the message names; "": the changed text."""


HEAD2_RUNS = '"runs": ["prometheus"]'
NAME_RULE = (
    "a host name or a range of them, such as head1 or worker[01-16]: "
    "letters, digits and '-' (not first or last), at most 63 characters"
)
NUMBERS = 'numbers and ranges as text, such as "0-3,56-59"'

KERNEL_ARGS = '"kernel_args": ["iommu=pt"]'

CASES = [
    # -- kernel and interfaces
    Wrong(
        "isolation by hand in addition to the plan's",
        KERNEL_ARGS,
        '"kernel_args": ["isolcpus=1-3"]',
        "hardware.hgx.kernel_args[0]",
        "isolcpus=1-3",
        "use the field kernel.isolation",
    ),
    Wrong(
        "huge pages by hand in addition to the plan's",
        KERNEL_ARGS,
        '"kernel_args": ["hugepages=64"]',
        "hardware.hgx.kernel_args[0]",
        "hugepages=64",
        "use the field hugepages",
    ),
    Wrong(
        "an argument declared twice",
        KERNEL_ARGS,
        KERNEL_ARGS + ', "kernel": {"iommu": "pt"}',
        "hardware.hgx.kernel_args[0]",
        "iommu=pt",
        "use the matching field of kernel",
    ),
    Wrong(
        "isolation of no CPUs",
        '"head": {"sockets": 1, ',
        '"head": {"kernel": {"isolation": ["domain"]}, "sockets": 1, ',
        "hardware.head.kernel.isolation",
        "domain",
        "set housekeeping_cpus as well: the CPUs for everything except jobs",
    ),
    Wrong(
        "an unknown THP mode",
        KERNEL_ARGS,
        '"kernel": {"transparent_hugepages": "sometimes"}',
        "hardware.hgx.kernel.transparent_hugepages",
        "'sometimes'",
        "'always', 'madvise' or 'never'",
    ),
    Wrong(
        "no PCI address",
        KERNEL_ARGS,
        '"kernel": {"disable_acs_redir": ["nvswitch"]}',
        "hardware.hgx.kernel.disable_acs_redir[0]",
        "'nvswitch'",
        "a PCI address such as 0000:3b:00.0",
    ),
    Wrong(
        "a sysctl that has an owner",
        '"sysctl": {"vm.swappiness": "1"}',
        '"sysctl": {"kernel.numa_balancing": "1"}',
        "os.sysctl.kernel.numa_balancing",
        "kernel.numa_balancing",
        "use the field hardware.CLASS.kernel.numa_balancing",
    ),
    Wrong(
        "RDMA without interfaces",
        KERNEL_ARGS,
        '"nics": {"rdma": "roce"}',
        "hardware.hgx.nics.rdma",
        "roce",
        "set nics.count, too: the number of RDMA interfaces",
    ),
    Wrong(
        "another number of RDMA devices",
        KERNEL_ARGS,
        '"nics": {"count": 4, "rdma": "roce", "rdma_devices": "mlx5_[0-7]"}',
        "hardware.hgx.nics.rdma_devices",
        "mlx5_[0-7]: 8 names",
        "4 names, as in nics.count",
    ),
    Wrong(
        "RDMA devices without RDMA",
        KERNEL_ARGS,
        '"nics": {"count": 1, "rdma_devices": "mlx5_0"}',
        "hardware.hgx.nics.rdma_devices",
        "mlx5_0",
        "set rdma to infiniband or roce",
    ),
    Wrong(
        "peermem without RDMA",
        KERNEL_ARGS,
        '"nics": {"count": 1, "gpudirect": "peermem"}',
        "hardware.hgx.nics.gpudirect",
        "peermem",
        "set nics.rdma, too: nvidia_peermem gives RDMA devices access to GPU memory",
    ),
    Wrong(
        "VBIOS without GPUs",
        '"head": {"sockets": 1,',
        '"head": {"firmware": {"vbios": "96.00.99.00.01"}, "sockets": 1,',
        "hardware.head.firmware.vbios",
        "96.00.99.00.01",
        "leave it out: the class has no NVIDIA GPUs",
    ),
    Wrong(
        "RDMA firmware without interfaces",
        KERNEL_ARGS,
        '"firmware": {"rdma": "28.43.2026"}',
        "hardware.hgx.firmware.rdma",
        "28.43.2026",
        "leave it out: the class has no RDMA devices (nics.rdma)",
    ),
    Wrong(
        "RDMA firmware of interfaces without RDMA",
        KERNEL_ARGS,
        '"nics": {"count": 8}, "firmware": {"rdma": "28.43.2026"}',
        "hardware.hgx.firmware.rdma",
        "28.43.2026",
        "leave it out: the class has no RDMA devices (nics.rdma)",
    ),
    Wrong(
        "a path in place of an interface",
        KERNEL_ARGS,
        '"nics": {"count": 1, "interfaces": "/dev/x"}',
        "hardware.hgx.nics.interfaces",
        "'/dev/x'",
        "device names or a range of them, such as fabric0 or mlx5_[0-7]",
    ),
    # -- names and addresses
    Wrong(
        "duplicate node name",
        '"name": "head2"',
        '"name": "head1"',
        "nodes[1].name (node head1)",
        "head1",
        "unique names; nodes[0] already uses it",
        at='"name": "head1",\n                "role": "head",\n                "hardware": "head",'
        '\n                "management": "fd00:1::2"',
    ),
    Wrong(
        "duplicate node names of two ranges",
        '        "nodes": [\n',
        '        "nodes": [\n'
        '            {"name": "worker[3-9]", "role": "head", "hardware": "head",'
        ' "management": "fd00:1::20"},\n',
        "nodes[3].name (node worker[3-4])",
        "worker[3-4]",
        "unique names; nodes[0] already uses them",
        at='"name": "worker[1-4]",\n',
    ),
    Wrong(
        "duplicate address",
        '"management": "fd00:1::2"',
        '"management": "fd00:1:0::1"',
        "nodes[1].management (node head2)",
        "fd00:1::1",
        "unique addresses; already used by head1",
    ),
    Wrong(
        "duplicate address inside a range",
        '"management": "fd00:1::2"',
        '"management": "fd00:1::103"',
        "nodes[2].management (node worker4)",
        "fd00:1::103",
        "unique addresses; already used by head2",
        at='"management": "fd00:1::100"',
    ),
    Wrong(
        "address outside its network",
        '"management": "fd00:1::100"',
        '"management": "fd00:9::100"',
        "nodes[2].management (node worker[1-4])",
        "fd00:9::100 and 3 more",
        "addresses in the management network fd00:1::/64",
    ),
    Wrong(
        "fabric address outside its network, once for all rails",
        '"fabric": "fd00:2::100"',
        '"fabric": "fd00:9::100"',
        "nodes[2].fabric (node worker[1-4])",
        "fd00:9::100 and 31 more",
        "addresses in the fabric network fd00:2::/60",
    ),
    Wrong(
        "fabric rails leave the /64",
        '"fabric": "fd00:2::100"',
        '"fabric": "fd00:2:0:1::100"',
        "nodes[2].fabric (node worker[1-4])",
        "fd00:2:0:1::100 and 31 more",
        "addresses on the first rail, fd00:2::/64; Lockstep derives the others",
    ),
    Wrong(
        "no room for the rails",
        '"prefix": "fd00:2::/60"',
        '"prefix": "fd00:2::/62"',
        "networks.fabric.prefix",
        "fd00:2::/62",
        "a prefix with room for 8 rails of the length /64 (rail_length)",
    ),
    Wrong(
        "no room for IPv4 rails",
        '"prefix": "fd00:2::/60"',
        '"prefix": "10.0.0.0/22"',
        "networks.fabric.prefix",
        "10.0.0.0/22",
        "a prefix with room for 8 rails of the length /24 (rail_length)",
    ),
    Wrong(
        "rails longer than an address",
        '"prefix": "fd00:2::/60"',
        '"rail_length": 64, "prefix": "10.0.0.0/8"',
        "networks.fabric.rail_length",
        "64",
        "at most 31 with 10.0.0.0/8",
    ),
    Wrong(
        "a length of rails without rails",
        '"prefix": "fd00:1::/64"',
        '"prefix": "fd00:1::/64", "rail_length": 64',
        "networks.management.rail_length",
        "64",
        "no length without several rails: a single rail has the whole prefix",
    ),
    Wrong(
        "rails on the management network",
        '"prefix": "fd00:1::/64"',
        '"prefix": "fd00:1::/60", "rails": 2',
        "networks.management.rails",
        "2",
        "1: only the fabric can have several rails",
    ),
    Wrong(
        "addresses end before the range does",
        '"management": "fd00:1::100"',
        '"management": "255.255.255.253"',
        "nodes[2].management (node worker[1-4])",
        "255.255.255.253",
        "a lower address: 3 more must follow it, one per node",
    ),
    Wrong(
        "no management network",
        '            "management": {"prefix": "fd00:1::/64"},\n',
        "",
        "networks",
        "no management network",
        'a network named "management" for all nodes',
        at='"networks": {',
    ),
    Wrong(
        "unknown network",
        '"fabric": {"prefix": "fd00:2::/60", "rails": 8}',
        '"fabrik": {"prefix": "fd00:2::/60", "rails": 8}',
        "networks.fabrik",
        "'fabrik'",
        "'management' or 'fabric'",
    ),
    Wrong(
        "fabric address without a fabric",
        '            "fabric": {"prefix": "fd00:2::/60", "rails": 8},\n',
        "",
        "nodes[2].fabric (node worker[1-4])",
        "fd00:2::100 and 3 more",
        "no fabric address, or a network named 'fabric'",
        at='"fabric": "fd00:2::100"',
    ),
    Wrong(
        "unparsable address",
        '"management": "fd00:1::1"',
        '"management": "fd00:1::zz"',
        "nodes[0].management (node head1)",
        "'fd00:1::zz'",
        "an IPv6 or IPv4 address without a prefix, such as fd12::11",
    ),
    Wrong(
        "network with host bits",
        '"prefix": "fd00:1::/64"',
        '"prefix": "fd00:1::1/64"',
        "networks.management.prefix",
        "'fd00:1::1/64'",
        "fd00:1::/64: the host bits must be zero",
    ),
    Wrong(
        "network without a prefix length",
        '"prefix": "fd00:1::/64"',
        '"prefix": "fd00:1::"',
        "networks.management.prefix",
        "'fd00:1::'",
        "a network with its prefix length, such as fd12:3456:789a::/64",
    ),
    Wrong(
        "unparsable network",
        '"prefix": "fd00:1::/64"',
        '"prefix": "fd00:1::/640"',
        "networks.management.prefix",
        "'fd00:1::/640'",
        "a network with its prefix length, such as fd12:3456:789a::/64",
    ),
    Wrong(
        "unfinished range",
        '"name": "worker[1-4]",\n',
        '"name": "worker[1-4",\n',
        "nodes[2].name (node worker[1-4)",
        "'worker[1-4'",
        NAME_RULE,
    ),
    Wrong(
        "empty name",
        '"name": "head2"',
        '"name": ""',
        "nodes[1].name",
        "''",
        NAME_RULE,
    ),
    Wrong(
        "a group of this machine's own clush configuration",
        '"name": "head2"',
        '"name": "@all"',
        "nodes[1].name (node @all)",
        "'@all'",
        NAME_RULE,
    ),
    Wrong(
        "underscore in a host name",
        '"name": "head2"',
        '"name": "head_2"',
        "nodes[1].name (node head_2)",
        "'head_2'",
        NAME_RULE,
    ),
    Wrong(
        "domain in a host name",
        '"name": "head2"',
        '"name": "head2.gpu.example.net"',
        "nodes[1].name (node head2.gpu.example.net)",
        "'head2.gpu.example.net'",
        "a host name without its domain, which the field `domain` has",
    ),
    Wrong(
        "a dot at the end of the domain",
        '"name": "unit",',
        '"name": "unit", "domain": "example.net.",',
        "domain",
        "'example.net.'",
        "a DNS domain without a dot at its end, such as gpu.example.net",
    ),
    # -- what the machines are
    Wrong(
        "housekeeping CPU that does not exist",
        '"0,8,16,24"',
        '"0,8,16,32-33"',
        "hardware.hgx.housekeeping_cpus",
        "0,8,16,32-33: CPU 32-33 does not exist",
        "CPUs 0-31 (2 sockets x 8 cores x 2 threads)",
    ),
    Wrong(
        "housekeeping splits a core",
        '"0,8,16,24"',
        '"0-1,16"',
        "hardware.hgx.housekeeping_cpus",
        "0-1,16: shares cores with CPU 17",
        "whole cores: 0-1,16-17",
    ),
    Wrong(
        "housekeeping leaves nothing",
        '"0,8,16,24"',
        '"0-31"',
        "hardware.hgx.housekeeping_cpus",
        "0-31: all CPUs",
        "some of the CPUs; jobs need the others",
    ),
    Wrong(
        "housekeeping is no list of CPUs",
        '"0,8,16,24"',
        '"0-x"',
        "hardware.hgx.housekeeping_cpus",
        "'0-x'",
        NUMBERS,
    ),
    Wrong(
        "negative housekeeping CPU",
        '"0,8,16,24"',
        '"-1"',
        "hardware.hgx.housekeeping_cpus",
        "'-1'",
        NUMBERS,
    ),
    Wrong(
        "hugepages exceed the NUMA node's memory",
        '"count": 1024',
        '"count": 16000',
        "hardware.hgx.hugepages[0].count",
        "16000 pages of 2M: 32000 MiB of huge pages on NUMA node 1",
        "less than the NUMA node's memory, 32000 MiB",
    ),
    Wrong(
        "hugepages on a NUMA node that does not exist",
        '"numa_node": 1',
        '"numa_node": 2',
        "hardware.hgx.hugepages[0].numa_node",
        "2",
        "0 to 1",
    ),
    Wrong(
        "hugepages of an unknown size",
        '"size": "2M"',
        '"size": "4M"',
        "hardware.hgx.hugepages[0].size",
        "'4M'",
        "'2M', '512M' or '1G'",
    ),
    Wrong(
        "no memory left for jobs",
        '"system_memory_mib": 2048',
        '"system_memory_mib": 58752',
        "hardware.hgx.memory_mib",
        "64000 MiB: 95% of this, minus 2048 MiB for huge pages and 58752 MiB for the system, "
        "leaves 0 MiB for jobs",
        "at least 1 MiB for each of the 32 CPUs",
        at='"memory_mib": 64000',
    ),
    Wrong(
        "GPU count differs from the device list",
        "/dev/nvidia[0-7]",
        "/dev/nvidia[0-6]",
        "hardware.hgx.gpu.devices",
        "/dev/nvidia[0-6]: 7 devices",
        "8 devices, as in gpu.count",
    ),
    Wrong(
        "device list that cannot be read",
        "/dev/nvidia[0-7]",
        "/dev/nvidia[0-",
        "hardware.hgx.gpu.devices",
        "'/dev/nvidia[0-'",
        "device files, such as /dev/nvidia[0-7]",
    ),
    Wrong(
        "unknown GPU model",
        '"model": "h200"',
        '"model": "h2oo"',
        "hardware.hgx.gpu.model",
        "h2oo",
        "one of " + ", ".join(gpus.known()) + "; or the name that nvidia-smi prints",
    ),
    Wrong(
        "GPUs on no NUMA node",
        '{0: "0-3", 1: "4-7"}',
        '{0: "0-3", 1: "5-7"}',
        "hardware.hgx.gpu.numa",
        "{0: '0-3', 1: '5-7'}",
        "each of the GPUs 0 to 7 on exactly one NUMA node",
    ),
    Wrong(
        "GPU slots that cannot be read",
        '{0: "0-3", 1: "4-7"}',
        '{0: "0-3", 1: "4-z"}',
        "hardware.hgx.gpu.numa[1]",
        "'4-z'",
        NUMBERS,
    ),
    Wrong(
        "GPUs on a NUMA node that does not exist",
        '{0: "0-3", 1: "4-7"}',
        '{0: "0-3", 2: "4-7"}',
        "hardware.hgx.gpu.numa[2]",
        "2",
        "NUMA node 0 to 1",
    ),
    Wrong(
        "NUMA nodes do not divide the cores",
        '"numa_nodes": 2',
        '"numa_nodes": 3',
        "hardware.hgx.numa_nodes",
        "3",
        "a divisor of the number of cores, 16",
    ),
    Wrong(
        "kernel arguments without a boot loader",
        '"boot_loader": "grub"',
        '"boot_loader": "none"',
        "hardware.hgx.boot_loader",
        "none",
        '"grub": kernel, kernel_args and hugepages need a machine that boots its own kernel',
    ),
    Wrong(
        "two kernel arguments in one text",
        '["iommu=pt"]',
        '["iommu=pt quiet"]',
        "hardware.hgx.kernel_args[0]",
        "'iommu=pt quiet'",
        "one kernel argument, without spaces",
    ),
    Wrong(
        "a text where a list belongs",
        '["iommu=pt"]',
        '"iommu=pt"',
        "hardware.hgx.kernel_args",
        "'iommu=pt'",
        "a list, in [ ]",
    ),
    Wrong(
        "missing field",
        '"sockets": 1, ',
        "",
        "hardware.head.sockets",
        "nothing",
        "a value: the field is required",
        at='"head": {"cores_per_socket": 8',
    ),
    Wrong(
        "a text where a number belongs",
        '"memory_mib": 64000',
        '"memory_mib": "62 GiB"',
        "hardware.hgx.memory_mib",
        "'62 GiB'",
        "a whole number",
    ),
    Wrong(
        "a number below the least",
        '"count": 8',
        '"count": 0',
        "hardware.hgx.gpu.count",
        "0",
        "1 or more",
    ),
    Wrong(
        "a folder that depends on the current one",
        '        "name": "unit",\n',
        '        "name": "unit",\n        "records_dir": "records",\n',
        "records_dir",
        "'records'",
        "an absolute path, beginning with / or ~",
        at='"records_dir"',
    ),
    Wrong(
        "a list where a dictionary of any keys belongs",
        '"sysctl": {"vm.swappiness": "1"}',
        '"sysctl": ["vm.swappiness"]',
        "os.sysctl",
        "['vm.swappiness']",
        "a dictionary, in { }",
    ),
    Wrong(
        "a name where a dictionary belongs",
        '            "head": {"sockets": 1, "cores_per_socket": 8, "memory_mib": 32000}',
        '            "head": "small"',
        "hardware.head",
        "'small'",
        "a dictionary, in { }, with architecture, sockets, cores_per_socket, threads_per_core, "
        "cpu_numbering, numa_nodes, memory_mib, gpu, nics, management_interface, hugepages, "
        "housekeeping_cpus, cgroup, boot_loader, firmware, kernel, kernel_args, clock",
    ),
    Wrong(
        "unknown hardware class",
        '"hardware": "hgx"',
        '"hardware": "hgx2"',
        "nodes[2].hardware (node worker[1-4])",
        "hgx2",
        "one of head, hgx",
    ),
    # -- fields
    Wrong(
        "unknown field",
        '"size": "2M"',
        '"size": "2M", "numa": 0',
        "hardware.hgx.hugepages[0].numa",
        "'numa'",
        "one of size, numa_node, count",
    ),
    Wrong(
        "unknown field of a node",
        '"role": "worker"',
        '"role": "worker", "adress": "fd00:1::7"',
        "nodes[2].adress (node worker[1-4])",
        "'adress'",
        "one of name, role, hardware, management, fabric, management_second, fabric_second, "
        "runs, release, scheduler, pods, nvlink_domain, leaf_switch, unmanaged",
    ),
    Wrong(
        "unknown OS release",
        '"release": "debian_13"',
        '"release": "debian_14"',
        "os.release",
        "debian_14",
        "one of almalinux_9, debian_12, debian_13, rhel_9, rocky_9, ubuntu_22_04, ubuntu_24_04",
    ),
    Wrong(
        "unknown release of a node",
        '"role": "worker"',
        '"role": "worker", "release": "rocky_8"',
        "nodes[2].release (node worker[1-4])",
        "rocky_8",
        "one of almalinux_9, debian_12, debian_13, rhel_9, rocky_9, ubuntu_22_04, ubuntu_24_04",
    ),
    Wrong(
        "release that is no name",
        '"release": "debian_13"',
        '"release": "Debian 13"',
        "os.release",
        "'Debian 13'",
        "a name of lower-case letters, digits, '-' and '_', beginning with a letter or digit",
    ),
    Wrong(
        "a number where text belongs",
        '"vm.swappiness": "1"',
        '"vm.swappiness": 1',
        "os.sysctl.vm.swappiness",
        "1",
        "text, in quotes",
    ),
    Wrong(
        "memlock of neither kind",
        '"sysctl": {"vm.swappiness": "1"}',
        '"memlock": "infinity"',
        "os.memlock",
        "'infinity'",
        '"unlimited", or a whole number of KiB (1 or more)',
    ),
    Wrong(
        "neither true nor false",
        '"sysctl": {"vm.swappiness": "1"}',
        '"automatic_upgrades": "maybe"',
        "os.automatic_upgrades",
        "'maybe'",
        "True or False",
    ),
    Wrong(
        "no sysctl key",
        '"vm.swappiness"',
        '"swappiness"',
        "os.sysctl.swappiness",
        "swappiness",
        "a sysctl key such as net.core.somaxconn",
    ),
    Wrong(
        "version of a package that no node gets",
        '{"slurmd": "24.11.5-4"}',
        '{"slurm": "24.11.5-4"}',
        "software.versions.slurm",
        "slurm",
        "one of "
        + ", ".join(
            (
                *every_package(operating_systems.load("debian_13"), declared()),
                *job_containers.every_package(),
            )
        ),
    ),
    # -- services and partitions
    Wrong(
        "two accounting databases",
        HEAD2_RUNS,
        '"runs": ["slurm_accounting"]',
        "nodes[1].runs (node head2)",
        "slurm_accounting on head1 and head2",
        "one accounting database",
    ),
    Wrong(
        "two controllers",
        HEAD2_RUNS,
        '"runs": ["slurm_controller"]',
        "nodes[1].runs (node head2)",
        "slurm_controller on head1 and head2",
        "one controller (a second one would need shared state)",
    ),
    Wrong(
        "no accounting database",
        '"slurm_controller", "slurm_accounting"',
        '"slurm_controller"',
        "nodes",
        "no node runs slurm_accounting",
        'runs: ["slurm_accounting"] on a head node',
        at='"nodes": [\n',
    ),
    Wrong(
        "a service on a worker",
        '"runs": []',
        '"runs": ["prometheus"]',
        "nodes[2].runs (node worker[1-4])",
        "prometheus",
        "leave it out: only nodes with role head run services",
        at='"runs": ["prometheus"],\n            },\n        ],\n',
    ),
    Wrong(
        "unknown service",
        HEAD2_RUNS,
        '"runs": ["grafana"]',
        "nodes[1].runs[0] (node head2)",
        "'grafana'",
        "'slurm_accounting', 'slurm_controller', 'kubernetes_control_plane' or 'prometheus'",
    ),
    Wrong(
        "partition with unknown nodes",
        '"nodes": "worker[1-4]"',
        '"nodes": "worker[1-6]"',
        "scheduler.partitions[0].nodes (node worker[5-6])",
        "worker[5-6]",
        "workers of Slurm: worker[1-4]",
    ),
    Wrong(
        "partition with a head",
        '"nodes": "worker1"',
        '"nodes": "head1"',
        "scheduler.partitions[1].nodes (node head1)",
        "head1",
        "workers of Slurm: worker[1-4]",
    ),
    Wrong(
        "two default partitions",
        '"nodes": "worker1"',
        '"nodes": "worker1", "default": True',
        "scheduler.partitions[1].default",
        "True",
        "one default partition; train is already the default",
    ),
    Wrong(
        "two partitions of one name",
        '"name": "debug"',
        '"name": "train"',
        "scheduler.partitions[1].name",
        "train",
        "a unique name among the partitions",
        at='"name": "train", "nodes": "worker1"',
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_whole_message(
    case: Wrong,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = edited((case.old, case.new))
    said = refused(text, tmp_path, monkeypatch, capsys)
    line = line_of(text, case.at or case.new)
    assert said == message(line, case.field, case.found, case.allowed)


def test_the_example_itself_is_right(tmp_path: Path) -> None:
    (tmp_path / "unit.py").write_text(SOURCE, encoding="utf-8")
    assert len(load(str(tmp_path / "unit.py")).nodes) == 6


def test_a_worker_without_a_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, _, rest = SOURCE.partition('        "scheduler": {')
    text = before + rest[rest.index('        "software"') :]
    text = text.replace('["slurm_controller", "slurm_accounting"]', "[]")
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert said == (
        "ERROR unit.py:6 scheduler (node worker[1-4])\n"
        "  found    no scheduler\n"
        '  allowed  {"kind": "slurm"}: nodes with role worker need a scheduler\n'
        "1 problem in unit.py. No node was contacted. Correct the file and try again.\n"
    )


FIVE_FIELDS = (
    ('"prefix": "fd00:1::/64"', '"prefix": "fd00:1::1/64"'),
    ('"memory_mib": 64000', '"memory_mib": "62 GiB"'),
    ('"size": "2M"', '"size": "4M"'),
    ('"management": "fd00:1::1"', '"management": "fd00:1::zz"'),
    ('"name": "train", ', '"name": "train", "nods": 1, '),
)
FIVE_RELATIONS = (
    ('"model": "h200"', '"model": "h2oo"'),
    ('"0,8,16,24"', '"0-1,16"'),
    (HEAD2_RUNS, '"runs": ["slurm_accounting"]'),
    ('"management": "fd00:1::100"', '"management": "fd00:9::100"'),
    ('"release": "debian_13"', '"release": "debian_14"'),
)


@pytest.mark.parametrize("changes", [FIVE_FIELDS, FIVE_RELATIONS], ids=["fields", "relations"])
def test_five_problems_are_shown_at_once_in_the_order_of_the_file(
    changes: tuple[tuple[str, str], ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = edited(*changes)
    said = refused(text, tmp_path, monkeypatch, capsys)
    lines = [line_of(text, new) for _, new in changes]
    places = [line.split()[1] for line in said.splitlines() if line.startswith("ERROR")]
    assert places == [f"unit.py:{line}" for line in sorted(lines)]
    assert said.endswith(
        "\n5 problems in unit.py. No node was contacted. Correct the file and try again.\n"
    )


@pytest.mark.parametrize(
    "words",
    [["-m", "lockstep", "plan", "unit.py"], ["-m", "pyinfra", "unit.py", "debug-inventory"]],
    ids=["lockstep plan", "pyinfra"],
)
def test_a_wrong_inventory_ends_a_program_with_3_and_without_a_traceback(
    words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "unit.py").write_text(edited(*FIVE_RELATIONS), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "5 problems in unit.py. No node was contacted." in done.stderr


def test_a_range_of_two_thousand_nodes_in_the_wrong_network_is_one_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = edited(
        ('"name": "worker[1-4]",\n', '"name": "worker[0001-2000]",\n'),
        ('"nodes": "worker[1-4]"', '"nodes": "worker[0001-2000]"'),
        ('"nodes": "worker1"', '"nodes": "worker0001"'),
        ('"management": "fd00:1::100"', '"management": "fd00:9::100"'),
    )
    said = refused(text, tmp_path, monkeypatch, capsys)
    assert said == (
        f"ERROR unit.py:{line_of(text, 'fd00:9::100')} "
        "nodes[2].management (node worker[0001-2000])\n"
        "  found    fd00:9::100 and 1999 more\n"
        "  allowed  addresses in the management network fd00:1::/64\n"
        "1 problem in unit.py. No node was contacted. Correct the file and try again.\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            None,
            "ERROR unit.py: no such file\n"
            "  expected  an inventory file such as inventories/prod.py\n",
        ),
        (
            "hosts = []\n",
            "ERROR unit.py: the file describes no cluster\n"
            "  expected  a call to lockstep.inventory.plan_or_exit, and host groups made "
            "from its result\n",
        ),
    ],
    ids=["no file", "no cluster"],
)
def test_a_file_that_is_no_inventory(
    text: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert refused(text, tmp_path, monkeypatch, capsys) == said


def message(line: int, field: str, found: str, allowed: str) -> str:
    """What is said of a description with this one problem."""
    return (
        f"ERROR unit.py:{line} {field}\n"
        f"  found    {found}\n"
        f"  allowed  {allowed}\n"
        "1 problem in unit.py. No node was contacted. Correct the file and try again.\n"
    )


def refused(
    text: str | None,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """What is said of an inventory with this text; it must end with status 3."""
    monkeypatch.chdir(folder)
    if text is not None:
        (folder / "unit.py").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        load("unit.py")
    assert ended.value.code == 3
    said = capsys.readouterr()
    assert said.out == ""
    return said.err
