"""The plan of a cluster and of its hardware classes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lockstep.catalog import os as operating_systems
from lockstep.catalog.gpus import GpuModel
from lockstep.catalog.os import Release
from lockstep.fast_path import inventory_name
from lockstep.plan import boot, cpu, notes, nvidia, running, slurm, topology
from lockstep.plan.declaration import Declaration, Step, in_order, ordered
from lockstep.plan.node import NodePlan
from lockstep.spec import Cluster, HardwareClass, Node, NodeRole, Service
from lockstep.spec import nodes as expand_nodes
from lockstep.spec.names import expand
from lockstep.spec.validate_slurm import series_on

ClassKey = tuple[str, str]
"""The names of a hardware class and of a release."""


@dataclass(frozen=True)
class ClassPlan:
    """The part of the plan that nodes of a hardware class share that have the same release."""

    name: str
    hardware: HardwareClass
    release: Release
    cpu: cpu.CpuPlan
    hugepages: Mapping[str, Mapping[int, int]]
    """Page size (2M, 1G) -> NUMA node -> number of pages."""
    cpu_files: tuple[running.KernelFile, ...]
    kernel_files: tuple[running.KernelFile, ...]
    slurm: slurm.SlurmNodePlan
    gpu_model: GpuModel | None
    gpu_devices: tuple[str, ...]
    nvidia: nvidia.NvidiaPlan | None
    """The NVIDIA stack of a class's workers; None if they have no GPUs or no stack is declared."""

    @property
    def key(self) -> ClassKey:
        """The names of the hardware class and of the release."""
        return (self.name, self.release.name)


def class_plan(cluster: Cluster, name: str, hardware: HardwareClass, release: Release) -> ClassPlan:
    """Return the plan of a hardware class on a release."""
    cpus, gpu = cpu.plan(hardware), hardware.nvidia_gpu
    system_memory_mib = cluster.slurm.system_memory_mib if cluster.slurm else 0
    return ClassPlan(
        name=name,
        hardware=hardware,
        release=release,
        cpu=cpus,
        hugepages=boot.hugepages(hardware),
        cpu_files=running.cpu_files(hardware, cpus),
        kernel_files=running.kernel_files(hardware),
        slurm=slurm.node_plan(
            hardware,
            cpus,
            system_memory_mib,
            detected=gpu is not None and slurm.detects_gpus(cluster, gpu, release),
        ),
        gpu_model=gpu.values if gpu else None,
        gpu_devices=slurm.gpu_devices(gpu) if gpu else (),
        nvidia=nvidia.plan(cluster, hardware, release),
    )


@dataclass(frozen=True)
class ClusterPlan:
    """The plans of all nodes, and of the cluster as a whole."""

    spec: Cluster
    classes: Mapping[ClassKey, ClassPlan]
    """A plan for each combination of a hardware class and a release that nodes have.

    A class that no node has is on ``os.release``.
    """
    slurm: slurm.SlurmPlan | None
    roles: tuple[Declaration, ...]
    """Every role that a node of this cluster may have, in deploy order."""
    _nodes: tuple[Node, ...]
    inventory: str = ""
    """Path of the inventory file, as the user gave it; repair commands contain it."""
    deploys: Mapping[str, str] = field(default_factory=dict)
    """Name of a deploy -> its path for commands; by default ``deploys/NAME.py``."""
    made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Values that nodes of the same kind share (``NodePlan.once``)."""

    @cached_property
    def nodes(self) -> dict[str, NodePlan]:
        """Node name -> plan, in the order of the description."""
        return {
            node.name: NodePlan(node, self.classes[node.hardware, node.release], self)
            for node in self._nodes
        }

    @cached_property
    def with_every_role(self) -> ClusterPlan:
        """The plan as it would be if the site managed no role itself."""
        groups = tuple(one.model_copy(update={"unmanaged": ()}) for one in self.spec.nodes)
        spec = self.spec.model_copy(update={"unmanaged": (), "nodes": groups})
        return self if spec == self.spec else replace(self, spec=spec)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The stages of all roles, in deploy order."""
        return ordered(self.roles)

    def runnable(self, text: str) -> str:
        """Return a text in which each ``deploys/NAME.py`` is the path of that deploy."""
        return re.sub(
            r"(?<![\w./-])deploys/(\w+)\.py", lambda one: self.deploys.get(one[1], one[0]), text
        )

    def deploy_command(self, deploy: str) -> str:
        """Return the pyinfra command that runs a deploy without asking."""
        return self.runnable(f"pyinfra -y {self.inventory or 'INVENTORY'} deploys/{deploy}.py")

    def running(self, service: Service) -> NodePlan | None:
        """Return the plan of the node that runs a service; None if no node does."""
        return next((plan for plan in self.nodes.values() if plan.runs(service)), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan leaves out, and what of it is not verified, one line each."""
        return (
            *self.left_out,
            *topology.objections(self.spec),
            *notes.gpudirect(self.spec),
            *notes.not_verified(self.spec),
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """What neither the plan nor the check covers, one line each."""
        nodes = () if self.spec.manages_nothing else self.nodes.values()
        return (
            *notes.unmanaged(self.spec),
            *notes.not_installed(nodes),
            *notes.left_out(self.spec),
        )

    @property
    def configless(self) -> bool:
        """Whether workers fetch Slurm's configuration from the controller.

        All workers do, or none. Before 24.11, slurmd could fetch it only over IPv4 (SchedMD's
        changelog of 24.11: "Support IPv6 in configless mode"), so on an IPv6 network the deploy
        writes the files to the workers.
        """
        version = self.spec.networks["management"].prefix.version
        return version == 4 or self.slurm_series >= (24, 11)

    @cached_property
    def slurm_series(self) -> tuple[int, int]:
        """The oldest of the nodes' Slurm series, which must understand the common files."""
        return min(
            series_on(self.spec, operating_systems.load(node.release))
            for node in self._nodes
            if node.scheduler == "slurm" or Service.SLURM_CONTROLLER in node.runs
        )

    def host_of(self, service: Service) -> str:
        """Return the name of the node that runs a service.

        Raises:
            LookupError: no node runs it.
        """
        node = self.running(service)
        if node is None:
            raise LookupError(f"no node of cluster {self.spec.name} runs {service.value}")
        return node.name

    @property
    def controller_host(self) -> str:
        """Name of the node that runs slurmctld."""
        return self.host_of(Service.SLURM_CONTROLLER)

    @property
    def accounting_host(self) -> str:
        """Name of the node that runs slurmdbd."""
        return self.host_of(Service.SLURM_ACCOUNTING)

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """Names of the heads, in the order of the description."""
        return tuple(node.name for node in self._nodes if node.role is NodeRole.HEAD)

    @cached_property
    def hosts(self) -> tuple[tuple[str, str], ...]:
        """(management address, name) pairs of all nodes, for /etc/hosts."""
        return tuple((str(node.management), node.name) for node in self._nodes)

    def group(self, role: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the nodes with a role (head or worker) as a pyinfra host group: names and data.

        A host name may begin with a prefix such as ``@lockstep/``, which selects the connector.
        """
        return [
            (inventory_name(name), {"plan": plan, **self.login(name)})
            for name, plan in self.nodes.items()
            if plan.role is NodeRole(role)
        ]

    def login(self, name: str) -> dict[str, Any]:
        """Return the data that pyinfra needs to log in to a node."""
        access = self.spec.access
        return {
            "ssh_hostname": self.nodes[name].address,
            "ssh_user": access.user,
            "ssh_port": access.port,
            "ssh_strict_host_key_checking": "yes",
            "_sudo": True,
            **({"ssh_key": access.key} if access.key else {}),
            **({"ssh_known_hosts_file": access.known_hosts} if access.known_hosts else {}),
        }

    def named(self, names: str) -> list[str]:
        """Return a range of nodes (``worker[1-4]``) as an additional host group, without host data.

        Raises:
            ValueError: ``names`` is not a valid range, or contains an unknown name.
        """
        nodes = expand(names)
        unknown = [node for node in nodes if node not in self.nodes]
        if unknown:
            raise ValueError(f"the cluster does not contain {', '.join(unknown)}")
        return [inventory_name(node) for node in nodes]

    def to_json(self) -> dict[str, Any]:
        """Return the plan of the whole cluster as JSON-serializable data."""
        return {
            "cluster": self.spec.name,
            "os": self.spec.os.release,
            "notes": list(self.notes),
            "nodes": {name: plan.to_json() for name, plan in self.nodes.items()},
        }


def plan(
    cluster: Cluster,
    roles: Iterable[Declaration],
    inventory: str = "",
    deploys: Mapping[str, str] | None = None,
) -> ClusterPlan:
    """Return the plan of a valid cluster.

    Args:
        cluster: the cluster that ``spec.load`` returned.
        roles: every role that a node may have.
        inventory: path of the inventory file, as the user gave it.
        deploys: name of a deploy -> its path for commands.

    Raises:
        ValueError: the roles have no valid order.
    """
    all_nodes = tuple(expand_nodes(cluster))
    of_nodes = [(node.hardware, node.release) for node in all_nodes]
    unused = cluster.hardware.keys() - {name for name, _ in of_nodes}
    classes = {
        (name, release): class_plan(
            cluster,
            name,
            cluster.hardware[name],
            operating_systems.load(release).on(cluster.hardware[name].architecture),
        )
        for name, release in (
            *dict.fromkeys(of_nodes),
            *((name, cluster.os.release) for name in sorted(unused)),
        )
    }
    return ClusterPlan(
        spec=cluster,
        classes=classes,
        slurm=slurm.plan(cluster, all_nodes, {key: one.slurm for key, one in classes.items()}),
        roles=in_order(roles),
        _nodes=all_nodes,
        inventory=inventory,
        deploys=deploys or {},
    )
