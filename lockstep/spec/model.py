"""What a cluster description may hold: types and single fields only.

Relations between fields (duplicate addresses, a worker without a scheduler) are judged in
``validate.py``, which returns every problem at once; here a field is only parsed.
"""

from __future__ import annotations

import enum
import os
import re
from typing import Annotated, Literal

from netaddr import AddrFormatError, IPAddress, IPNetwork
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
)

from lockstep.spec import names

MEMORY_SHARE = 0.95
"""Of the memory every machine of the class has: a slurmd that reports less is drained."""


class Model(BaseModel):
    """Base of every part of the spec: frozen, and a field nobody knows is an error."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, ser_json_timedelta="float"
    )


def _address(value: object) -> IPAddress:
    if isinstance(value, IPAddress):
        return value
    try:
        return IPAddress(str(value))
    except (AddrFormatError, ValueError) as error:
        raise ValueError("an IPv6 or IPv4 address without a prefix, such as fd12::11") from error


def _network(value: object) -> IPNetwork:
    if isinstance(value, IPNetwork):
        return value
    allowed = "a network with its prefix length, such as fd12:3456:789a::/64"
    if "/" not in str(value):  # netaddr would read a network of one address
        raise ValueError(allowed)
    try:
        network = IPNetwork(str(value))
    except (AddrFormatError, ValueError) as error:
        raise ValueError(allowed) from error
    if network.ip != network.network:
        raise ValueError(f"{network.cidr}: no bits are set behind the prefix")
    return network


def _cpulist(value: object) -> str:
    try:
        return names.cpulist(names.cpus(str(value)))
    except ValueError as error:
        raise ValueError('numbers and ranges as text, such as "0-3,56-59"') from error


HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
"""RFC 1123: what hostname(7) accepts as one label."""


def _noderange(value: object) -> str:
    try:
        expanded = names.expand(str(value))
    except ValueError:
        expanded = ()
    if not expanded or not all(HOST_NAME.fullmatch(name) for name in expanded):
        raise ValueError(
            "a host name or a range of them, such as head1 or worker[01-16]: "
            "letters, digits and '-' inside, at most 63 characters"
        )
    return str(value)


def _devices(value: object) -> str:
    text = str(value)
    try:
        listed = names.expand(text)
    except ValueError:
        listed = ("",)
    if not all(name.startswith("/dev/") for name in listed):
        raise ValueError("device files, such as /dev/nvidia[0-7]")
    return text


def _memlock(value: object) -> object:
    if value == "unlimited" or (
        isinstance(value, int) and not isinstance(value, bool) and value > 0
    ):
        return value
    raise ValueError('"unlimited" or a number of KiB of at least 1')


def _folder(value: object) -> str:
    folder = os.path.expanduser(str(value))
    if not os.path.isabs(folder):
        raise ValueError("not absolute; allowed: a path that begins with / or ~")
    return folder


Folder = Annotated[str, BeforeValidator(_folder)]
Address = Annotated[IPAddress, BeforeValidator(_address), PlainSerializer(str)]
Network_ = Annotated[IPNetwork, BeforeValidator(_network), PlainSerializer(str)]
CpuList = Annotated[str, BeforeValidator(_cpulist)]
NodeRange = Annotated[str, BeforeValidator(_noderange)]
Devices = Annotated[str, BeforeValidator(_devices)]
Memlock = Annotated[Literal["unlimited"] | int, BeforeValidator(_memlock)]
NumaNode = Annotated[int, Field(ge=0)]


def _matching(pattern: str, allowed: str) -> AfterValidator:
    """Return a validator of text; these values reach files and shells, so nothing else passes."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(allowed)
        return value

    return AfterValidator(check)


TimeZone = Annotated[
    str, _matching(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", "a name such as Europe/Berlin or Etc/UTC")
]
Locale = Annotated[
    str, _matching(r"[A-Za-z_]+\.UTF-8(@[a-z]+)?", "a UTF-8 locale such as C.UTF-8 or en_US.UTF-8")
]
SysctlValue = Annotated[
    str, _matching(r"\S+([ \t]\S+)*", "a value on one line, words separated by single blanks")
]
PackageVersion = Annotated[
    str, _matching(r"[A-Za-z0-9.+:~-]+", "an exact version as dpkg prints it (deb-version(7))")
]
HostName = Annotated[str, _matching(r"[A-Za-z0-9.:-]+", "a host name or an address")]
SlurmTime = Annotated[
    str,
    _matching(
        r"UNLIMITED|INFINITE|\d+(-\d+)?(:\d+){0,2}",
        "UNLIMITED, minutes, hours:minutes:seconds or days-hours:minutes:seconds",
    ),
]
PrometheusDuration = Annotated[
    str, _matching(r"(\d+(ms|[smhdwy]))+", "a duration as Prometheus writes it, 30d or 12h")
]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=63)]
Count = Annotated[int, Field(ge=1)]


class Role(enum.Enum):
    """What a node is for. Heads take requests and run services; workers run jobs."""

    HEAD = "head"
    WORKER = "worker"


class Service(enum.Enum):
    """What a head runs, beyond what every node runs; in the order of the deploy."""

    SLURM_ACCOUNTING = "slurm_accounting"
    SLURM_CONTROLLER = "slurm_controller"
    PROMETHEUS = "prometheus"


class Network(Model):
    """One network; ``rails`` > 1 gives every node one address per rail, one rail per subnet."""

    prefix: Network_
    rails: Annotated[int, Field(ge=1, le=64)] = 1
    """Rail r uses the r-th /64 (IPv6) of ``prefix``, or the prefix itself when there is one."""


class Gpu(Model):
    """The GPUs of a hardware class, as bought; never read from a node."""

    model: Name
    """A file name of lockstep/catalog/gpus, and Slurm's GRES type."""
    count: Annotated[int, Field(ge=1, le=64)]
    devices: Devices = ""
    """Device files, ``/dev/nvidia[0-7]``; empty: numbered from 0."""
    numa: dict[NumaNode, CpuList] = Field(default_factory=dict)
    """NUMA node -> GPU slots on it (``{0: "0-3", 1: "4-7"}``); empty: spread in order."""
    power_limit_w: Annotated[float, Field(gt=0)] | None = None
    """Watts; None: the board's own default (power.default_limit)."""
    ecc: bool = True
    persistence: bool = True


class Nics(Model):
    """Fabric interfaces of a hardware class."""

    count: Annotated[int, Field(ge=0, le=64)] = 0
    speed_gbit: Annotated[int, Field(ge=1)] | None = None


class Hugepages(Model):
    """Persistent huge pages of one size on one NUMA node."""

    size: Literal["2M", "1G"]
    numa_node: NumaNode
    count: Count

    @property
    def mib(self) -> int:
        """Memory taken, in MiB."""
        return self.count * {"2M": 2, "1G": 1024}[self.size]


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
    kernel_args: tuple[str, ...] = ()
    """Further kernel arguments, ``iommu=pt``; CPU and huge page arguments come from the plan."""
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


class NodeGroup(Model):
    """One node or a range of equal nodes; addresses are counted up in the order of the names."""

    name: NodeRange
    role: Role
    hardware: Name
    """Name of a hardware class."""
    management: Address
    """Address of the first node in the management network."""
    fabric: Address | None = None
    """Address of the first node on the first rail of the fabric network."""
    runs: tuple[Service, ...] = ()


class Access(Model):
    """How the deploying side reaches the nodes: an unprivileged account with sudo over ssh."""

    user: Annotated[str, StringConstraints(min_length=1)] = "ops"
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    key: str | None = None
    """Path of the private key; None: the ssh agent and the usual files."""
    known_hosts: str | None = None
    """Path of the known_hosts file; None: the user's own. Host keys are always checked."""


class Os(Model):
    """Operating system settings, equal on all nodes of the cluster."""

    release: Name
    """A file name of lockstep/catalog/os: debian_13, debian_12."""
    time_zone: TimeZone = "Etc/UTC"
    locale: Locale = "C.UTF-8"
    address_family: Literal["ipv6", "ipv4"] = "ipv6"
    """The family that name look-ups prefer (gai.conf)."""
    sysctl: dict[str, SysctlValue] = Field(default_factory=dict)
    memlock: Memlock = "unlimited"
    """KiB; RDMA registers memory, so jobs need it unlimited."""
    nofile: Count = 1048576
    automatic_upgrades: bool = False


class Software(Model):
    """Where packages come from and which versions belong to this cluster."""

    versions: dict[str, PackageVersion] = Field(default_factory=dict)
    """Package -> exact version; pinned, and checked on every node. Others: equal to the peers."""


class Time(Model):
    """Clock synchronisation; munge credentials live 300 s, so a wrong clock stops Slurm."""

    servers: tuple[HostName, ...] = ()
    """NTP servers of the heads; empty: the first head is the cluster's own reference."""
    max_offset_s: Annotated[float, Field(gt=0)] = 0.05


class Partition(Model):
    """A Slurm partition."""

    name: Name
    nodes: NodeRange
    default: bool = False
    max_time: SlurmTime = "UNLIMITED"


class Slurm(Model):
    """The scheduler."""

    kind: Literal["slurm"] = "slurm"
    partitions: tuple[Partition, ...] = ()
    """Empty: one partition ``batch`` with every worker."""
    system_memory_mib: Annotated[int, Field(ge=0)] = 0
    """Kept from jobs on each worker (MemSpecLimit)."""
    health_check_interval_s: Annotated[int, Field(ge=0)] = 300


class Monitoring(Model):
    """Metrics."""

    scrape_interval_s: Annotated[int, Field(ge=1)] = 30
    retention: PrometheusDuration = "30d"
    node_exporter_port: Annotated[int, Field(ge=1, le=65535)] = 9100
    prometheus_port: Annotated[int, Field(ge=1, le=65535)] = 9090


class Cluster(Model):
    """The whole description: the only source of truth for what is applied, checked and planned."""

    name: Name
    networks: dict[Literal["management", "fabric"], Network]
    hardware: dict[Name, HardwareClass]
    nodes: tuple[NodeGroup, ...]
    os: Os
    access: Access = Access()
    software: Software = Software()
    time: Time = Time()
    scheduler: Slurm | None = None
    monitoring: Monitoring = Monitoring()
    secrets_dir: Folder | None = None
    """Folder of the deploying side for the generated secrets; None: the user's state folder."""
