"""Hardware classes: processors, memory, GPUs, network interfaces and kernel settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from lockstep.catalog import gpus
from lockstep.catalog.gpus import GpuModel
from lockstep.spec.fields import (
    Count,
    CpuList,
    DeviceNames,
    Devices,
    FirmwareVersion,
    GpuName,
    MigProfile,
    Model,
    Name,
    NumaNode,
    NvLinks,
    PciAddress,
)

CgroupUse = Literal["v2", "devices", "none"]

MEMORY_SHARE = 0.95
"""Fraction of ``memory_mib`` declared to Slurm, which drains nodes that report less memory."""


class OwnGpu(Model):
    """A GPU model that the catalogue does not have. A value that is left out is not compared with
    the description: the GPU's own default and the node's peers decide."""

    name: GpuName
    """As ``nvidia-smi --query-gpu=name`` prints it."""
    architecture: Name | None = None
    """A row of the table of architectures in docs/nvidia.md; None: the driver is not checked."""
    memory_mib: Count | None = None
    """Memory of a GPU, in MiB, as ``nvidia-smi --query-gpu=memory.total`` prints it."""
    default_power_limit_w: Annotated[float, Field(gt=0)] | None = None
    """The model's default power limit, in watts."""
    power_limits_w: tuple[float, float] | None = None
    """Lowest and highest power limit that can be set, in watts."""
    max_sm_clock_mhz: Count | None = None
    """Highest SM clock, in MHz."""
    nvlinks: NvLinks = ""
    """A GPU's NVLinks on a board with NVSwitches, such as ``18 x 26.562 GB/s``."""
    mig_profiles: tuple[MigProfile, ...] | None = None
    """Profiles of `nvidia-smi mig -lgip`; empty: the model has no MIG; None: all are accepted."""


TAGS = ("[name]", "[values]")
"""Tags of the two forms of ``gpu.model``, which pydantic adds to the path of an error."""

GpuChoice = Annotated[
    Annotated[GpuName, Tag(TAGS[0])] | Annotated[OwnGpu, Tag(TAGS[1])],
    Discriminator(lambda value: TAGS[isinstance(value, dict | OwnGpu)]),
]


class Gpu(Model):
    """The GPUs of a hardware class, as purchased; never read from a node."""

    vendor: Literal["nvidia", "amd", "intel"] = "nvidia"
    """GPUs of other vendors are declared with ``count``; Lockstep does not set or check them."""
    model: GpuChoice | None = None
    """A model of lockstep/catalog/gpus, the name that nvidia-smi prints, or an own model.

    Slurm's GRES type is the catalogue's name of the model, if the product name contains it.
    Otherwise the type is the whole product name (``nvidia_a100-sxm4-40gb``).
    """
    count: Annotated[int, Field(ge=1, le=64)]
    """GPUs of each node."""
    devices: Devices = ""
    """Device files, such as ``/dev/nvidia[0-7]``; empty: /dev/nvidia0 and so on."""
    numa: dict[NumaNode, CpuList] = Field(default_factory=dict)
    """NUMA node -> its GPUs (``{0: "0-3", 1: "4-7"}``); empty: GPUs are spread evenly, in order."""
    nvswitch: bool = False
    """Whether the baseboard has NVSwitches (HGX with eight GPUs), which need the fabric manager."""
    multi_node_nvlink: bool = False
    """Whether NVLink connects the GPUs of several nodes (GB200 NVL72), which requires IMEX."""
    imex: Literal["host", "compute_domains"] = "host"
    """What starts IMEX: the node's service, or Kubernetes' ComputeDomains (NVIDIA's DRA driver).

    One excludes the other: with "compute_domains", the service of the node must not run.
    """
    power_limit_w: Annotated[float, Field(gt=0)] | None = None
    """Power limit in watts; None: the GPU's own default (power.default_limit)."""
    clocks_mhz: tuple[Count, Count] | None = None
    """Lowest and highest SM clock, in MHz, to which the GPUs are locked; None: not locked."""
    compute_mode: Literal["default", "exclusive_process", "prohibited"] = "default"
    """Whether several processes may use a GPU at the same time (nvidia-smi(1), compute mode)."""
    ecc: bool | None = None
    """None: on if NVIDIA delivers the model so. Otherwise, and for models that are not in the
    catalogue, the GPUs keep their mode, and the check compares it with the node's peers."""
    persistence: bool | None = None
    """None: on if Lockstep installs the driver; otherwise, the GPUs keep their mode, and the check
    compares it with the node's peers."""
    in_sysfs: bool = True
    """Whether the GPUs appear in /sys/bus/pci; False: simulated GPUs, or a VM that hides them."""
    mig: tuple[MigProfile, ...] = ()
    """GPU instances to create on each GPU, in this order; empty: MIG is off."""

    @property
    def name(self) -> str:
        """The model's name in the catalogue, or the product name of another model."""
        name = self.model.name if isinstance(self.model, OwnGpu) else self.model or ""
        return gpus.named(name) or name

    @property
    def ecc_wanted(self) -> bool | None:
        """The declared ECC mode, or on if the model is delivered so; None: it stays as it is.

        Nothing turns it off undeclared: an operator may have turned it on.
        """
        if self.ecc is not None:
            return self.ecc
        return (gpus.load(self.name).ecc or None) if self.name in gpus.known() else None

    @property
    def values(self) -> GpuModel:
        """The values of the model: those of the catalogue, or those that the description has."""
        if isinstance(self.model, OwnGpu):
            return GpuModel(product_name=self.model.name, **self.model.model_dump(exclude={"name"}))
        known = self.name in gpus.known()
        return gpus.load(self.name) if known else GpuModel(product_name=self.name)


class Nics(Model):
    """Fabric interfaces of a hardware class."""

    count: Annotated[int, Field(ge=0, le=64)] = 0
    """Fabric interfaces of each node."""
    speed_gbit: Annotated[float, Field(gt=0)] | None = None
    """Speed of each interface, in Gbit/s; None: compared between nodes."""
    rdma: Literal["none", "infiniband", "roce"] = "none"
    """Link layer of the RDMA devices; "none": the interfaces do not support RDMA."""
    rdma_devices: DeviceNames = ""
    """Names in /sys/class/infiniband, such as ``mlx5_[0-7]``; empty: any name is accepted."""
    gpudirect: Literal["dma_buf", "peermem"] = "dma_buf"
    """How RDMA devices reach GPU memory: the kernel's DMA-BUF, or the older module nvidia_peermem,
    which needs NVIDIA's network driver (DOCA-OFED, MLNX_OFED) and is loaded only for "peermem"."""
    interfaces: DeviceNames = ""
    """Names of the network interfaces that NCCL and UCX use, such as ``fabric[0-7]``."""
    ipoib_mode: Literal["datagram", "connected"] = "datagram"
    """Mode of IP over InfiniBand, if Lockstep configures the interfaces. ConnectX-4 and later have
    datagram mode only, as their driver is delivered (RHEL 9, Configuring IPoIB)."""


HUGEPAGE_MIB = {"2M": 2, "512M": 512, "1G": 1024}
"""Sizes of huge pages -> MiB. x86 has 2M and 1G; docs/racks.md has those of arm64."""


class Hugepages(Model):
    """Persistent huge pages of one size on one NUMA node."""

    size: Literal["2M", "512M", "1G"]
    """512M is the default huge page of an arm64 kernel with pages of 64 KiB."""
    numa_node: NumaNode
    """Number of the NUMA node."""
    count: Count
    """Number of pages."""

    @property
    def mib(self) -> int:
        """Memory reserved, in MiB."""
        return self.count * HUGEPAGE_MIB[self.size]


class Kernel(Model):
    """Kernel settings of a hardware class for memory, CPUs and devices; None: left unchanged.

    Sources: kernel documentation, admin-guide/kernel-parameters, admin-guide/mm/transhuge,
    admin-guide/pm/cpufreq and intel_idle.
    """

    transparent_hugepages: Literal["always", "madvise", "never"] | None = None
    """Where the kernel uses transparent huge pages."""
    transparent_hugepages_defrag: (
        Literal["always", "defer", "defer+madvise", "madvise", "never"] | None
    ) = None
    """When a program waits for free huge pages to be made."""
    numa_balancing: bool | None = None
    """Automatic page migration between NUMA nodes (kernel.numa_balancing)."""
    cpu_governor: (
        Literal["performance", "powersave", "schedutil", "ondemand", "conservative"] | None
    ) = None
    """Governor of the processors' frequencies."""
    max_cstate: Annotated[int, Field(ge=0, le=9)] | None = None
    """Deepest idle state allowed (processor.max_cstate, intel_idle.max_cstate)."""
    page_size: Literal["4k", "64k"] | None = None
    """Page size of the kernel, which is built into it: 64k only on arm64. The site installs it."""
    iommu: Literal["pt", "nopt", "off"] | None = None
    """"pt": pass-through; devices access memory directly, which GPUDirect needs."""
    disable_acs_redir: tuple[PciAddress, ...] = ()
    """PCI bridges that must not redirect peer-to-peer traffic to the root complex (ACS)."""
    isolation: tuple[Literal["managed_irq", "nohz_full", "domain"], ...] = ()
    """Isolation of the workload CPUs at boot, beyond keeping IRQs and RCU callbacks off them.

    "domain" excludes these CPUs from the scheduler's load balancing: all threads of a job then run
    on one CPU unless they are bound individually.
    """


class Firmware(Model):
    """Firmware versions of a hardware class; None: the nodes of the class decide.

    Lockstep compares and reports them. It never installs firmware.
    """

    vbios: FirmwareVersion | None = None
    """VBIOS of all GPUs, as ``nvidia-smi --query-gpu=vbios_version`` prints it."""
    rdma: FirmwareVersion | None = None
    """Firmware of all RDMA devices of the fabric, as in /sys/class/infiniband/*/fw_ver."""
    bmc: FirmwareVersion | None = None
    """As in /sys/devices/platform/ipmi_bmc.*/firmware_revision: major and minor revision."""


class HardwareClass(Model):
    """Machines that should be identical; the nodes of a class are compared with each other."""

    architecture: Literal["x86_64", "arm64"] = "x86_64"
    """Of the processors: arm64 for Grace (GB200, GB300, GH200)."""
    sockets: Count
    """Processor sockets."""
    cores_per_socket: Count
    """Cores of each processor."""
    threads_per_core: Annotated[int, Field(ge=1, le=8)] = 1
    """Threads of each core; 1: SMT is off, or the processors have none."""
    cpu_numbering: Literal["threads_last", "threads_adjacent"] = "threads_last"
    """How Linux numbers CPUs: the first thread of every core first (x86), or core by core."""
    numa_nodes: Count = 1
    """NUMA nodes of a machine, all sockets together (``lscpu``)."""
    memory_mib: Annotated[int, Field(ge=512, le=1 << 32)]
    """Minimum memory of each machine in the class, in MiB (MemTotal in /proc/meminfo)."""
    gpu: Gpu | None = None
    """The GPUs; None: the machines have none."""
    nics: Nics = Nics()
    """The fabric interfaces."""
    management_interface: DeviceNames = ""
    """Name of the interface with the management address; needed only if Lockstep configures it."""
    hugepages: tuple[Hugepages, ...] = ()
    """Persistent huge pages, per size and NUMA node."""
    housekeeping_cpus: CpuList = ""
    """CPUs reserved for the system, daemons and exporters; jobs get all other CPUs."""
    cgroup: CgroupUse = "v2"
    """What Slurm uses of cgroup v2; "devices" and "none" are for containers that share a kernel.

    "devices": they have a cgroup v2 without controllers. Slurm tracks processes and limits devices,
    but not CPUs and memory. "none": Slurm uses no cgroups.
    """
    boot_loader: Literal["grub", "none"] = "grub"
    """"none": the machines do not boot their own kernel and have no kernel command line."""
    firmware: Firmware = Firmware()
    """Firmware versions."""
    kernel: Kernel = Kernel()
    """Kernel settings."""
    kernel_args: tuple[str, ...] = ()
    """Kernel arguments in addition to the ones that the plan derives from the other fields."""
    clock: Literal["own", "host"] = "own"
    """"host": the host sets the container's clock, and chronyd only monitors it."""

    @property
    def nvidia_gpu(self) -> Gpu | None:
        """The GPUs that Lockstep sets and checks; None if there are none of NVIDIA."""
        return self.gpu if self.gpu is not None and self.gpu.vendor == "nvidia" else None

    @property
    def cores(self) -> int:
        """Total number of cores."""
        return self.sockets * self.cores_per_socket

    @property
    def cpus(self) -> int:
        """Number of logical CPUs."""
        return self.cores * self.threads_per_core

    def core_of(self, cpu: int) -> int:
        """Return the core (counted across all sockets) that a Linux CPU number belongs to."""
        if self.cpu_numbering == "threads_last":
            return cpu % self.cores
        return cpu // self.threads_per_core

    @property
    def hugepages_mib(self) -> int:
        """Memory reserved for huge pages, in MiB."""
        return sum(pages.mib for pages in self.hugepages)

    @property
    def slurm_memory_mib(self) -> int:
        """RealMemory in slurm.conf, in MiB: ``MEMORY_SHARE`` of the memory, minus huge pages."""
        return int(self.memory_mib * MEMORY_SHARE) - self.hugepages_mib
