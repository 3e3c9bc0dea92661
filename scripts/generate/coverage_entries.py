"""The catalogue of checks that GPU clusters need, and the rules that cover each entry.

It merges the health suites of vendors and large sites. The number of an entry never changes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One entry of the catalogue."""

    id: str
    title: str
    rules: tuple[str, ...] = ()
    lacks: str = ""
    """The part that no rule covers, and why."""


TOPICS = {
    "G": "GPUs",
    "N": "Adapters and networks",
    "H": "Processors, memory, system",
    "C": "Containers, whole clusters",
    "R": "Collectors",
}
"""First letter of an entry's id -> heading."""

LOAD = "shows only under load, and a check creates none"

ENTRIES = (
    Entry("G01", "number of GPUs", ("gpu.count", "gpu.count_driver", "gpu.count_pci")),
    Entry("G02", "model and memory", ("gpu.name", "gpu.memory")),
    Entry("G03", "running driver", ("gpu.driver_version", "driver.module_version")),
    Entry(
        "G04",
        "library, loaded module and module on disk have the same version",
        ("driver.library_version", "driver.module_on_disk", "driver.module_next"),
    ),
    Entry(
        "G05",
        "module flavour and parameters",
        ("driver.module_flavour", "driver.parameters"),
    ),
    Entry(
        "G06",
        "GSP firmware in use",
        ("gpu.gsp",),
        "its version: only `nvidia-smi -q` shows it, which measures PCIe for 40 ms per GPU; the "
        "firmware is part of the driver",
    ),
    Entry(
        "G07",
        "VBIOS and InfoROM",
        ("gpu.vbios", "gpu.inforom_version", "gpu.inforom_valid"),
    ),
    Entry("G08", "power limit", ("gpu.power_limit", "gpu.power_default", "gpu.power_range")),
    Entry(
        "G09",
        "time at the power limit",
        lacks="it is read (`gpu.slowdown.power_cap_us`) but grows on every busy GPU: it means "
        "something only under equal load, and a check creates none; a wrong limit is G08",
    ),
    Entry("G10", "power brake", ("gpu.power_brake", "gpu.slowdown")),
    Entry("G11", "thermal slowdown", ("gpu.thermal_hw", "gpu.thermal_sw", "gpu.slowdown")),
    Entry(
        "G12",
        "temperature",
        ("gpu.temperature",),
        f"a GPU that is warmer than those in the same slot of the peers: {LOAD}",
    ),
    Entry(
        "G13",
        "SM clock under load",
        ("gpu.clock_idle",),
        f"a low clock {LOAD}; locked clocks are found on idle GPUs",
    ),
    Entry("G14", "memory clock", ("gpu.clock_memory",)),
    Entry(
        "G15",
        "maximum clocks, application clocks",
        (
            *("gpu.clock_max", "gpu.clock_max_memory"),
            *("gpu.clock_application", "gpu.clock_application_memory"),
        ),
    ),
    Entry("G16", "ECC enabled", ("gpu.ecc",)),
    Entry(
        "G17",
        "uncorrected memory errors",
        ("gpu.ecc_uncorrected", "gpu.ecc_uncorrected_lifetime"),
    ),
    Entry("G18", "corrected memory errors", ("gpu.ecc_corrected",)),
    Entry("G19", "SRAM error threshold", ("gpu.ecc_sram_threshold",)),
    Entry(
        "G20",
        "remapped memory rows",
        ("gpu.row_remap", "gpu.row_remapped", "gpu.row_spares"),
    ),
    Entry("G21", "recovery action", ("gpu.recovery_action",)),
    Entry("G22", "persistence mode", ("gpu.persistence", "unit.active")),
    Entry(
        "G23",
        "compute mode, MIG, confidential computing",
        ("gpu.compute_mode", "gpu.mig", "gpu.mig_layout", "gpu.confidential"),
    ),
    Entry("G24", "PCIe link width", ("gpu.pcie_width", "gpu.pcie_width_max")),
    Entry("G25", "PCIe generation", ("gpu.pcie_generation", "gpu.pcie_generation_busy")),
    Entry("G26", "PCIe path to the root port", ("gpu.pcie_path_speed", "gpu.pcie_path_width")),
    Entry(
        "G27",
        "PCIe link errors",
        ("gpu.pcie_corrected", "gpu.pcie_uncorrected", "gpu.pcie_fatal"),
        "the GPUs' own replay counter, which only DCGM and `nvidia-smi -q` show",
    ),
    Entry("G28", "NVLinks up", ("gpu.nvlink",)),
    Entry(
        "G29",
        "NVLink errors",
        ("gpu.nvlink_crc", "gpu.nvlink_recovery", "gpu.nvlink_replay"),
    ),
    Entry(
        "G30",
        "fabric manager",
        ("gpu.fabric", "gpu.nvlink_domain", "unit.active", "package.version"),
    ),
    Entry("G31", "topology", ("gpu.topology",)),
    Entry("G32", "order of the GPUs", ("gpu.order",)),
    Entry(
        "G33",
        "direct transfers, ACS, IOMMU",
        ("gpu.acs", "gpu.iommu"),
        "the driver's own result (`nvidia-smi topo -p2p`), which the probe does not read",
    ),
    Entry("G34", "GPUDirect RDMA", ("driver.helpers", "driver.module_flavour")),
    Entry("G35", "XID and SXid", ("gpu.xid", "gpu.sxid")),
    Entry("G36", "memory in use without a job", ("gpu.memory_used",)),
    Entry("G37", "UUIDs and serial numbers", ("gpu.uuid_unique", "gpu.serial_unique")),
    Entry("G38", "BAR size, addressing mode", ("gpu.bar", "gpu.addressing")),
    Entry(
        "G39",
        "DCGM health",
        lacks="`dcgmi health` first needs a watch, which changes DCGM's host engine; rules judge "
        "the same counters (G10 to G29)",
    ),
    Entry(
        "N01",
        "number and names of RDMA devices",
        ("rdma.count", "rdma.names", "rdma.interface"),
    ),
    Entry("N02", "firmware and board", ("rdma.firmware", "rdma.board")),
    Entry("N03", "port state", ("rdma.port_state",)),
    Entry("N04", "port rate", ("rdma.rate",)),
    Entry(
        "N05",
        "link layer, partitions, subnet manager, MTU",
        ("rdma.link_layer", "rdma.pkeys", "rdma.subnet_manager", "net.mtu"),
        "the active MTU of InfiniBand ports, which the kernel shows only to verbs programs",
    ),
    Entry("N06", "PCIe link of the adapter", ("rdma.pcie_link",)),
    Entry("N07", "port errors", ("rdma.errors", "rdma.link_downed", "rdma.discards")),
    Entry(
        "N08",
        "congestion",
        lacks="wait and mark counters grow on every healthy busy port: they mean something only "
        "during a job, and a check starts none",
    ),
    Entry("N09", "retransmission", ("rdma.ack_timeouts", "rdma.sequence_errors")),
    Entry("N10", "flapping links", ("net.carrier", "rdma.link_downed")),
    Entry("N11", "GUIDs", ("rdma.guid",)),
    Entry("N12", "nearest GPU", ("rdma.gpu_affinity", "rdma.numa", "gpu.topology")),
    Entry("N13", "driver stack", ("rdma.driver", "rdma.driver_on_disk", "package.version")),
    Entry(
        "N14",
        "adapter settings",
        ("rdma.settings",),
        "firmware settings: `mlxconfig` locks the firmware, and is part of the vendor's tools",
    ),
    Entry("N15", "read requests, relaxed ordering", ("rdma.pci_control",)),
    Entry(
        "N16",
        "RoCE: PFC, ECN, congestion control",
        ("rdma.pfc", "rdma.priorities", "rdma.ecn", "rdma.traffic_class", "rdma.acceleration"),
    ),
    Entry(
        "N17",
        "Ethernet link",
        ("net.speed", "net.state"),
        "forward error correction (`ethtool --show-fec`) is not read",
    ),
    Entry("N18", "Ethernet driver and firmware", ("net.driver",)),
    Entry(
        "N19",
        "rings, queues, offloads, pause frames",
        ("net.rings", "net.channels", "net.offloads", "net.pause", "net.queue"),
        "interrupt coalescing (`ethtool -c`) is not read",
    ),
    Entry("N20", "Ethernet errors", ("net.errors",)),
    Entry(
        "N21",
        "MTU, addresses, routes, ARP",
        (
            *("net.mtu", "net.address", "net.address_unique", "net.mac_unique"),
            *("net.default_route", "net.gateway", "sysctl.common"),
        ),
        "policy routing rules per rail",
    ),
    Entry(
        "N22",
        "adaptive routing",
        ("rdma.adaptive_routing",),
        "on InfiniBand, where the subnet manager sets it: `ibdiagnet -r` reads it from the fabric, "
        "not from a node",
    ),
    Entry("N23", "what NCCL sees", lacks="only a job shows it, in NCCL's log"),
    Entry(
        "H01",
        "machine and BIOS",
        ("platform.product", "platform.bios", "platform.bmc_firmware"),
        "settings of BIOS and BMC",
    ),
    Entry("H02", "processors", ("cpu.model", "cpu.count", "cpu.numa", "cpu.smt")),
    Entry("H03", "microcode, mitigations", ("cpu.microcode", "cpu.mitigations")),
    Entry(
        "H04",
        "governor, energy preference, turbo",
        ("cpu.governor", "cpu.energy_preference", "cpu.boost", "cpu.frequency_driver"),
    ),
    Entry("H05", "idle states", ("cpu.idle_states", "kernel.max_cstate")),
    Entry(
        "H06",
        "processor clock",
        ("cpu.frequency_limits",),
        f"a low clock {LOAD}; the limits are compared",
    ),
    Entry(
        "H07",
        "processor power limits",
        ("cpu.power_limit",),
        "a limit that only the BMC knows",
    ),
    Entry("H08", "memory", ("memory.at_least", "memory.total", "memory.modules")),
    Entry("H09", "memory errors", ("memory.uncorrected", "memory.corrected")),
    Entry(
        "H10",
        "NUMA",
        ("cpu.numa", "numa.distance", "gpu.numa_node", "rdma.numa"),
    ),
    Entry("H11", "NUMA balancing", ("kernel.setting", "sysctl.running", "sysctl.common")),
    Entry("H12", "huge pages by NUMA node", ("hugepages", "hugepages.mount")),
    Entry(
        "H13",
        "transparent huge pages, KSM",
        ("kernel.thp", "kernel.setting", "kernel.page_merging"),
    ),
    Entry(
        "H14",
        "CPUs of jobs",
        (
            *("cpuset.housekeeping", "cpuset.services", "cpu.isolated", "cpu.nohz_full"),
            *("slurm.node", "container.cpus"),
        ),
        "the CPU set of a running job, which only the job sees",
    ),
    Entry("H15", "interrupts", ("irq.affinity",)),
    Entry("H16", "kernel", ("kernel.release", "kernel.page_size", "kernel.newest")),
    Entry(
        "H17",
        "kernel arguments",
        ("kernel.args", "kernel.args_persisted", "kernel.args_foreign", "kernel.cmdline"),
    ),
    Entry("H18", "sysctls", ("sysctl.running", "sysctl.persisted", "sysctl.common")),
    Entry("H19", "limits", ("limits.memlock", "limits.open_files")),
    Entry(
        "H20",
        "kernel modules",
        (
            *("kernel.modules", "kernel.nouveau", "driver.helpers"),
            *("dkms.signed", "secure_boot.enrolled", "secure_boot.state"),
        ),
    ),
    Entry(
        "H21",
        "packages",
        ("package.version", "package.present", "package.held", "package.broken"),
    ),
    Entry(
        "H22",
        "services",
        (
            *("unit.active", "unit.enabled", "unit.failed", "unit.masked", "unit.forbidden"),
            "unit.peers",
        ),
    ),
    Entry("H23", "time", ("time.synchronised", "time.offset", "kernel.clocksource")),
    Entry(
        "H24",
        "swap, out of memory",
        ("memory.swap", "sysctl.common"),
        "processes that the OOM killer ended: mostly in jobs that exceeded their own limit, which "
        "is not a fault of the node",
    ),
    Entry(
        "H25",
        "hung tasks",
        ("kernel.log", "kernel.faulted"),
        "zombies, and tasks in state D that the kernel has not reported as hung yet",
    ),
    Entry(
        "H26",
        "file systems, disks",
        (
            *("mounts.shared", "mounts.fstab", "mounts.writable"),
            *("storage.space", "storage.inodes", "storage.nvme"),
        ),
    ),
    Entry(
        "H27",
        "host names, DNS, machine id",
        ("os.hostname", "hosts.entries", "os.resolver", "os.machine_id"),
    ),
    Entry(
        "H28",
        "load beside the jobs",
        ("service.cpu", "cron.jobs", "unit.peers"),
        "programs that are not part of a service",
    ),
    Entry(
        "H29",
        "taint, uptime",
        ("kernel.taint",),
        "uptime: a reboot is not a fault; growth rules start again after it",
    ),
    Entry(
        "H30",
        "power supplies, fans, sensors",
        lacks="the BMC reads them: needs ipmitool and the IPMI driver; their effect is G10, G11",
    ),
    Entry("C01", "GPUs", ("container.devices", "container.uuids", "cdi.devices")),
    Entry("C02", "device files", ("container.control_files", "container.capabilities")),
    Entry("C03", "RDMA devices", ("container.rdma_devices", "rdma.access")),
    Entry("C04", "driver libraries", ("container.libraries", "cdi.driver")),
    Entry(
        "C05",
        "topology",
        lacks="`nvidia-smi topo` would have to run in the container; the GPUs' numbers, files "
        "and CPUs are compared (C01, C02, C06)",
    ),
    Entry(
        "C06",
        "CPUs",
        ("container.cpus",),
        "quotas (`cpu.max`) and how often they throttled a job",
    ),
    Entry(
        "C07",
        "locked and shared memory",
        ("container.memlock", "container.shm"),
        "huge page limits (the hugetlb cgroup controller)",
    ),
    Entry(
        "C08",
        "GPUs after systemctl daemon-reload",
        lacks="a check must not reload systemd on a node; containers that use CDI keep "
        "their GPUs (`tests/lab/test_containers.py`)",
    ),
    Entry(
        "C09",
        "image, NCCL, its environment",
        lacks="they belong to the job; NCCL on the nodes is a package (H21)",
    ),
    Entry("C10", "versions of engine and toolkit", ("package.version", "cdi.driver")),
    Entry("C11", "speed in a container", lacks=LOAD),
    Entry(
        "C12",
        "two clusters that should be identical",
        lacks="no rule of its own: `lockstep compare` applies the rules to two clusters "
        "(`tests/commands/test_compare.py`)",
    ),
    Entry("R01", "interval and settings", ("collector.settings",)),
    Entry("R02", "only one collector of each kind", ("collector.single",)),
    Entry("R03", "response time of the driver", ("gpu.answer_time",)),
)

OURS = {
    "file.*": "the files still have the content that the deploy wrote",
    "gpu.supported_fields": "no rule can check a field that a GPU does not report",
    "kernel.aspm": "power saving of links adds latency",
    "kernel.security": "security modules cost time, and change what programs may do",
    "left_over.*": "what an earlier deploy left behind is removed or reported",
    "listener.family": "on an IPv6 network, a service that listens on IPv4 only cannot be reached",
    "munge.*": "without munge, no job starts",
    "node.reachable": "a node that could not be read is a finding",
    "os.*": "the system settings in the description",
    "slurm.*": "the scheduler's view of the node",
}
"""Pattern of rules without an entry -> why they exist."""
