"""The catalogue of checks that clusters of GPUs need, and what of ours covers each entry.

Merged from the health suites of vendors and large sites: a number once given stays.
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
    """What of it no rule covers, and why."""


TOPICS = {
    "G": "Boards",
    "N": "Adapters and networks",
    "H": "Processors, memory, system",
    "C": "Containers, whole clusters",
    "R": "Collectors",
}
"""First letter of an entry's number -> heading."""

LOAD = "shows under load only, and a check starts none"

ENTRIES = (
    Entry("G01", "count of boards", ("gpu.count", "gpu.count_driver", "gpu.count_pci")),
    Entry("G02", "model and memory", ("gpu.name", "gpu.memory")),
    Entry("G03", "running driver", ("gpu.driver_version", "driver.module_version")),
    Entry(
        "G04",
        "library, loaded module and module on disk are one version",
        ("driver.library_version", "driver.module_on_disk", "driver.module_next"),
    ),
    Entry(
        "G05",
        "flavour and parameters of the module",
        ("driver.module_flavour", "driver.parameters"),
    ),
    Entry(
        "G06",
        "GSP firmware in use",
        ("gpu.gsp",),
        "its version is in `nvidia-smi -q` alone, which measures PCIe for 40 ms a board; the "
        "driver brings it",
    ),
    Entry(
        "G07",
        "VBIOS and information store",
        ("gpu.vbios", "gpu.inforom_version", "gpu.inforom_valid"),
    ),
    Entry("G08", "power limit", ("gpu.power_limit", "gpu.power_default", "gpu.power_range")),
    Entry(
        "G09",
        "time at the power limit",
        lacks="is read (`gpu.slowdown.power_cap_us`), and grows on every board that works: it "
        "tells something where all have one load, and a check starts none; a wrong limit is G08",
    ),
    Entry("G10", "power brake", ("gpu.power_brake", "gpu.slowdown")),
    Entry("G11", "slowdown by heat", ("gpu.thermal_hw", "gpu.thermal_sw", "gpu.slowdown")),
    Entry(
        "G12",
        "temperature",
        ("gpu.temperature",),
        f"warmer than the same slot of the peers: {LOAD}",
    ),
    Entry(
        "G13",
        "SM clock at work",
        ("gpu.clock_idle",),
        f"locked clocks are found on idle boards; a low clock {LOAD}",
    ),
    Entry("G14", "memory clock", ("gpu.clock_memory",)),
    Entry("G15", "highest clocks", ("gpu.clock_max", "gpu.clock_max_memory")),
    Entry("G16", "error correction on", ("gpu.ecc",)),
    Entry(
        "G17",
        "uncorrected memory errors",
        ("gpu.ecc_uncorrected", "gpu.ecc_uncorrected_lifetime"),
    ),
    Entry("G18", "corrected memory errors", ("gpu.ecc_corrected",)),
    Entry("G19", "threshold of SRAM errors", ("gpu.ecc_sram_threshold",)),
    Entry(
        "G20",
        "replaced memory rows",
        ("gpu.row_remap", "gpu.row_remapped", "gpu.row_spares"),
    ),
    Entry("G21", "recovery action", ("gpu.recovery_action",)),
    Entry("G22", "persistence mode", ("gpu.persistence", "unit.active")),
    Entry(
        "G23",
        "compute mode, MIG, confidential computing",
        ("gpu.compute_mode", "gpu.mig", "gpu.mig_layout", "gpu.confidential"),
    ),
    Entry("G24", "lanes of the PCIe link", ("gpu.pcie_width", "gpu.pcie_width_max")),
    Entry("G25", "PCIe generation", ("gpu.pcie_generation", "gpu.pcie_generation_busy")),
    Entry("G26", "PCIe path to the root port", ("gpu.pcie_path_speed", "gpu.pcie_path_width")),
    Entry(
        "G27",
        "errors of PCIe links",
        ("gpu.pcie_corrected", "gpu.pcie_uncorrected", "gpu.pcie_fatal"),
        "the boards' own replay counter, which DCGM and `nvidia-smi -q` have alone",
    ),
    Entry("G28", "NVLinks up", ("gpu.nvlink",)),
    Entry(
        "G29",
        "NVLink errors",
        ("gpu.nvlink_crc", "gpu.nvlink_recovery", "gpu.nvlink_replay"),
    ),
    Entry("G30", "fabric manager", ("gpu.fabric", "unit.active", "package.version")),
    Entry("G31", "topology", ("gpu.topology",)),
    Entry("G32", "order of the boards", ("gpu.order",)),
    Entry(
        "G33",
        "direct transfers, ACS, IOMMU",
        ("gpu.acs", "gpu.iommu"),
        "the driver's own word (`nvidia-smi topo -p2p`): not among the five questions of the probe",
    ),
    Entry("G34", "GPUDirect RDMA", ("driver.helpers", "driver.module_flavour")),
    Entry("G35", "XID and SXid", ("gpu.xid", "gpu.sxid")),
    Entry("G36", "memory that nobody gave back", ("gpu.memory_used",)),
    Entry("G37", "identity", ("gpu.uuid_unique", "gpu.serial_unique")),
    Entry("G38", "memory window, addressing", ("gpu.bar", "gpu.addressing")),
    Entry(
        "G39",
        "health by DCGM",
        lacks="`dcgmi health` wants a watch set first, which changes its engine; what it looks at "
        "is judged from the same counters (G10 to G29)",
    ),
    Entry(
        "N01",
        "count and names of RDMA devices",
        ("rdma.count", "rdma.names", "rdma.interface"),
    ),
    Entry("N02", "firmware and make", ("rdma.firmware", "rdma.board")),
    Entry("N03", "state of the ports", ("rdma.port_state",)),
    Entry("N04", "rate of the ports", ("rdma.rate",)),
    Entry(
        "N05",
        "link layer, partitions, subnet manager, MTU",
        ("rdma.link_layer", "rdma.pkeys", "rdma.subnet_manager", "net.mtu"),
        "the active MTU of InfiniBand ports, which the kernel tells verbs programs alone",
    ),
    Entry("N06", "PCIe link of the adapter", ("rdma.pcie_link",)),
    Entry("N07", "errors of the ports", ("rdma.errors", "rdma.link_downed", "rdma.discards")),
    Entry(
        "N08",
        "congestion",
        lacks="waits and marks grow on every healthy port at work: they tell something within one "
        "job, and a check starts none",
    ),
    Entry("N09", "retransmission", ("rdma.ack_timeouts", "rdma.sequence_errors")),
    Entry("N10", "flapping links", ("net.carrier", "rdma.link_downed")),
    Entry("N11", "GUIDs", ("rdma.guid",)),
    Entry("N12", "nearest board", ("rdma.gpu_affinity", "rdma.numa", "gpu.topology")),
    Entry("N13", "driver stack", ("rdma.driver", "package.version")),
    Entry(
        "N14",
        "settings of the adapters",
        ("rdma.settings",),
        "those of the firmware: `mlxconfig` takes its lock, and comes with the vendor's tools",
    ),
    Entry("N15", "read requests, relaxed ordering", ("rdma.pci_control",)),
    Entry(
        "N16",
        "RoCE: pauses, marks, congestion control",
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
        "rings, queues, offloads, pause",
        ("net.rings", "net.channels", "net.offloads", "net.pause", "net.queue"),
        "interrupt coalescing (`ethtool -c`) is not read",
    ),
    Entry("N20", "Ethernet errors", ("net.errors",)),
    Entry(
        "N21",
        "MTU, addresses, routes, ARP",
        (
            *("net.mtu", "net.address", "net.address_unique", "net.mac_unique"),
            *("net.default_route", "sysctl.common"),
        ),
        "routing rules of single rails",
    ),
    Entry(
        "N22",
        "adaptive routing",
        ("rdma.adaptive_routing",),
        "InfiniBand's, which the subnet manager decides: `ibdiagnet -r` tells it of the fabric, "
        "no node does",
    ),
    Entry("N23", "what NCCL sees", lacks="only a job can tell: NCCL's own log at its start"),
    Entry(
        "H01",
        "machine and BIOS",
        ("platform.product", "platform.bios"),
        "the BMC's firmware: needs ipmitool and the kernel's driver of it",
    ),
    Entry("H02", "processors", ("cpu.model", "cpu.count", "cpu.numa", "cpu.smt")),
    Entry("H03", "microcode, mitigations", ("cpu.microcode", "cpu.mitigations")),
    Entry(
        "H04",
        "governor, preference, turbo",
        ("cpu.governor", "cpu.energy_preference", "cpu.boost", "cpu.frequency_driver"),
    ),
    Entry("H05", "idle states", ("cpu.idle_states", "kernel.max_cstate")),
    Entry(
        "H06",
        "clock of the processors",
        ("cpu.frequency_limits",),
        f"limits are compared; a low clock {LOAD}",
    ),
    Entry(
        "H07",
        "power limits of the processors",
        ("cpu.power_limit",),
        "a limit that the BMC keeps to itself",
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
        "transparent huge pages, page merging",
        ("kernel.thp", "kernel.setting", "kernel.page_merging"),
    ),
    Entry(
        "H14",
        "CPUs of jobs",
        (
            *("cpuset.housekeeping", "cpuset.services", "cpu.isolated", "cpu.nohz_full"),
            *("slurm.node", "container.cpus"),
        ),
        "the set of a running job, which only the job can tell",
    ),
    Entry("H15", "interrupts", ("irq.affinity",)),
    Entry("H16", "kernel", ("kernel.release", "kernel.newest")),
    Entry(
        "H17",
        "kernel arguments",
        ("kernel.args", "kernel.args_persisted", "kernel.args_foreign", "kernel.cmdline"),
    ),
    Entry("H18", "sysctls", ("sysctl.running", "sysctl.persisted", "sysctl.common")),
    Entry("H19", "limits", ("limits.memlock", "limits.open_files")),
    Entry("H20", "kernel modules", ("kernel.modules", "kernel.nouveau", "driver.helpers")),
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
        "swap, lack of memory",
        ("memory.swap", "sysctl.common"),
        "processes that the kernel ended for want of memory: mostly those of a job beyond its own "
        "limit, which is no fault of the node",
    ),
    Entry(
        "H25",
        "hung tasks",
        ("kernel.log", "kernel.faulted"),
        "zombies and tasks in state D that the kernel has not called hung yet",
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
        "names",
        ("os.hostname", "hosts.entries", "os.resolver", "os.machine_id"),
    ),
    Entry(
        "H28",
        "load beside the jobs",
        ("service.cpu", "cron.jobs", "unit.peers"),
        "programs outside of services",
    ),
    Entry(
        "H29",
        "taint, uptime",
        ("kernel.taint",),
        "uptime: a reboot is no fault; rules of growth begin anew with it",
    ),
    Entry(
        "H30",
        "power supplies, fans, sensors",
        lacks="the BMC's: needs ipmitool and the kernel's driver of it; their effect is G10, G11",
    ),
    Entry("C01", "boards", ("container.devices", "container.uuids", "cdi.devices")),
    Entry("C02", "device files", ("container.control_files", "container.capabilities")),
    Entry("C03", "RDMA devices", ("container.rdma_devices", "rdma.access")),
    Entry("C04", "driver libraries", ("container.libraries", "cdi.driver")),
    Entry(
        "C05",
        "topology",
        lacks="`nvidia-smi topo` would have to run in the container; the boards' numbers, files "
        "and CPUs are compared (C01, C02, C06)",
    ),
    Entry(
        "C06",
        "CPUs",
        ("container.cpus",),
        "quotas (`cpu.max`) and how often they held a job back",
    ),
    Entry(
        "C07",
        "locked and shared memory",
        ("container.memlock", "container.shm"),
        "limits of huge pages (the hugetlb control group)",
    ),
    Entry(
        "C08",
        "a reload of systemd",
        lacks="a check must not reload systemd on a node; CDI, by which ours get boards, keeps "
        "them (`tests/lab/test_containers.py`)",
    ),
    Entry(
        "C09",
        "image, NCCL, its environment",
        lacks="belong to the job; NCCL of the nodes is a package (H21)",
    ),
    Entry("C10", "versions of engine and toolkit", ("package.version", "cdi.driver")),
    Entry("C11", "speed in a container", lacks=LOAD),
    Entry(
        "C12",
        "two clusters that should be identical",
        lacks="no rule: `lockstep compare` holds all of them against two clusters "
        "(`tests/commands/test_compare.py`)",
    ),
    Entry("R01", "interval and settings", ("collector.settings",)),
    Entry("R02", "one collector of a kind", ("collector.single",)),
    Entry("R03", "time to answer", ("gpu.answer_time",)),
)

OURS = {
    "file.*": "what the deploy wrote is what is there",
    "gpu.supported_fields": "what one board does not tell and its peers do is no value of it",
    "kernel.aspm": "power saving of links adds latency",
    "kernel.security": "security modules cost time, and change what programs may do",
    "left_over.*": "what an earlier deploy wrote is removed, or known",
    "listener.family": "IPv6-only networks: a service that listens on IPv4 alone is not there",
    "munge.*": "without it no job starts",
    "node.reachable": "what could not be read is a finding",
    "os.*": "what the description says of the system",
    "slurm.*": "what the scheduler makes of the node",
}
"""Rules that no entry asks for -> why there is one."""
