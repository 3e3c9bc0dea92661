"""What a cluster description may hold: types and single fields only.

Relations between fields (duplicate addresses, a worker without a scheduler) are judged in
``validate.py``, which returns every problem at once; here a field is only parsed.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from lockstep.spec.checks import Checks
from lockstep.spec.fields import (
    Address,
    Count,
    Folder,
    HostName,
    Locale,
    Memlock,
    Model,
    Name,
    Network_,
    NodeRange,
    PrometheusDuration,
    SlurmTime,
    SysctlValue,
    TimeZone,
)
from lockstep.spec.hardware import HardwareClass
from lockstep.spec.software import Software


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
    hugetlb_gid: Annotated[int, Field(ge=1, le=65533)] | None = None
    """Number of the group that may use huge pages; None: everybody who runs jobs."""
    automatic_upgrades: bool = False

    @property
    def memlock_bytes(self) -> str:
        """Return the limit as systemd.exec(5) takes it: bytes, or infinity."""
        return "infinity" if self.memlock == "unlimited" else str(self.memlock * 1024)

    @property
    def hugetlb_access(self) -> str:
        """Return who may use huge pages, as mount options of hugetlbfs (hugetlbpage)."""
        return "mode=1777" if self.hugetlb_gid is None else f"mode=1770,gid={self.hugetlb_gid}"


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


class Reboots(Model):
    """How nodes are rebooted that wait for it (deploys/reboot.py)."""

    at_once: Count = 1
    """Nodes that are away at the same time."""
    drain_timeout_s: Count = 86400
    """Seconds that running jobs have to finish; then the rollout stops, and nothing is killed."""
    return_timeout_s: Count = 1800
    """Seconds from the reboot until the node must answer ssh again."""


class Slurm(Model):
    """The scheduler."""

    kind: Literal["slurm"] = "slurm"
    partitions: tuple[Partition, ...] = ()
    """Empty: one partition ``batch`` with every worker."""
    system_memory_mib: Annotated[int, Field(ge=0)] = 0
    """Kept from jobs on each worker (MemSpecLimit)."""
    health_check_interval_s: Annotated[int, Field(ge=0)] = 300
    prolog_check: bool = True
    """A node that cannot run a job well refuses it: the job starts elsewhere."""
    epilog_check: bool = True
    """What a job left broken takes the node out before the next job comes."""


class Monitoring(Model):
    """Metrics."""

    scrape_interval_s: Annotated[int, Field(ge=1)] = 30
    retention: PrometheusDuration = "30d"
    dcgm_exporter_port: Annotated[int, Field(ge=1, le=65535)] = 9400
    node_exporter_port: Annotated[int, Field(ge=1, le=65535)] = 9100
    prometheus_port: Annotated[int, Field(ge=1, le=65535)] = 9090
    xid: dict[Annotated[int, Field(ge=1)], Literal["ignore", "warning", "error"]] = Field(
        default_factory=dict
    )
    """XID of the NVIDIA driver -> what the site makes of it, against the catalogue."""


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
    reboots: Reboots = Reboots()
    checks: Checks = Checks()
    extensions: dict[Name, Any] = Field(default_factory=dict)
    """Role of the site -> its settings, as the role's own model has them."""
    secrets_dir: Folder | None = None
    """Folder of the deploying side for the generated secrets; None: the user's state folder."""
    records_dir: Folder | None = None
    """Folder of the deploying side for records of the nodes; None: the user's state folder."""
