"""How Slurm learns which nodes are near each other: NVLink domains and leaf switches.

Sources (2026-11-24): SchedMD, topology.yaml(5) of 25.05 and 26.11 (commit 284c3b95),
topology.conf(5) of 24.05 and 24.11, slurm.conf(5), Partition: Topology; topology guide, "Multiple
Topologies", which names 25.05 as the first series with topology.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from lockstep.catalog import slurm as slurm_catalog
from lockstep.report import alike, fold
from lockstep.spec import Cluster, Node
from lockstep.spec.names import expand
from lockstep.spec.schedulers import Partition
from lockstep.spec.validate_slurm import series_of
from lockstep.spec.validate_topology import ROOT

BLOCKS_FROM = (24, 5)
"""First series whose topology.conf(5) has BlockSizes, by its manual page."""
YAML_FROM = (25, 5)
"""First series with topology.yaml, and so with several topologies."""

Kind = Literal["block", "tree", "flat"]
"""The plugin: topology/block, topology/tree or topology/flat."""
NAMES: Mapping[Kind, str] = {"block": "nvlink", "tree": "fabric", "flat": "flat"}
"""Plugin -> the topology's name in topology.yaml, and for partitions."""


@dataclass(frozen=True)
class Topology:
    """One topology of a cluster."""

    kind: Kind
    units: Mapping[str, str]
    """Block or leaf switch -> its nodes; empty for a flat topology."""
    block_size: int = 0
    """Nodes of the smallest block: no block may be smaller than the base block size."""

    @property
    def name(self) -> str:
        """The name of the topology."""
        return NAMES[self.kind]

    @property
    def root(self) -> str:
        """The switch above all leaf switches; "" if there is only one leaf switch."""
        return ROOT if self.kind == "tree" and len(self.units) > 1 else ""


@dataclass(frozen=True)
class Topologies:
    """All topologies of a cluster, the default one first; none if an older Slurm is told none."""

    every: tuple[Topology, ...] = ()
    of_partition: Mapping[str, str] | None = None
    """Partition -> its topology, for topology.yaml; None for topology.conf, which has only one."""

    @property
    def file(self) -> str:
        """The name of the file; "" without a topology."""
        return "" if not self.every else "topology.conf" if self.plugin else "topology.yaml"

    @property
    def plugin(self) -> str:
        """TopologyPlugin in slurm.conf(5), which topology.yaml makes superfluous; "" for none."""
        return f"topology/{self.every[0].kind}" if self.every and self.of_partition is None else ""


def plan(cluster: Cluster, workers: list[Node], partitions: Iterable[Partition]) -> Topologies:
    """Return the topologies of a cluster.

    Args:
        cluster: the description.
        workers: the nodes that run jobs.
        partitions: Slurm's partitions.
    """
    domains = _topology("block", workers, lambda node: node.nvlink_domain)
    switches = _topology("tree", workers, lambda node: node.leaf_switch)
    found = [one for one in (domains, switches) if one.units]
    everyone = {node.name for node in workers}
    if _older(cluster, YAML_FROM):
        possible = [one for one in found if _of(one) == everyone and not _too_old(cluster, one)]
        return Topologies(tuple(possible[:1]))
    return _several(found, everyone, partitions)


def _topology(kind: Kind, workers: Iterable[Node], unit_of: Callable[[Node], str]) -> Topology:
    units = alike([node for node in workers if unit_of(node)], unit_of)
    size = min(map(len, units.values()), default=0) if kind == "block" else 0
    named = {name: fold(node.name for node in nodes) for name, nodes in units.items()}
    return Topology(kind, named, size)


def _of(topology: Topology) -> set[str]:
    return {node for nodes in topology.units.values() for node in expand(nodes)}


def _several(
    found: list[Topology], everyone: set[str], partitions: Iterable[Partition]
) -> Topologies:
    """Give each partition the first topology that has all its nodes, and the others a flat one.

    A job of a partition cannot use nodes that the partition's topology lacks. If none is found, the
    flat one is written, too: without it, the file of an earlier description would stay in force.
    """
    members = {one.name: _of(one) for one in found}

    def holding(nodes: set[str]) -> str:
        return next((name for name, those in members.items() if those >= nodes), NAMES["flat"])

    of_partition = {one.name: holding(set(expand(one.nodes))) for one in partitions}
    default = holding(everyone)
    every = {one.name: one for one in (*found, Topology("flat", {}))}
    used = dict.fromkeys((default, *members, *of_partition.values()))
    return Topologies(tuple(every[name] for name in used), of_partition)


def objections(cluster: Cluster) -> Iterator[str]:
    """Yield why Slurm is not told which nodes are near each other, although it is declared."""
    workers = [group for group in cluster.nodes if cluster.scheduler_of(group) == "slurm"]
    domains = {group.name: cluster.domain_of(group) for group in workers}
    switches = {group.name: group.leaf_switch for group in workers}
    if cluster.slurm is None or not (old := _older(cluster, YAML_FROM)):
        return
    later = f"Slurm {slurm_catalog.text(YAML_FROM)} and later has several topologies"
    if any(domains.values()):
        if older := _older(cluster, BLOCKS_FROM):
            yield (
                f"slurm.conf has no topology of NVLink domains: {older} is older than "
                f"{slurm_catalog.text(BLOCKS_FROM)}"
            )
        elif outside := _outside(domains):
            yield (
                "slurm.conf has no topology of NVLink domains: topology/block cannot hold the "
                f"workers without a domain: {outside}; {later}"
            )
        elif any(switches.values()):
            yield (
                f"slurm.conf has no topology of leaf switches: {old} has one topology, and that "
                f"is the one of NVLink domains; {later}"
            )
            return
    if any(switches.values()) and (outside := _outside(switches)):
        yield (
            "slurm.conf has no topology of leaf switches: topology/tree cannot hold the workers "
            f"without a leaf switch: {outside}; {later}"
        )


def _outside(units: Mapping[str, str | None]) -> str:
    return fold(node for name, unit in units.items() if not unit for node in expand(name))


def _too_old(cluster: Cluster, topology: Topology) -> bool:
    return topology.kind == "block" and bool(_older(cluster, BLOCKS_FROM))


def _older(cluster: Cluster, wanted: slurm_catalog.Series) -> str:
    """Return the oldest Slurm that is older than a series, as text; "" if there is none.

    A version that is not known counts as older than topology.yaml: topology.conf suits all series.
    """
    series = {one: series_of(cluster, one, "slurmctld") for one in cluster.releases}
    older = {name: one for name, one in series.items() if one and one < wanted}
    if older:
        name, oldest = min(older.items(), key=itemgetter(1))
        return f"Slurm {slurm_catalog.text(oldest)} on {name}"
    unknown = [name for name, one in series.items() if one is None]
    return f"Slurm of an unknown version on {unknown[0]}" if unknown and wanted == YAML_FROM else ""
