"""From the spec to exact values per node: pure arithmetic, no node is contacted.

``plan(cluster)`` gives a ``ClusterPlan``; a node's part of it is a ``NodePlan``, which hosts
carry as data. What does not differ inside a hardware class is computed once per class.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from lockstep.catalog import os as operating_systems
from lockstep.catalog.os import Release
from lockstep.fast_path import inventory_name
from lockstep.plan import (
    document,
    fabric,
    job_containers,
    listeners,
    nvidia,
    slurm,
    software,
    timing,
)
from lockstep.plan.classes import ClassPlan, class_plan
from lockstep.plan.declaration import Declaration, Step, in_order, ordered
from lockstep.plan.driver import Driver
from lockstep.plan.hosts import login, named
from lockstep.spec import Cluster, Node, Role, Service
from lockstep.spec import nodes as expand_nodes
from lockstep.spec.hardware import Gpu

T = TypeVar("T")


@dataclass(frozen=True)
class NodePlan:
    """Everything a role needs to know about one node. Typed; carried by the pyinfra host."""

    node: Node
    hardware: ClassPlan
    cluster: ClusterPlan = field(repr=False, compare=False)

    @cached_property
    def roles(self) -> tuple[Declaration, ...]:
        """The roles of the node, in the order of a deploy."""
        return software.roles(self)

    @cached_property
    def capabilities(self) -> tuple[str, ...]:
        """The names of its roles, in the order of a deploy."""
        return tuple(role.name for role in self.roles)

    def role_named(self, name: str) -> Declaration:
        """Return the declaration of a role that the node has.

        Raises:
            LookupError: the node does not have it.
        """
        for role in self.roles:
            if role.name == name:
                return role
        raise LookupError(f"{self.name} has no role {name}")

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """Every package of the node, sorted."""
        return self.once("packages", lambda: software.packages(self))

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Units that must be enabled and running."""
        return self.once(
            "units", lambda: tuple(dict.fromkeys(one.name for one in software.all_units(self)))
        )

    @cached_property
    def kind(self) -> Hashable:
        """What nodes have in common that differ by their names and addresses alone."""
        return (self.role, self.hardware.name, self.node.runs, self.capabilities)

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what is made once for all nodes of a kind."""
        alike = (what, self.kind)
        if alike not in self.cluster.made:
            self.cluster.made[alike] = make()
        made: T = self.cluster.made[alike]
        return made

    @property
    def name(self) -> str:
        """Host name, without a domain."""
        return self.node.name

    @property
    def role(self) -> Role:
        """Head or worker."""
        return self.node.role

    @property
    def is_worker(self) -> bool:
        """Whether jobs run on the node."""
        return self.role is Role.WORKER

    @property
    def spec(self) -> Cluster:
        """The whole description."""
        return self.cluster.spec

    @cached_property
    def address(self) -> str:
        """Management address."""
        return str(self.node.management)

    def runs(self, service: Service) -> bool:
        """Say whether this node runs a service."""
        return service in self.node.runs

    @property
    def address_family(self) -> str:
        """``ipv6`` or ``ipv4``: the family of the management network."""
        return f"ipv{self.node.management.version}"

    def endpoint(self, port: int) -> str:
        """Return ``address:port`` as URLs and listeners write it; IPv6 goes in brackets."""
        version_6 = self.node.management.version == 6
        return f"[{self.address}]:{port}" if version_6 else f"{self.address}:{port}"

    @cached_property
    def time(self) -> timing.TimePlan:
        """Where this node's clock comes from."""
        return timing.plan(self.spec, self.cluster.heads, self.name)

    @property
    def controller_host(self) -> str:
        """Name of the node that runs slurmctld."""
        return self.cluster.host_of(Service.SLURM_CONTROLLER)

    @property
    def accounting_host(self) -> str:
        """Name of the node that runs slurmdbd."""
        return self.cluster.host_of(Service.SLURM_ACCOUNTING)

    @property
    def slurm_database_buffer_mib(self) -> int:
        """InnoDB buffer pool: a sixteenth of the memory, at least 128 MiB, at most 8 GiB."""
        return min(8192, max(128, self.hardware.hardware.memory_mib // 16))

    @cached_property
    def sysctl(self) -> dict[str, str]:
        """Kernel parameters of this node."""
        return self.once("sysctl", lambda: software.sysctl(self))

    @cached_property
    def kernel_args(self) -> tuple[str, ...]:
        """All arguments that the plan has for the kernel command line."""
        return self.once("kernel arguments", lambda: software.kernel_args(self))

    @property
    def fabric(self) -> fabric.FabricPlan:
        """What NCCL, UCX and Open MPI are told."""
        return fabric.plan(self.hardware.hardware.nics, self.spec.networks.get("fabric"))

    @property
    def masked_units(self) -> tuple[str, ...]:
        """Units that must never start on this node."""
        return self.once("masked", lambda: software.contributed(self, "masked_units"))

    @property
    def job_parents(self) -> tuple[str, ...]:
        """Services that reach the jobs' CPUs, because jobs and containers begin in them."""
        return tuple(unit.name for unit in software.all_units(self) if unit.runs_jobs)

    @property
    def forbidden_units(self) -> tuple[str, ...]:
        """Units that must not run here because the node lacks their hardware."""
        return self.once("forbidden", lambda: software.contributed(self, "forbidden_units"))

    @cached_property
    def listeners(self) -> tuple[listeners.Listener, ...]:
        """What listens on the network, and where others reach it."""
        return listeners.of_node(self)

    def stack_packages(self, *parts: str) -> tuple[str, ...]:
        """Return the packages of parts of NVIDIA's stack, as far as the node gets them."""
        of_part = self.nvidia.packages_of if self.nvidia is not None else {}
        return tuple(name for part in parts for name in of_part.get(part, ()))

    def job_container_packages(self, part: str) -> tuple[str, ...]:
        """Return the packages of ``enroot``, ``pyxis`` or ``apptainer``, if the node gets it."""
        return tuple(self.job_containers.packages_of.get(part, ()))

    @property
    def nvidia(self) -> nvidia.NvidiaPlan | None:
        """What the node gets of NVIDIA's stack."""
        return self.hardware.nvidia if self.role is Role.WORKER else None

    @property
    def driver(self) -> Driver | None:
        """What is installed of the driver, and for which kernels it has modules."""
        if self.nvidia is None:
            return None
        versions = self.versions
        return Driver(
            self.nvidia.spec.driver,
            {name: versions[name] for name in self.nvidia.driver_packages},
            self.nvidia.modules,
            self.nvidia.replaced,
            self.cluster.release.kernel_headers,
            self.nvidia.parameters,
        )

    @property
    def gpu(self) -> Gpu | None:
        """The GPUs of the node; None on heads and where there are none."""
        return self.hardware.hardware.gpu if self.role is Role.WORKER else None

    @property
    def check_engines(self) -> tuple[str, ...]:
        """Container engines that can be asked to start a container with all boards."""
        if "container_runtime" not in self.capabilities or self.nvidia is None:
            return ()
        return self.spec.software.containers.engines

    @property
    def imex_nodes(self) -> tuple[str, ...]:
        """Addresses of the nodes that share NVLink memory with this one: its group's."""
        return tuple(
            plan.address
            for plan in self.cluster.nodes.values()
            if plan.node.group == self.node.group
        )

    @cached_property
    def job_containers(self) -> job_containers.JobContainersPlan:
        """Apptainer, enroot and pyxis of this node."""
        return job_containers.plan(self.spec, self.cluster.release, self.node)

    @cached_property
    def set_versions(self) -> dict[str, str]:
        """Packages of NVIDIA's stack and of job containers, with their versions as patterns."""
        of_stack = self.nvidia.versions if self.nvidia is not None else {}
        return {**of_stack, **self.job_containers.versions}

    @cached_property
    def versions(self) -> dict[str, str]:
        """Locked versions of the packages this node gets; may be patterns (apt_preferences(5))."""
        locked = self.spec.software.versions
        of_set = self.set_versions
        return {
            name: locked.get(name) or of_set[name]
            for name in self.packages
            if name in locked or name in of_set
        }

    @property
    def pins(self) -> dict[str, str]:
        """What apt is told to prefer: the locked versions, and those that come with them."""
        return {**(self.nvidia.pins if self.nvidia is not None else {}), **self.versions}

    @cached_property
    def held(self) -> tuple[str, ...]:
        """Packages that no upgrade may touch, also one that a person starts: dpkg's hold."""
        return tuple(name for name in self.packages if name in self.set_versions)

    def to_json(self) -> dict[str, Any]:
        """Return the node's own part for programs (pyinfra prints host data with this)."""
        return document.of_node(self)


@dataclass(frozen=True)
class ClusterPlan:
    """The plan of every node, and what only the cluster as a whole has."""

    spec: Cluster
    release: Release
    classes: Mapping[str, ClassPlan]
    slurm: slurm.SlurmPlan | None
    roles: tuple[Declaration, ...]
    """Every role that a node of this cluster may have, in the order of a deploy."""
    _nodes: tuple[Node, ...]
    inventory: str = ""
    """The inventory file, as the user named it: repair commands repeat it."""

    @cached_property
    def nodes(self) -> dict[str, NodePlan]:
        """Node name -> plan, in the order of the description."""
        return {node.name: self._node_plan(node) for node in self._nodes}

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The stages of all roles, in the order of a deploy."""
        return ordered(self.roles)

    @cached_property
    def made(self) -> dict[Hashable, Any]:
        """What was made once for nodes alike."""
        return {}

    def _node_plan(self, node: Node) -> NodePlan:
        return NodePlan(node=node, hardware=self.classes[node.hardware], cluster=self)

    def running(self, service: Service) -> NodePlan | None:
        """Return the node that runs a service; None when no node does."""
        return next((plan for plan in self.nodes.values() if plan.runs(service)), None)

    @property
    def configless(self) -> bool:
        """Whether workers fetch Slurm's configuration from the controller.

        Slurm before 24.11 fetches over IPv4 only (SchedMD's changelog of 24.11: "Support IPv6 in
        configless mode"); there, on an IPv6 network, workers get the files themselves.
        """
        management = self.spec.networks["management"].prefix
        return management.version == 4 or self.release.slurm >= (24, 11)

    def host_of(self, service: Service) -> str:
        """Return the name of the node that runs a service.

        Raises:
            LookupError: no node runs it (``validate`` refuses such a cluster).
        """
        node = self.running(service)
        if node is None:
            raise LookupError(f"{self.spec.name}: no node runs {service.value}")
        return node.name

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """Names of the heads, in the order of the description."""
        return tuple(node.name for node in self._nodes if node.role is Role.HEAD)

    @cached_property
    def hosts(self) -> tuple[tuple[str, str], ...]:
        """(address, name) of every node on the management network: the hosts file's body."""
        return tuple((str(node.management), node.name) for node in self._nodes)

    def group(self, role: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the nodes of a role as a pyinfra host group: names with their data.

        A part before a slash is the connector (``lockstep.fast``); pyinfra's host is called by its
        plain name.
        """
        hosts = [
            (*self.host(name), plan) for name, plan in self.nodes.items() if plan.role is Role(role)
        ]
        return [(called, {"plan": plan, **data}) for called, data, plan in hosts]

    def host(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return what pyinfra's inventory calls a node, and the data of its login."""
        address = {"ssh_hostname": self.nodes[name].address}
        return inventory_name(name), {**address, **login(self.spec.access)}

    def named(self, nodes: str) -> list[str]:
        """Return nodes (``worker[1-4]``) as a further host group; their data is in ``group``'s.

        Raises:
            ValueError: as ``hosts.named``.
        """
        return named(nodes, self.nodes)

    def to_json(self) -> dict[str, Any]:
        """Return the plan of the whole cluster for programs."""
        return {
            "cluster": self.spec.name,
            "os": self.spec.os.release,
            "nodes": {name: plan.to_json() for name, plan in self.nodes.items()},
        }


def plan(cluster: Cluster, roles: Iterable[Declaration], inventory: str = "") -> ClusterPlan:
    """Return the plan of a valid cluster.

    Args:
        cluster: as ``spec.load`` returned it.
        roles: every role that a node may have.
        inventory: the file with the description, as the user named it.

    Raises:
        ValueError: the roles cannot be brought into an order.
    """
    release = operating_systems.load(cluster.os.release)
    classes = {
        name: class_plan(cluster, name, hardware) for name, hardware in cluster.hardware.items()
    }
    all_nodes = tuple(expand_nodes(cluster))
    return ClusterPlan(
        spec=cluster,
        release=release,
        classes=classes,
        slurm=slurm.plan(cluster, all_nodes, {name: c.slurm for name, c in classes.items()}),
        roles=in_order(roles),
        _nodes=all_nodes,
        inventory=inventory,
    )
