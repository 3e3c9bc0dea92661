"""What a machine is: processors, memory, GPUs, network interfaces, and what its kernel does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lockstep.spec.fields import (
    Count,
    CpuList,
    DeviceNames,
    Devices,
    MigProfile,
    Model,
    Name,
    NumaNode,
    PciAddress,
)

MEMORY_SHARE = 0.95
"""Of the memory every machine of the class has: a slurmd that reports less is drained."""


class Gpu(Model):
    """The GPUs of a hardware class, as bought; never read from a node."""

    model: Name
    """A file name of lockstep/catalog/gpus, and Slurm's GRES type."""
    count: Annotated[int, Field(ge=1, le=64)]
    devices: Devices = ""
    """Device files, ``/dev/nvidia[0-7]``; empty: numbered from 0."""
    numa: dict[NumaNode, CpuList] = Field(default_factory=dict)
    """NUMA node -> GPU slots on it (``{0: "0-3", 1: "4-7"}``); empty: spread in order."""
    nvswitch: bool = False
    """The baseboard has NVSwitches (HGX with eight GPUs): a fabric manager must run."""
    multi_node_nvlink: bool = False
    """NVLink goes beyond the node (GB200 NVL72): IMEX must run."""
    power_limit_w: Annotated[float, Field(gt=0)] | None = None
    """Watts; None: the board's own default (power.default_limit)."""
    clocks_mhz: tuple[Count, Count] | None = None
    """Lowest and highest SM clock to lock the GPUs to; None: not locked."""
    compute_mode: Literal["default", "exclusive_process", "prohibited"] = "default"
    ecc: bool = True
    persistence: bool = True
    in_sysfs: bool = True
    """The kernel has them on its PCI bus (/sys/bus/pci); False: a stand-in, or a VM without it."""
    mig: tuple[MigProfile, ...] = ()
    """GPU instances of each GPU, in the order in which they are made; empty: MIG is off."""


class Nics(Model):
    """Fabric interfaces of a hardware class."""

    count: Annotated[int, Field(ge=0, le=64)] = 0
    speed_gbit: Annotated[float, Field(gt=0)] | None = None
    rdma: Literal["none", "infiniband", "roce"] = "none"
    """What the interfaces speak beside TCP; the link layer of their RDMA devices."""
    rdma_devices: DeviceNames = ""
    """Names below /sys/class/infiniband, ``mlx5_[0-7]``; empty: the kernel's, not judged."""
    interfaces: DeviceNames = ""
    """Names of the network interfaces, ``fabric[0-7]``; NCCL and UCX are held to them."""


class Hugepages(Model):
    """Persistent huge pages of one size on one NUMA node."""

    size: Literal["2M", "1G"]
    numa_node: NumaNode
    count: Count

    @property
    def mib(self) -> int:
        """Memory taken, in MiB."""
        return self.count * {"2M": 2, "1G": 1024}[self.size]


class Kernel(Model):
    """What the kernel of a hardware class does with memory, CPUs and devices; None: not set.

    Sources: kernel documentation, admin-guide/kernel-parameters, admin-guide/mm/transhuge,
    admin-guide/pm/cpufreq and intel_idle.
    """

    transparent_hugepages: Literal["always", "madvise", "never"] | None = None
    transparent_hugepages_defrag: (
        Literal["always", "defer", "defer+madvise", "madvise", "never"] | None
    ) = None
    numa_balancing: bool | None = None
    """Moving pages between NUMA nodes behind the job's back (kernel.numa_balancing)."""
    cpu_governor: (
        Literal["performance", "powersave", "schedutil", "ondemand", "conservative"] | None
    ) = None
    max_cstate: Annotated[int, Field(ge=0, le=9)] | None = None
    """Deepest idle state (processor.max_cstate, intel_idle.max_cstate)."""
    iommu: Literal["pt", "nopt", "off"] | None = None
    """"pt": devices reach memory directly, which GPUDirect between devices needs."""
    disable_acs_redir: tuple[PciAddress, ...] = ()
    """PCI bridges that must not send peer-to-peer traffic through the root (pci=)."""
    isolation: tuple[Literal["managed_irq", "nohz_full", "domain"], ...] = ()
    """How far the workload CPUs are cut off from boot on, beyond IRQs and RCU callbacks.

    "domain" takes them out of load balancing: threads of a job that are not bound one by one
    then pile up on one CPU.
    """


class HardwareClass(Model):
    """Machines that are bought to be equal; nodes are compared within a class."""

    sockets: Count
    cores_per_socket: Count
    threads_per_core: Annotated[int, Field(ge=1, le=8)] = 1
    cpu_numbering: Literal["threads_last", "threads_adjacent"] = "threads_last"
    """How Linux numbers threads: all first threads first (usual on x86), or core by core."""
    numa_nodes: Count = 1
    memory_mib: Annotated[int, Field(ge=512)]
    """What every machine of the class has at least (MemTotal of /proc/meminfo, in MiB)."""
    gpu: Gpu | None = None
    nics: Nics = Nics()
    hugepages: tuple[Hugepages, ...] = ()
    housekeeping_cpus: CpuList = ""
    """Linux CPU numbers for the system, daemons and exporters; jobs get the others."""
    cgroup: Literal["v2", "none"] = "v2"
    """"none": the machines have no cgroup controllers (a container with a shared kernel)."""
    boot_loader: Literal["grub", "none"] = "grub"
    """"none": the machines do not boot a kernel of their own; no kernel command line."""
    kernel: Kernel = Kernel()
    kernel_args: tuple[str, ...] = ()
    """Further kernel arguments; those for CPUs, huge pages and ``kernel`` come from the plan."""
    clock: Literal["own", "host"] = "own"
    """"host": the clock belongs to the machine below (a container); chronyd only watches it."""

    @property
    def cpus(self) -> int:
        """Number of logical CPUs."""
        return self.sockets * self.cores_per_socket * self.threads_per_core

    @property
    def hugepages_mib(self) -> int:
        """Memory taken by huge pages, in MiB."""
        return sum(pages.mib for pages in self.hugepages)

    @property
    def slurm_memory_mib(self) -> int:
        """What Slurm is told of (RealMemory), in MiB: some memory is left, less huge pages."""
        return int(self.memory_mib * MEMORY_SHARE) - self.hugepages_mib
