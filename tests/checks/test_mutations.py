"""One changed value on one recorded node is exactly one finding, which names the place."""

from __future__ import annotations

import pytest
from ClusterShell.NodeSet import NodeSet

from lockstep.checks.catalogue import all_rules
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.plan.job_containers import PYXIS_OPTION, PYXIS_PLUGIN
from lockstep.report import Status
from tests.checks import recorded
from tests.checks.mutation import Mutation
from tests.checks.mutations_machine import MACHINE
from tests.checks.mutations_network import NETWORK
from tests.checks.mutations_system import SYSTEM
from tests.checks.recorded import REMOVED
from tests.checks.recorded_gpus import AT_WORK

CONF = "/etc/slurm/slurm.conf"
LINE = ["BOOT_IMAGE=/boot/vmlinuz", "root=UUID=1", "ro", "quiet"]
ARGS = [
    "hugepagesz=1G",
    "hugepages=0:0,1:1",
    "hugepagesz=2M",
    "hugepages=0:512,1:512",
    "irqaffinity=0,8",
    "rcu_nocbs=1-7,9-15",
    "nohz_full=1-7,9-15",
    "isolcpus=managed_irq,1-7,9-15",
    "iommu=pt",
    "processor.max_cstate=1",
    "intel_idle.max_cstate=1",
    "cpufreq.default_governor=performance",
]
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
GOVERNOR = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
COMP0, COMP1 = (f"mlx5_comp{queue}@pci:0000:3b:00.0" for queue in (0, 1))
HELD = sorted(recorded.consistent().plan.nodes["worker3"].software.held)
UNIT = {"active": "active", "sub": "running", "load": "loaded", "enabled": "enabled"}

SLOT, PORT, UPLINK = "0000:61:00.0", "0000:60:00.0", "0000:5f:00.0"
"""gpu3, and the ports of the PCIe switch above it."""
SEVEN = [f"/dev/nvidia{number}" for number in range(7)]

MUTATIONS = (
    Mutation("cdi.devices", "worker3", "cdi.devices", ("all",), SEVEN, found="/dev/nvidia6"),
    Mutation("cdi.driver", "worker3", "cdi.libraries", (), ["580.1"], found="580.1"),
    Mutation(
        "container.devices",
        "worker3",
        "containers",
        ("docker", "devices", "/dev/nvidia7"),
        REMOVED,
        "docker",
        "lacks /dev/nvidia7",
    ),
    Mutation(
        "container.uuids",
        "worker3",
        "containers",
        ("podman", "devices", "/dev/nvidia7"),
        "195:6",
        "podman",
        "lacks GPU-00000003-0000-000000000007",
    ),
    Mutation(
        "container.control_files",
        "worker3",
        "containers",
        ("docker", "devices", "/dev/nvidia-uvm"),
        "510:0",
        "docker",
        "lacks /dev/nvidia-uvm 511:0, has /dev/nvidia-uvm 510:0",
    ),
    Mutation(
        "container.capabilities",
        "worker3",
        "containers",
        ("docker", "devices", "/dev/nvidia-caps/nvidia-cap1"),
        "236:1",
        "docker",
        "has /dev/nvidia-caps/nvidia-cap1",
    ),
    Mutation(
        "container.rdma_devices",
        "worker3",
        "containers",
        ("podman", "devices", "/dev/infiniband/uverbs1"),
        REMOVED,
        "podman",
        "lacks /dev/infiniband/uverbs1 231:193",
    ),
    Mutation(
        "container.libraries", "worker3", "containers", ("podman", "libraries"), [], device="podman"
    ),
    Mutation(
        "container.memlock",
        "worker3",
        "containers",
        ("docker", "memlock"),
        "8192",
        "docker",
        "8192 KiB",
    ),
    Mutation(
        "container.cpus", "worker3", "containers", ("docker", "cpus"), "0,8", "docker", "CPUs 0,8"
    ),
    Mutation(
        "container.shm",
        "worker3",
        "containers",
        ("docker", "shm_kib"),
        "64",
        "docker",
        "64 KiB",
    ),
    Mutation("os.release", "worker3", "os.version_id", (), "12", found="debian 12"),
    Mutation("os.hostname", "worker3", "os.hostname", (), "localhost", found="localhost"),
    Mutation("os.time_zone", "head1", "os.time_zone", (), "Europe/Rome", found="Europe/Rome"),
    Mutation("os.locale", "worker3", "os.locale", (), "", found="nothing"),
    Mutation("kernel.release", "worker3", "kernel.release", (), "6.1.0-9", found="6.1.0-9"),
    Mutation(
        "kernel.args",
        "worker3",
        "kernel.cmdline",
        (),
        [*LINE, *(word for word in ARGS if word != "iommu=pt")],
        found="not in force: iommu=pt",
        status=Status.PENDING_REBOOT,
    ),
    Mutation(
        "kernel.args_persisted",
        "worker3",
        "kernel.cmdline_persisted",
        (),
        [word for word in ARGS if not word.startswith("isolcpus=")],
        found="missing at the next boot: isolcpus=managed_irq,1-7,9-15",
    ),
    Mutation(
        "kernel.args_foreign",
        "worker3",
        "kernel.cmdline_persisted",
        (),
        ["isolcpus=2-3", *ARGS],
        "isolcpus=2-3",
        "at the next boot",
    ),
    Mutation(
        "kernel.args_foreign",
        "head1",
        "kernel.cmdline",
        (),
        [*LINE, "nohz_full=1"],
        "nohz_full=1",
        "in force",
        Status.PENDING_REBOOT,
    ),
    Mutation("kernel.setting", "worker3", "kernel.files", (THP, THP), "[always] never", THP),
    Mutation("kernel.setting", "worker3", "kernel.files", (THP,), {}, THP, "no such file"),
    Mutation(
        "kernel.setting",
        "worker3",
        "kernel.files",
        (GOVERNOR, GOVERNOR.replace("*", "7")),
        "powersave",
        GOVERNOR,
        "powersave on 1 of 16",
    ),
    Mutation("kernel.max_cstate", "worker3", "kernel.max_cstate", (), 9, found="C9"),
    Mutation("cpu.isolated", "worker3", "cpu.isolated", (), "1-3", found="CPUs 1-3"),
    Mutation("cpu.nohz_full", "worker3", "cpu.nohz_full", (), "", found="no CPUs"),
    Mutation(
        "cpuset.services",
        "worker3",
        "cpuset.services",
        ("munge.service",),
        "0-15",
        "munge.service",
        "CPUs 0-15",
    ),
    Mutation("irq.affinity", "worker3", "irq.affinity", (COMP1,), "0-15", COMP1, "0-15"),
    Mutation("irq.affinity", "worker3", "irq.affinity", (COMP0,), "0-15", COMP0, "0-15"),
    Mutation(
        "hugepages.mount",
        "worker3",
        "hugepages.mounts",
        ("/dev/hugepages", "mode"),
        "755",
        "/dev/hugepages",
        "mode 755",
    ),
    Mutation(
        "hugepages.mount",
        "worker3",
        "hugepages.mounts",
        ("/dev/hugepages1G",),
        REMOVED,
        "/dev/hugepages1G",
        "not mounted",
    ),
    Mutation(
        "listener.family",
        "worker3",
        "listeners",
        ("tcp/6818",),
        ["0.0.0.0"],
        "tcp/6818",
        "0.0.0.0",
    ),
    Mutation("listener.family", "worker3", "listeners", ("tcp/22",), [], "tcp/22", "not listening"),
    Mutation(
        "limits.memlock",
        "worker3",
        "limits.memlock",
        ("slurmd.service",),
        {"soft": "8388608", "hard": "8388608"},
        "slurmd.service",
        "8388608 bytes",
    ),
    Mutation("rdma.count", "worker3", "rdma.count", (), 1, found="1 RDMA device"),
    Mutation(
        "rdma.names",
        "worker3",
        "rdma.names",
        (),
        ["mlx5_0", "rocep59s0"],
        found="mlx5_0, rocep59s0",
    ),
    Mutation(
        "rdma.guid",
        "worker3",
        "rdma.guid",
        ("mlx5_1",),
        "a088:c203:0005:0001",
        found="worker3 mlx5_1",
    ),
    Mutation("rdma.port_state", "worker3", "rdma.state", ("mlx5_1",), "DOWN", "mlx5_1", "DOWN"),
    Mutation(
        "rdma.link_layer",
        "worker3",
        "rdma.link_layer",
        ("mlx5_1",),
        "InfiniBand",
        "mlx5_1",
        "InfiniBand",
    ),
    Mutation(
        "rdma.rate", "worker3", "rdma.rate", ("mlx5_1",), "200 Gb/sec (2X NDR)", found="1 x 200"
    ),
    Mutation("rdma.firmware", "worker3", "rdma.firmware", ("mlx5_1",), "28.37", found="1 x 28.37"),
    Mutation("rdma.board", "worker3", "rdma.board", ("mlx5_1",), "MT_0", found="1 x MT_0"),
    Mutation(
        "rdma.access",
        "worker3",
        "rdma.device_files",
        ("/dev/infiniband/uverbs0",),
        "600",
        "/dev/infiniband/uverbs0",
        "mode 600",
    ),
    Mutation(
        "rdma.access",
        "worker3",
        "rdma.device_files",
        ("/dev/infiniband/rdma_cm",),
        REMOVED,
        "/dev/infiniband/rdma_cm",
        "absent",
    ),
    Mutation(
        "kernel.cmdline", "worker3", "kernel.cmdline", (), [*LINE, *ARGS, "nosmt"], found="nosmt"
    ),
    Mutation("hugepages", "worker3", "hugepages", ("2M", "1"), 500, "2M node1", "500 pages"),
    Mutation("hugepages", "worker3", "hugepages", ("1G", "0"), 4, "1G node0", "4 pages"),
    Mutation("cpuset.housekeeping", "worker3", "cpuset.user_slice", (), "0-15", "logins", "0-15"),
    Mutation("cpuset.housekeeping", "worker3", "cpuset.manager", (), "0-15", "services", "0-15"),
    Mutation("cpu.numa", "worker3", "numa.cpus", ("1",), "4-7", "node1", "CPUs 4-7"),
    Mutation("cpu.numa", "worker3", "numa.cpus", ("1",), REMOVED, "node1", "no CPUs"),
    Mutation("cpu.numa", "worker3", "numa.cpus", ("2",), "16-19", "node2", "CPUs 16-19"),
    Mutation("cpu.count", "worker3", "cpu.online", (), "0-7", found="8 CPUs"),
    Mutation("memory.at_least", "worker3", "memory_mib", (), 49152, found="49152 MiB"),
    Mutation(
        "sysctl.running",
        "worker3",
        "sysctl.running",
        ("vm.swappiness",),
        "60",
        "vm.swappiness",
        "60",
    ),
    Mutation(
        "sysctl.persisted",
        "worker3",
        "sysctl.persisted",
        ("vm.swappiness",),
        {"value": "60", "file": "/etc/sysctl.d/99-zzz.conf"},
        "vm.swappiness",
        "60",
    ),
    Mutation(
        "file.content", "worker3", "files", ("/etc/gai.conf", "sha256"), "0" * 64, "/etc/gai.conf"
    ),
    Mutation(
        "file.content",
        "worker3",
        "files",
        ("/etc/hosts",),
        {"absent": True},
        "/etc/hosts",
        "absent",
    ),
    Mutation(
        "file.content", "head1", "files", (CONF, "sha256"), "0" * 64, CONF, "different content"
    ),
    Mutation("file.mode", "worker3", "files", ("/etc/hosts", "mode"), "666", "/etc/hosts", "666"),
    Mutation(
        "hosts.entries",
        "worker3",
        "hosts.entries",
        ("worker5",),
        ["fd00::1"],
        "worker5",
        "fd00::1",
    ),
    Mutation("hosts.entries", "worker3", "hosts.entries", ("head1",), REMOVED, "head1", "missing"),
    Mutation(
        "unit.active",
        "worker3",
        "units",
        ("slurmd.service",),
        {**UNIT, "active": "failed", "sub": "failed", "enabled": "disabled"},
        "slurmd.service",
        "failed",
    ),
    Mutation(
        "unit.enabled",
        "worker3",
        "units",
        ("munge.service", "enabled"),
        "disabled",
        "munge.service",
        "disabled",
    ),
    Mutation(
        "unit.masked",
        "worker3",
        "units",
        ("apt-daily.timer", "load"),
        "loaded",
        "apt-daily.timer",
    ),
    Mutation(
        "package.present", "worker3", "packages", ("chrony",), REMOVED, "chrony", "not installed"
    ),
    Mutation("package.version", "worker3", "packages", ("slurmd",), "24.05", "slurmd", "24.05"),
    Mutation("package.version", "worker3", "packages", ("bash",), "5.2", "bash", "5.2"),
    Mutation("package.broken", "worker3", "packages.broken", (), ["bash"], found="bash"),
    Mutation("time.synchronised", "worker3", "time.synchronised", (), False, found="not sync"),
    Mutation("time.offset", "worker3", "time.offset_s", (), -0.4, found="400 ms"),
    Mutation("munge.key", "worker3", "munge.key_sha256", (), "1" * 64, found="111111111111"),
    Mutation("munge.key", "worker3", "munge.key_sha256", (), "absent", found="absent"),
    Mutation(
        "munge.round_trip", "worker3", "munge.decoded", (), "Expired credential", found="Expired"
    ),
    Mutation("slurm.conf", "worker3", "slurm.conf_sha256", (), "2" * 64, found="222222222222"),
    Mutation("slurm.node", "head1", "slurm.nodes", ("worker3", "cpus"), 8, "CPUs", "8"),
    Mutation("slurm.node", "head1", "slurm.nodes", ("worker3", "gres"), "", "Gres", "nothing"),
    Mutation(
        "slurm.state",
        "head1",
        "slurm.nodes",
        ("worker3", "state"),
        ["DRAIN", "IDLE"],
        found="DRAIN",
    ),
    Mutation("slurm.state", "head1", "slurm.nodes", ("worker3", "state"), [], found="no state"),
    Mutation(
        "slurm.state",
        "head1",
        "slurm.nodes",
        ("worker3", "state"),
        ["IDLE", "MAINTENANCE"],
        found="IDLE+MAINTENANCE",
    ),
    Mutation(
        "slurm.state",
        "head1",
        "slurm.nodes",
        ("worker3", "state"),
        ["IDLE", "POWERED_DOWN"],
        found="POWERED_DOWN",
    ),
    Mutation(
        "slurm.pyxis",
        "worker3",
        "slurm.spank_plugins",
        (PYXIS_PLUGIN,),
        "24.05",
        PYXIS_PLUGIN,
        "built for Slurm 24.05",
    ),
    Mutation(
        "slurm.container_image",
        "worker3",
        "slurm.srun_options",
        (PYXIS_OPTION,),
        False,
        PYXIS_OPTION,
        "no",
    ),
    Mutation("gpu.count", "worker3", "gpu.count", (), 7, found="7 GPUs"),
    Mutation(
        "gpu.lost",
        "worker3",
        "gpu.lost",
        ("0000:61:00.0",),
        "GPU is lost",
        "0000:61:00.0",
        "GPU is lost",
    ),
    Mutation("gpu.name", "worker3", "gpu.name", ("gpu3",), "NVIDIA H100", "gpu3", "NVIDIA H100"),
    Mutation(
        "gpu.power_limit", "worker3", "gpu.power.enforced_w", ("gpu3",), 350.0, "gpu3", "350 W"
    ),
    Mutation(
        "gpu.power_default", "worker3", "gpu.power.default_w", ("gpu3",), 650.0, "gpu3", "650 W"
    ),
    Mutation(
        "gpu.ecc",
        "worker3",
        "gpu.ecc.current",
        ("gpu3",),
        "Disabled",
        "gpu3",
        "Disabled",
        Status.PENDING_REBOOT,
    ),
    Mutation(
        "gpu.ecc",
        "worker3",
        "gpu.ecc.pending",
        ("gpu3",),
        "Disabled",
        "gpu3",
        "Enabled, Disabled after a reset",
    ),
    Mutation("gpu.persistence", "worker3", "gpu.persistence", ("gpu3",), "Disabled", "gpu3"),
    Mutation(
        "gpu.driver_version", "worker3", "gpu.driver_version", ("gpu3",), "580.1", "gpu3", "580.1"
    ),
    Mutation(
        "gpu.mig",
        "worker3",
        "gpu.mig.current",
        ("gpu3",),
        "Enabled",
        "gpu3",
        "MIG Enabled, Disabled after a reset",
        Status.PENDING_REBOOT,
    ),
    Mutation(
        "gpu.mig_layout",
        "worker3",
        "gpu.mig.devices",
        ("gpu3",),
        ["7g.141gb"],
        "gpu3",
        "7g.141gb",
        Status.PENDING_REBOOT,
    ),
    Mutation(
        "gpu.compute_mode",
        "worker3",
        "gpu.compute_mode",
        ("gpu3",),
        "Exclusive_Process",
        "gpu3",
        "Exclusive_Process",
    ),
    Mutation(
        "gpu.memory", "worker3", "gpu.memory.total_mib", ("gpu3",), 97871, "gpu3", "97871 MiB"
    ),
    Mutation("gpu.pcie_width", "worker3", "gpu.pcie.width_current", ("gpu3",), 8, "gpu3", "x8"),
    Mutation(
        "gpu.clock_max", "worker3", "gpu.clocks.max_sm_mhz", ("gpu3",), 1785, "gpu3", "1785 MHz"
    ),
    Mutation("gpu.vbios", "worker3", "gpu.vbios", ("gpu3",), "96.00.74.00.01", "gpu3", "96.00.74"),
    Mutation(
        "gpu.mig",
        "worker3",
        "gpu.mig.pending",
        ("gpu3",),
        "Enabled",
        "gpu3",
        "MIG Disabled, Enabled after a reset",
    ),
    Mutation(
        "gpu.clock_idle", "worker3", "gpu.clocks.sm_mhz", ("gpu3",), 1500, "gpu3", "1500 MHz idle"
    ),
    Mutation(
        "gpu.recovery_action",
        "worker3",
        "gpu.recovery_action",
        ("gpu3",),
        "Drain and Reset",
        "gpu3",
        "Drain and Reset",
        Status.PENDING_REBOOT,
    ),
    Mutation(
        "gpu.recovery_action",
        "worker3",
        "gpu.recovery_action",
        ("gpu3",),
        "Drain P2P",
        "gpu3",
        "Drain P2P",
    ),
    Mutation(
        "gpu.row_remap",
        "worker3",
        "gpu.remapped.pending",
        ("gpu3",),
        "Yes",
        "gpu3",
        "row remap pending",
        Status.PENDING_REBOOT,
    ),
    Mutation(
        "gpu.row_remap",
        "worker3",
        "gpu.remapped.failure",
        ("gpu3",),
        "Yes",
        "gpu3",
        "row remap failed",
    ),
    Mutation(
        "gpu.ecc_uncorrected",
        "worker3",
        "gpu.ecc.uncorrected_volatile",
        ("gpu3",),
        1,
        "gpu3",
        "1 error",
    ),
    Mutation(
        "gpu.page_retirement",
        "worker3",
        "gpu.retired.pending",
        ("gpu3",),
        "Yes",
        "gpu3",
        "retirement pending: Yes",
        Status.PENDING_REBOOT,
    ),
    Mutation(
        "gpu.silent",
        "worker3",
        "gpu.silent",
        ("gpu3",),
        "power.draw is [Unknown Error]",
        "gpu3",
        "power.draw is [Unknown Error]",
    ),
    Mutation(
        "gpu.fabric_health",
        "worker3",
        "gpu.fabric.health",
        ("gpu3",),
        "Unhealthy",
        "gpu3",
        "Unhealthy",
    ),
    Mutation(
        "gpu.fabric", "worker3", "gpu.fabric.state", ("gpu3",), "In Progress", "gpu3", "In Progress"
    ),
    Mutation(
        "gpu.xid",
        "worker3",
        "driver.xid",
        ("0000:61:00",),
        [31, 119, 119],
        "gpu3",
        "Xid 119 (GSP_RPC_TIMEOUT)",
    ),
    Mutation(
        "driver.module_version",
        "worker3",
        "driver.module",
        ("version",),
        "580.95.05",
        found="module 580.95.05",
        status=Status.PENDING_REBOOT,
    ),
    Mutation(
        "driver.module_flavour",
        "worker3",
        "driver.module",
        ("flavour",),
        "proprietary",
        found="proprietary module",
        status=Status.PENDING_REBOOT,
    ),
    Mutation(
        "driver.module_on_disk",
        "worker3",
        "driver.module_on_disk",
        (),
        {"version": "absent", "flavour": "absent"},
        found="absent",
    ),
    Mutation(
        "driver.module_next",
        "worker3",
        "driver.module_next",
        (),
        {"kernel": "6.12.117+deb13-amd64", "version": "absent", "flavour": "absent"},
        "6.12.117+deb13-amd64",
        "absent",
    ),
    Mutation(
        "driver.library_version",
        "worker3",
        "driver.library",
        (),
        "580.95.05",
        found="libnvidia-ml 580.95.05",
    ),
    Mutation(
        "package.held",
        "worker3",
        "packages.held",
        (),
        HELD[1:],
        HELD[0],
        "not on hold",
    ),
    Mutation(
        "package.version",
        "worker3",
        "packages",
        ("nvidia-fabricmanager",),
        "580.95.05-1",
        "nvidia-fabricmanager",
        "580.95.05-1",
        Status.PENDING_REBOOT,
    ),
    Mutation(
        "package.version",
        "worker3",
        "packages",
        ("datacenter-gpu-manager-4-core",),
        "1:4.4.1-1",
        "datacenter-gpu-manager-4-core",
        "1:4.4.1-1",
    ),
    Mutation(
        "package.version",
        "worker3",
        "packages",
        ("libcuda1",),
        "590.48.01-2",
        "libcuda1",
        "590.48.01-2",
        Status.PENDING_REBOOT,
    ),
    Mutation(
        "unit.forbidden",
        "worker3",
        "units",
        ("nvidia-imex.service",),
        UNIT,
        "nvidia-imex.service",
        "active (running), enabled",
    ),
    Mutation("gpu.count_driver", "worker3", "driver.boards", ("195:7",), REMOVED, found="7 GPUs"),
    Mutation("gpu.count_pci", "worker3", "gpu.pci.boards", (SLOT,), REMOVED, found="7 GPUs"),
    Mutation(
        "gpu.supported_fields",
        "worker3",
        "gpu.ecc.corrected_volatile",
        ("gpu3",),
        "not supported",
        "gpu3",
        "not supported: ecc.errors.corrected.volatile.total",
    ),
    Mutation(
        "gpu.serial_unique",
        "worker3",
        "gpu.serial",
        ("gpu3",),
        "1650000060001",
        found="worker3 gpu3",
    ),
    Mutation(
        "gpu.order",
        "worker3",
        "gpu.pci_bus_id",
        ("gpu3",),
        "00000000:62:00.0",
        "gpu3",
        "00000000:62:00.0",
    ),
    Mutation(
        "gpu.power_range",
        "worker3",
        "gpu.power.max_w",
        ("gpu3",),
        600.0,
        "gpu3",
        "600 W",
    ),
    Mutation(
        "gpu.clock_max_memory",
        "worker3",
        "gpu.clocks.max_memory_mhz",
        ("gpu3",),
        2619,
        "gpu3",
        "2619 MHz",
    ),
    Mutation(
        "gpu.clock_memory",
        "worker3",
        "gpu.clocks.memory_mhz",
        ("gpu3",),
        1593,
        "gpu3",
        "1593 MHz",
    ),
    Mutation(
        "gpu.inforom_version",
        "worker3",
        "gpu.inforom.image",
        ("gpu3",),
        "G520.0200.00.05",
        "gpu3",
        "G520.0200.00.05, ECC 7.16",
    ),
    Mutation(
        "gpu.inforom_version", "worker3", "gpu.inforom.ecc", ("gpu3",), "6.16", "gpu3", "ECC 6.16"
    ),
    Mutation(
        "gpu.inforom_valid", "worker3", "gpu.inforom.checksum", ("gpu3",), "invalid", "gpu3", "inv"
    ),
    Mutation("gpu.gsp", "worker3", "gpu.gsp.current", ("gpu3",), "Disabled", "gpu3", "Disabled"),
    Mutation("gpu.accounting", "worker3", "gpu.accounting", ("gpu3",), "Enabled", "gpu3", "Enab"),
    Mutation(
        "gpu.clock_application",
        "worker3",
        "gpu.clocks.application_sm_mhz",
        ("gpu3",),
        1200,
        "gpu3",
        "1200 MHz",
    ),
    Mutation(
        "gpu.clock_application_memory",
        "worker3",
        "gpu.clocks.application_memory_mhz",
        ("gpu3",),
        1593,
        "gpu3",
        "1593 MHz",
    ),
    Mutation("gpu.addressing", "worker3", "gpu.addressing", ("gpu3",), "HMM", "gpu3", "HMM"),
    Mutation(
        "gpu.confidential", "worker3", "gpu.memory.protected_mib", ("gpu3",), 143771, "gpu3", "1437"
    ),
    Mutation(
        "gpu.slowdown",
        "worker3",
        "gpu.slowdown.active",
        ("gpu3",),
        0x48,
        "gpu3",
        "HW thermal slowdown",
    ),
    Mutation(
        "gpu.power_brake",
        "worker3",
        "gpu.slowdown.power_brake_us",
        ("gpu3",),
        2500000,
        "gpu3",
        "2.5 s",
    ),
    Mutation(
        "gpu.thermal_hw",
        "worker3",
        "gpu.slowdown.thermal_hw_us",
        ("gpu3",),
        500000,
        "gpu3",
        "0.5 s",
    ),
    Mutation(
        "gpu.thermal_sw",
        "worker3",
        "gpu.slowdown.thermal_sw_us",
        ("gpu3",),
        500000,
        "gpu3",
        "0.5 s",
    ),
    Mutation(
        "gpu.temperature", "worker3", "gpu.temperature.margin_c", ("gpu3",), 3, "gpu3", "3 C below"
    ),
    Mutation(
        "gpu.ecc_corrected", "worker3", "gpu.ecc.corrected_volatile", ("gpu3",), 999, "gpu3", "999"
    ),
    Mutation(
        "gpu.ecc_uncorrected_lifetime",
        "worker3",
        "gpu.ecc.uncorrected_aggregate",
        ("gpu3",),
        2,
        "gpu3",
        "2: 2 more",
    ),
    Mutation(
        "gpu.ecc_sram_threshold", "worker3", "gpu.ecc.sram_threshold", ("gpu3",), "Yes", "gpu3"
    ),
    Mutation(
        "gpu.row_remapped", "worker3", "gpu.remapped.uncorrectable", ("gpu3",), 1, "gpu3", "1 row"
    ),
    Mutation(
        "gpu.row_spares",
        "worker3",
        "gpu.remapped.banks_without_spare",
        ("gpu3",),
        1,
        "gpu3",
        "row: 1",
    ),
    Mutation("gpu.pcie_width_max", "worker3", "gpu.pcie.width_max", ("gpu3",), 32, "gpu3", "x32"),
    Mutation(
        "gpu.pcie_generation", "worker3", "gpu.pcie.generation_max", ("gpu3",), 4, "gpu3", "Gen4"
    ),
    Mutation(
        "gpu.pcie_generation_busy",
        AT_WORK,
        "gpu.pcie.generation",
        ("gpu3",),
        1,
        "gpu3",
        "Gen1",
    ),
    Mutation("gpu.pcie_path_width", "worker3", "gpu.pci.width", (UPLINK,), 8.0, UPLINK, "x8"),
    Mutation("gpu.pcie_path_speed", "worker3", "gpu.pci.speed", (UPLINK,), 16.0, UPLINK, "16 GT/s"),
    Mutation("gpu.pcie_corrected", "worker3", "gpu.pci.correctable", (SLOT,), 99, SLOT, "99"),
    Mutation("gpu.pcie_uncorrected", "worker3", "gpu.pci.nonfatal", (SLOT,), 1, SLOT, "1: 1 more"),
    Mutation("gpu.pcie_fatal", "worker3", "gpu.pci.fatal", (SLOT,), 1, SLOT, "1: 1 more"),
    Mutation(
        "gpu.nvlink",
        "worker3",
        "gpu.nvlink.links",
        ("gpu3", "7"),
        "<inactive>",
        "gpu3",
        "17 x 26.562 GB/s, 1 x <inactive>",
    ),
    Mutation("gpu.nvlink_replay", "worker3", "gpu.nvlink.replay", ("gpu3",), 4, "gpu3", "4 more"),
    Mutation(
        "gpu.nvlink_recovery", "worker3", "gpu.nvlink.recovery", ("gpu3",), 1, "gpu3", "1: 1 more"
    ),
    Mutation("gpu.nvlink_packets", "worker3", "gpu.nvlink.packet", ("gpu3",), 1, "gpu3", "1 more"),
    Mutation("gpu.nvlink_symbols", "worker3", "gpu.nvlink.symbol", ("gpu3",), 700, "gpu3", "700"),
    Mutation("gpu.nvlink_crc", "worker3", "gpu.nvlink.crc", ("gpu3",), 700, "gpu3", "700 more"),
    Mutation(
        "gpu.topology",
        "worker3",
        "gpu.topology",
        ("gpu3 mlx5_0",),
        "SYS",
        found="gpu3 mlx5_0: SYS",
    ),
    Mutation("gpu.numa_node", "worker3", "gpu.pci.numa_node", (SLOT,), 1, SLOT, "NUMA node 1"),
    Mutation("gpu.iommu", "worker3", "gpu.pci.iommu", (SLOT,), "DMA-FQ", SLOT, "DMA-FQ"),
    Mutation("gpu.acs", "worker3", "gpu.pci.redirects", (PORT,), True, PORT, "redirected by ACS"),
    Mutation("gpu.bar", "worker3", "gpu.pci.bar_mib", (SLOT,), 256, SLOT, "256 MiB"),
    Mutation(
        "gpu.sxid",
        "worker3",
        "driver.sxid",
        ("0000:05:00.0",),
        ["12028 Non-fatal"],
        "0000:05:00.0",
        "SXid 12028 Non-fatal",
    ),
    Mutation(
        "gpu.memory_used", "worker3", "gpu.memory.used_mib", ("gpu3",), 5000, "gpu3", "5000 MiB"
    ),
    Mutation("gpu.answer_time", "worker3", "gpu.answered_in_s", (), 6.5, found="6.5 s"),
    Mutation(
        "driver.parameters",
        "worker3",
        "driver.parameters",
        ("EnableMSI",),
        "0",
        "EnableMSI",
        "0",
    ),
    Mutation(
        *("driver.helpers", "worker3", "driver.helpers", (), ["gdrdrv", "nvidia_peermem"]),
        *("nvidia_peermem", "loaded"),
    ),
    Mutation("driver.helpers", "worker2", "driver.helpers", (), [], "gdrdrv", "not loaded"),
    Mutation(
        "gpu.uuid_unique",
        "worker3",
        "gpu.uuid",
        ("gpu3",),
        "GPU-00000006-0000-000000000001",
        found="worker3 gpu3",
    ),
)


ALL = (*MUTATIONS, *MACHINE, *SYSTEM, *NETWORK)
OF_OTHER_CLUSTERS = frozenset(
    {
        *(rule.id for rule in all_rules() if rule.id.startswith("kubernetes.")),
        *("node.reachable", "gpu.nvlink_domain", "gpu.power_module"),
        *("selinux.module", "selinux.boolean", "selinux.label"),
        "firewall.rules",
    }
)
"""Rules that no changed value of this cluster can break: see below, test_racks.py,
test_selinux.py, test_firewall.py, test_kubernetes.py and tests/recordings."""


@pytest.mark.parametrize("one", ALL, ids=lambda m: f"{m.rule}-{'.'.join(m.path) or m.reading}")
def test_one_changed_value_gives_one_finding_that_names_it(one: Mutation) -> None:
    changed = recorded.mutated(recorded.consistent(), one.node, one.reading, one.path, one.value)
    found = recorded.only(recorded.report(changed))
    where = "worker3" if one.rule.startswith("slurm.") else one.node
    assert (found.rule, found.device, found.status) == (one.rule, one.device, one.status.value)
    assert where in NodeSet(found.node)
    assert one.found in found.found
    assert found.expected
    assert found.reference
    assert "{" not in found.repair


def test_a_node_without_a_record_is_one_finding() -> None:
    found = recorded.only(recorded.report(recorded.unreachable(recorded.consistent(), "worker3")))
    assert (found.rule, found.node) == ("node.reachable", "worker3")
    assert found.found == "ssh: Could not connect (timed out)"


def test_every_rule_has_a_mutation() -> None:
    mutated = {one.rule for one in ALL} | OF_OTHER_CLUSTERS
    # tests/checks/test_fingerprint.py changes objects of each domain.
    others = {rule.id for rule in all_rules() if not rule.id.startswith(FAMILY)}
    assert others == mutated
