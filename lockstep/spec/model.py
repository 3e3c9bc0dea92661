"""The types of a cluster description. Each field is validated here on its own.

Relations between fields (duplicate addresses, a worker without a scheduler) are validated in
``validate.py``, which returns all problems at once.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

from pydantic import Field

from lockstep.spec import names
from lockstep.spec.checks import Checks
from lockstep.spec.fields import (
    Address,
    Count,
    DomainName,
    Folder,
    HostName,
    Locale,
    Memlock,
    Model,
    Name,
    Network_,
    NodeRange,
    PrometheusDuration,
    SelinuxMode,
    SysctlValue,
    TimeZone,
    UserName,
)
from lockstep.spec.firewall import Firewall
from lockstep.spec.hardware import Gpu, HardwareClass
from lockstep.spec.kubernetes import Kubernetes
from lockstep.spec.networks import Network
from lockstep.spec.schedulers import Schedulers, Slurm
from lockstep.spec.site_files import SiteFile
from lockstep.spec.software import Software

MOST_OPEN_FILES = 0x7FFFFFC0
"""Upper limit of fs.nr_open on 64-bit systems (Linux, fs/file.c: sysctl_nr_open_max)."""


EVERY_ROLE = "all"
"""The name in ``unmanaged`` that stands for every role."""


class NodeRole(enum.Enum):
    """Purpose of a node: heads run services, workers run jobs."""

    HEAD = "head"
    WORKER = "worker"


class Service(enum.Enum):
    """Services that a head can run, in deploy order."""

    SLURM_ACCOUNTING = "slurm_accounting"
    SLURM_CONTROLLER = "slurm_controller"
    KUBERNETES_CONTROL_PLANE = "kubernetes_control_plane"
    PROMETHEUS = "prometheus"


class NodeGroup(Model):
    """One node or a range of identical nodes, whose addresses are consecutive, in name order."""

    name: NodeRange
    """A host name, or a range of them such as ``worker[01-16]``."""
    role: NodeRole
    """"head" runs services, "worker" runs jobs."""
    hardware: Name
    """Name of a hardware class."""
    management: Address
    """Management address of the first node."""
    fabric: Address | None = None
    """Fabric address of the first node on the first rail."""
    management_second: Address | None = None
    """Address of the first node in ``networks.management.second_family``."""
    fabric_second: Address | None = None
    """Address of the first node on the first rail in ``networks.fabric.second_family``."""
    runs: tuple[Service, ...] = ()
    """Services that these heads run."""
    release: Name | None = None
    """Operating system of the nodes; None: ``os.release``."""
    scheduler: Literal["slurm", "kubernetes"] | None = None
    """The scheduler of these workers; None: the cluster's only one."""
    pods: Network_ | None = None
    """Network of the pods of the first node; the following nodes have the networks after it. Only
    for nodes of Kubernetes, which need it with the built-in network of pods."""
    nvlink_domain: Name | None = None
    """NVLink domain of the nodes, usually a rack; None: the nodes of this group are one.

    Only for classes with ``gpu.multi_node_nvlink``. Groups with the same name are one domain.
    """
    leaf_switch: Name | None = None
    """Switch of the fabric, or all switches of one unit of it, next to these workers. Slurm gives a
    job nodes behind as few of them as possible. Groups with the same name share the switch."""
    unmanaged: tuple[Name, ...] = ()
    """Roles that the site manages itself on these nodes, besides those of ``unmanaged`` for the
    whole cluster."""


class Access(Model):
    """How the control host reaches the nodes: over ssh, with an unprivileged account and sudo."""

    user: UserName = "ops"
    """Account on the nodes; it may use sudo without a password."""
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    """TCP port of sshd."""
    key: str | None = None
    """Path of the private key; None: the ssh agent's keys and ssh's default key files."""
    known_hosts: str | None = None
    """Path of the known_hosts file; None: the user's default. Host keys are always checked."""


class Os(Model):
    """Operating system settings, the same on all nodes of the cluster."""

    release: Name
    """Name of a module in lockstep/catalog/os, such as debian_13; a node group can have another."""
    time_zone: TimeZone = "Etc/UTC"
    """Name in the IANA time zone database, such as Europe/Berlin."""
    locale: Locale = "C.UTF-8"
    """Value of LANG, for all programs."""
    address_family: Literal["ipv6", "ipv4"] = "ipv6"
    """Address family that name resolution prefers (gai.conf)."""
    sysctl: dict[str, SysctlValue] = Field(default_factory=dict)
    """Kernel parameter -> its value, beside those that Lockstep sets itself."""
    memlock: Memlock = "unlimited"
    """Locked-memory limit in KiB; jobs with RDMA need "unlimited" because RDMA pins memory."""
    nofile: Annotated[int, Field(ge=1, le=MOST_OPEN_FILES)] = 1048576
    """Limit of open files of each process."""
    hugetlb_gid: Annotated[int, Field(ge=1, le=65533)] | None = None
    """GID of the group that may use huge pages; None: all users."""
    automatic_upgrades: bool = False
    """Whether nodes install security upgrades by themselves, once a day (docs/systems.md); locked
    versions stay. False: nothing upgrades packages but a deploy."""
    selinux: SelinuxMode | None = None
    """Mode of SELinux, now and after a boot; only on releases that have SELinux (docs/systems.md).

    None: Lockstep changes nothing of SELinux.
    """
    firewall: Firewall | None = None
    """The packet filter of the nodes; None: Lockstep changes nothing of it."""

    @property
    def memlock_bytes(self) -> str:
        """The locked-memory limit in the format of systemd.exec(5): bytes, or infinity."""
        return "infinity" if self.memlock == "unlimited" else str(self.memlock * 1024)

    @property
    def hugetlb_access(self) -> str:
        """hugetlbfs mount options that control access to huge pages (kernel docs: hugetlbpage)."""
        return "mode=1777" if self.hugetlb_gid is None else f"mode=1770,gid={self.hugetlb_gid}"


class Time(Model):
    """Clock synchronization; munge credentials expire after 300 s, so a larger skew stops Slurm."""

    servers: tuple[HostName, ...] = ()
    """NTP servers that the heads use; empty: the first head is the cluster's time source."""
    max_offset_s: Annotated[float, Field(gt=0, le=300)] = 0.05
    """Largest accepted offset of a node's clock, in seconds."""


class Deploys(Model):
    """How changes reach the nodes (deploys/cluster.py, head.py and worker.py)."""

    canary: bool = False
    """Deploy one node of each kind first and check it, then the others in steps. The first node
    that fails, or that has a new finding, stops the deploy."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """With ``canary``: the part of the nodes of a kind that each further step has."""


class Reboots(Model):
    """How nodes with a pending reboot are rebooted (deploys/reboot.py)."""

    at_once: Count = 1
    """Maximum number of workers being drained or rebooted at the same time; heads: always 1."""
    drain_timeout_s: Count = 86400
    """Seconds to wait for running jobs before the rollout stops. Jobs are never killed."""
    return_timeout_s: Count = 1800
    """Seconds that a node may take to accept ssh connections again after a reboot."""


class Monitoring(Model):
    """Monitoring settings: metrics, and the severities of NVIDIA driver errors."""

    scrape_interval_s: Annotated[int, Field(ge=1, le=3600)] = 30
    """Seconds between two readings of each exporter."""
    retention: PrometheusDuration = "30d"
    """How long Prometheus keeps its data, such as ``30d``."""
    dcgm_exporter_port: Annotated[int, Field(ge=1, le=65535)] = 9400
    """TCP port of DCGM exporter."""
    node_exporter_port: Annotated[int, Field(ge=1, le=65535)] = 9100
    """TCP port of node exporter."""
    prometheus_port: Annotated[int, Field(ge=1, le=65535)] = 9090
    """TCP port of Prometheus."""
    xid: dict[Count, Literal["ignore", "warning", "error"]] = Field(default_factory=dict)
    """Xid of the NVIDIA driver -> the site's severity, which overrides Lockstep's."""


FORMAT = 1
"""Version of the format of descriptions. It rises if a valid description would get another meaning,
or would become invalid (docs/upgrading.md)."""


class Cluster(Model):
    """The whole description: the only source of truth for plan, deploy and check."""

    format: Literal[1] = 1
    """Version of the format in which the description is written. A newer version is refused as a
    whole. Descriptions for release 0.1.0 do not have it."""
    name: Name
    """Name of the cluster; it becomes Slurm's ClusterName."""
    domain: DomainName | None = None
    """DNS domain of the nodes: /etc/hosts then has their fully qualified names first. Host names,
    and Slurm's NodeName, stay short."""
    networks: dict[Literal["management", "fabric"], Network]
    """The network for management, and the one between the workers of a job (optional)."""
    hardware: dict[Name, HardwareClass]
    """Name of a hardware class -> the machines of this class, as purchased."""
    nodes: tuple[NodeGroup, ...]
    """The nodes, in groups of equal ones."""
    os: Os
    """The operating system of the nodes."""
    access: Access = Access()
    """How the deploying machine reaches the nodes."""
    software: Software = Software()
    """Package sources, and the versions of what the nodes run."""
    time: Time = Time()
    """Clock synchronization."""
    scheduler: Schedulers | None = None
    """The scheduler, or a list of both: Slurm and Kubernetes; None: the cluster has none."""
    monitoring: Monitoring = Monitoring()
    """Metrics and alerts."""
    deploys: Deploys = Deploys()
    """How changes reach the nodes."""
    reboots: Reboots = Reboots()
    """How nodes are rebooted."""
    checks: Checks = Checks()
    """Site settings of the check."""
    extensions: dict[Name, Any] = Field(default_factory=dict)
    """Site role -> its settings, which the role's own model validates."""
    files: dict[Folder, SiteFile] = Field(default_factory=dict)
    """Path of a file that Lockstep writes -> what the site adds to it, or has in its place
    (docs/existing-clusters.md)."""
    unmanaged: tuple[Name, ...] = ()
    """Roles that the site manages itself: they are not deployed, repaired or compared with the
    plan, but still compared between nodes. "all": every role (docs/existing-clusters.md)."""
    secrets_dir: Folder | None = None
    """Folder on the control host for generated secrets; None: the user's state folder."""
    records_dir: Folder | None = None
    """Folder on the control host for node records; None: the user's state folder."""

    def manages(self, role: str, group: NodeGroup) -> bool:
        """Return whether Lockstep manages a role on the nodes of a group."""
        return {role, EVERY_ROLE}.isdisjoint((*self.unmanaged, *group.unmanaged))

    def manages_anywhere(self, role: str) -> bool:
        """Return whether Lockstep manages a role on some nodes, or would if there were any."""
        if not self.nodes:
            return {role, EVERY_ROLE}.isdisjoint(self.unmanaged)
        return any(self.manages(role, group) for group in self.nodes)

    @property
    def manages_nothing(self) -> bool:
        """Whether the site manages every role on every node: Lockstep only checks."""
        return not self.manages_anywhere(EVERY_ROLE)

    @property
    def schedulers(self) -> tuple[Slurm | Kubernetes, ...]:
        """The declared schedulers; empty if the cluster has none."""
        found = self.scheduler
        if found is None:
            return ()
        return found if isinstance(found, tuple) else (found,)

    @property
    def slurm(self) -> Slurm | None:
        """The settings of Slurm; None: the cluster does not have it."""
        return next((one for one in self.schedulers if isinstance(one, Slurm)), None)

    @property
    def kubernetes(self) -> Kubernetes | None:
        """The settings of Kubernetes; None: the cluster does not have it."""
        return next((one for one in self.schedulers if isinstance(one, Kubernetes)), None)

    def scheduler_of(self, group: NodeGroup) -> Literal["slurm", "kubernetes", ""]:
        """Return the scheduler that gives jobs to the nodes of a group; "" if none does."""
        if group.role is not NodeRole.WORKER or not self.schedulers:
            return ""
        return group.scheduler or self.schedulers[0].kind

    def release_of(self, group: NodeGroup) -> str:
        """Return the name of a node group's operating system release."""
        return group.release or self.os.release

    def domain_of(self, group: NodeGroup) -> str:
        """Return the name of a node group's NVLink domain; "" if NVLink ends at the node."""
        gpu = self.gpus.get(group.hardware)
        if group.role is not NodeRole.WORKER or gpu is None or not gpu.multi_node_nvlink:
            return ""
        return group.nvlink_domain or names.expand(group.name)[0]

    @property
    def releases(self) -> tuple[str, ...]:
        """The names of all releases that nodes have, each once; ``os.release`` without nodes."""
        return tuple(dict.fromkeys(map(self.release_of, self.nodes))) or (self.os.release,)

    @property
    def gpus(self) -> dict[str, Gpu]:
        """Hardware class -> its NVIDIA GPUs; classes without them are left out."""
        return {n: gpu for n, one in self.hardware.items() if (gpu := one.nvidia_gpu) is not None}
