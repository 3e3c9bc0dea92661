"""The plan of one node: its node role, its hardware, its roles and its parts.

Each part, such as ``plan.software`` or ``plan.system``, has its own class in another module. A new
role does not need a new part, because its templates can read the description (``plan.spec``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from lockstep.catalog.os import Release
from lockstep.plan import (
    fabric,
    firewall,
    job_containers,
    kubernetes,
    network,
    selinux,
    virtual_address,
)
from lockstep.plan.declaration import Declaration
from lockstep.plan.nvidia import NvidiaPlan
from lockstep.plan.system import Software, System
from lockstep.spec import Cluster, Node, NodeRole, Service
from lockstep.spec.hardware import Gpu
from lockstep.spec.model import EVERY_ROLE
from lockstep.spec.site_files import SiteFile

if TYPE_CHECKING:
    from lockstep.plan.cluster import ClassPlan, ClusterPlan

T = TypeVar("T")


@dataclass(frozen=True)
class TimePlan:
    """A node's settings in chrony.conf(5)."""

    servers: tuple[str, ...]
    reference: bool
    """Whether the node is the cluster's own time source and does not follow any server."""
    allow: tuple[str, ...]
    """Networks whose hosts may use this node as a time server."""


@dataclass(frozen=True)
class NodePlan:
    """The plan of one node: roles, templates and rules take all their values from it."""

    node: Node
    hardware: ClassPlan
    cluster: ClusterPlan = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Host name, without a domain."""
        return self.node.name

    @property
    def role(self) -> NodeRole:
        """Head or worker."""
        return self.node.role

    @property
    def is_worker(self) -> bool:
        """Whether the node is a worker, which runs jobs."""
        return self.role is NodeRole.WORKER

    @property
    def takes_slurm_jobs(self) -> bool:
        """Whether the node is a worker of Slurm."""
        return self.node.scheduler == "slurm"

    @property
    def takes_pods(self) -> bool:
        """Whether the node is a worker of Kubernetes."""
        return self.node.scheduler == "kubernetes"

    @property
    def runs_kubelet(self) -> bool:
        """Whether the node belongs to Kubernetes: it takes pods, or runs the control plane."""
        return self.takes_pods or self.runs(Service.KUBERNETES_CONTROL_PLANE)

    @property
    def engines(self) -> tuple[str, ...]:
        """The container engines of the node: a worker's declared ones, and that of Kubernetes."""
        declared = self.spec.software.containers.engines if self.is_worker else ()
        if self.runs_kubelet and "containerd" not in declared:
            return (*declared, "containerd")
        return declared

    @property
    def spec(self) -> Cluster:
        """The complete description of the cluster."""
        return self.cluster.spec

    @property
    def release(self) -> Release:
        """The operating system release of the node."""
        return self.hardware.release

    def runs(self, service: Service) -> bool:
        """Return whether this node runs a service."""
        return service in self.node.runs

    @cached_property
    def address(self) -> str:
        """Management address."""
        return str(self.node.management)

    @cached_property
    def addresses(self) -> dict[str, str]:
        """Every planned address of the node, keyed by purpose: ``management``, ``rail0`` and so on.

        Those of a second family have it in their key: ``rail0 (ipv4)``.
        """
        node = self.node
        second = () if node.management_second is None else (node.management_second,)
        families = (((node.management,), node.fabric), (second, node.fabric_second))
        return {
            f"{what} (ipv{address.version})" if is_second else what: str(address)
            for is_second, (management, fabric) in enumerate(families)
            for what, address in (
                *(("management", address) for address in management),
                *((f"rail{rail}", address) for rail, address in enumerate(fabric)),
            )
        }

    @property
    def address_family(self) -> str:
        """``ipv6`` or ``ipv4``: the family of the management network."""
        return f"ipv{self.node.management.version}"

    def endpoint(self, port: int) -> str:
        """Return ``address:port`` for URLs and listeners; IPv6 addresses are in brackets."""
        host = f"[{self.address}]" if self.address_family == "ipv6" else self.address
        return f"{host}:{port}"

    @cached_property
    def roles(self) -> dict[str, Declaration]:
        """The roles of the node by name, in deploy order.

        Roles that the release does not support are left out; ``validate`` rejects settings that
        need them. Roles that the site manages itself (``unmanaged``) are left out, too.
        """
        return {
            name: role for name, role in self.managed_or_not.items() if name not in self.unmanaged
        }

    @cached_property
    def managed_or_not(self) -> dict[str, Declaration]:
        """The roles of the node by name, with those that the site manages itself."""
        return {
            role.name: self._local(role)
            for role in self.cluster.roles
            if self.release.supports(role.name) and role.when(self)
        }

    @cached_property
    def unmanaged(self) -> frozenset[str]:
        """The names of all roles that the site manages itself on the nodes of this group."""
        made, key = self.cluster.made, ("unmanaged", self.node.group)
        if key not in made:
            group, names = self.spec.nodes[self.node.group], [r.name for r in self.cluster.roles]
            made[key] = frozenset(one for one in names if not self.spec.manages(one, group))
        found: frozenset[str] = made[key]
        return found

    @property
    def manages_nothing(self) -> bool:
        """Whether the description leaves every role on this node to the site ("all")."""
        return not self.spec.manages(EVERY_ROLE, self.spec.nodes[self.node.group])

    @property
    def with_every_role(self) -> NodePlan:
        """The plan as it would be if the site managed no role itself."""
        return self.cluster.with_every_role.nodes[self.name] if self.unmanaged else self

    def manages(self, role: str) -> bool:
        """Return whether Lockstep manages a role here; True for a name that no role has."""
        return role not in self.unmanaged

    @cached_property
    def site_files(self) -> dict[str, SiteFile]:
        """Path on this node -> what the site adds to the file, or has in its place."""
        return {self.release.local(path): one for path, one in self.spec.files.items()}

    def _local(self, role: Declaration) -> Declaration:
        """Return a role with the names of the node's release, the same object for all nodes."""
        architecture = self.hardware.hardware.architecture
        made, key = self.cluster.made, ("role", role.name, self.release.name, architecture)
        if key not in made:
            made[key] = role.on(self.release)
        local: Declaration = made[key]
        return local

    @cached_property
    def kind(self) -> Hashable:
        """A key that is the same for all nodes that differ only in their names and addresses."""
        interfaces = tuple((one.name, one.purpose, one.manager) for one in self.interfaces)
        roles = (tuple(self.roles), tuple(self.managed_or_not))
        return (
            self.role,
            self.node.scheduler,
            *self.hardware.key,
            self.node.runs,
            *roles,
            interfaces,
        )

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value that is computed once for all nodes of a kind."""
        alike = (key, self.kind)
        if alike not in self.cluster.made:
            self.cluster.made[alike] = make()
        made: T = self.cluster.made[alike]
        return made

    @cached_property
    def software(self) -> Software:
        """The node's packages and their versions."""
        return self.once(Software, lambda: Software(self))

    @cached_property
    def system(self) -> System:
        """The node's files, units, listeners and kernel parameters."""
        return self.once(System, lambda: System(self))

    @property
    def gpu(self) -> Gpu | None:
        """The NVIDIA GPUs of the node; None on heads and on workers without them."""
        return self.hardware.hardware.nvidia_gpu if self.is_worker else None

    @property
    def gpu_persistence(self) -> bool | None:
        """The wanted persistence mode; None: it stays as it is, because nobody declared it."""
        if self.gpu is None or self.gpu.persistence is not None:
            return None if self.gpu is None else self.gpu.persistence
        return True if self.nvidia is not None else None

    @property
    def nvidia(self) -> NvidiaPlan | None:
        """The node's NVIDIA stack; None if the node does not have one."""
        return self.hardware.nvidia if self.is_worker else None

    @cached_property
    def kubernetes(self) -> kubernetes.KubernetesPlan:
        """The settings of a node of Kubernetes.

        Raises:
            LookupError: the node does not belong to Kubernetes.
        """
        return kubernetes.plan(self)

    @property
    def virtual_address(self) -> virtual_address.VirtualAddress:
        """The settings of keepalived on a head between which the API server's address moves."""
        return virtual_address.plan(self)

    @cached_property
    def job_containers(self) -> job_containers.JobContainersPlan:
        """The container programs of this node: Apptainer, enroot and pyxis."""
        return job_containers.plan(self.spec, self.release, self.node)

    @property
    def fabric(self) -> fabric.FabricPlan:
        """The settings of NCCL, UCX and Open MPI on this node."""
        return fabric.plan(self.hardware.hardware.nics, self.spec.networks.get("fabric"))

    @cached_property
    def interfaces(self) -> tuple[network.Interface, ...]:
        """The network interfaces that Lockstep configures on this node."""
        if not self.manages("network"):
            return ()
        return network.plan(self.node, self.hardware.hardware, self.spec.networks, self.release)

    @cached_property
    def firewall(self) -> firewall.FirewallPlan:
        """What the node accepts from other machines."""
        return self.once(firewall.FirewallPlan, lambda: firewall.plan(self))

    @cached_property
    def selinux(self) -> selinux.SelinuxPlan:
        """What Lockstep keeps of the node's SELinux."""
        return self.once(selinux.SelinuxPlan, lambda: selinux.plan(self))

    @cached_property
    def time(self) -> TimePlan:
        """The node's time settings: heads use the declared servers, workers use the heads.

        If no server is declared, the first head is the time source and the other heads use it.
        """
        heads, declared = self.cluster.heads, self.spec.time.servers
        if self.name not in heads:
            return TimePlan(servers=heads, reference=False, allow=())
        reference = not declared and self.name == heads[0]
        return TimePlan(
            servers=() if reference else declared or heads[:1],
            reference=reference,
            allow=(str(self.spec.networks["management"].prefix),),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the node's plan as JSON-serializable data, under names that Slurm and Linux use.

        pyinfra calls this to print host data.
        """
        hardware = self.hardware
        second = {what: address for what, address in self.addresses.items() if " " in what}
        return {
            "name": self.name,
            "role": self.role.value,
            "runs": [service.value for service in self.node.runs],
            "unmanaged": [name for name in self.managed_or_not if not self.manages(name)],
            "hardware": hardware.name,
            "release": self.release.name,
            "management": self.address,
            "fabric": [str(address) for address in self.node.fabric],
            **({"second_family": second} if second else {}),
            "cpus": {
                "all": hardware.cpu.all,
                "housekeeping": hardware.cpu.housekeeping,
                "workload": hardware.cpu.workload,
                "numa": list(hardware.cpu.numa),
            },
            "hugepages": {
                size: {str(node): pages for node, pages in split.items()}
                for size, split in hardware.hugepages.items()
            },
            "kernel_args": list(self.system.kernel_args),
            "kernel_files": {
                file.path: file.value for file in (*hardware.cpu_files, *hardware.kernel_files)
            },
            "sysctl": self.system.sysctl,
            "listeners": [f"{one.protocol}/{one.port}" for one in self.system.listeners],
            "slurm": hardware.slurm.to_json() if self.takes_slurm_jobs else None,
            "gpus": list(hardware.gpu_devices),
            "packages": {name: self.software.versions.get(name) for name in self.software.packages},
            "units": list(self.system.units),
        }
