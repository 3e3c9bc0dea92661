"""Validates NVLink domains: the nodes whose GPUs share memory over NVLink, usually a rack."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.spec import names
from lockstep.spec.model import Cluster, NodeRole
from lockstep.spec.problem import Problem, violated

MOST_GPUS = {"gb200": 72, "gb300": 72}
"""Model -> GPUs of the largest NVLink domain. Source: NVIDIA, GB200 NVL72 and GB300 NVL72: 18
compute trays with four GPUs each."""


def nvlink_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find domains that cannot exist, and two programs that would both start IMEX."""
    yield from _groups(cluster)
    yield from _domains(cluster)
    of_slurm = {
        group.hardware
        for group in cluster.nodes
        if cluster.scheduler_of(group) == "slurm" and cluster.manages("slurm_worker", group)
    }
    for name, gpu in cluster.gpus.items():
        kubernetes = gpu.imex == "compute_domains"
        yield from violated(
            ("hardware", name, "gpu"),
            (
                kubernetes and not gpu.multi_node_nvlink,
                ("imex",),
                gpu.imex,
                "leave it out: the class does not set multi_node_nvlink",
            ),
            (
                kubernetes and gpu.multi_node_nvlink and cluster.slurm and name in of_slurm,
                ("imex",),
                f"{gpu.imex} with scheduler slurm",
                '"host": jobs of Slurm need the IMEX service of the node. ComputeDomains belong to '
                "Kubernetes; a site that manages slurmd itself lists slurm_worker in unmanaged",
            ),
        )


def _groups(cluster: Cluster) -> Iterator[Problem]:
    for index, group in enumerate(cluster.nodes):
        gpu = cluster.gpus.get(group.hardware)
        yield from violated(
            ("nodes", index),
            (
                group.nvlink_domain
                and group.hardware in cluster.hardware
                and not (gpu and gpu.multi_node_nvlink and group.role is NodeRole.WORKER),
                ("nvlink_domain",),
                str(group.nvlink_domain),
                "leave it out: "
                + (
                    f"hardware class {group.hardware} does not set gpu.multi_node_nvlink"
                    if group.role is NodeRole.WORKER
                    else "only workers share GPU memory"
                ),
            ),
            node=group.name,
        )


def _domains(cluster: Cluster) -> Iterator[Problem]:
    """Find domains with too many GPUs, or with several hardware classes."""
    first: dict[str, str] = {}
    gpus: dict[str, int] = {}
    for index, group in enumerate(cluster.nodes):
        domain, gpu = cluster.domain_of(group), cluster.gpus.get(group.hardware)
        if not domain or gpu is None:
            continue
        hardware = first.setdefault(domain, group.hardware)
        gpus[domain] = gpus.get(domain, 0) + gpu.count * len(names.expand(group.name))
        most = MOST_GPUS.get(gpu.name)
        field = ("nvlink_domain",) if group.nvlink_domain else ("name",)
        yield from violated(
            ("nodes", index),
            (
                group.hardware != hardware,
                field,
                f"{domain} with hardware class {group.hardware}",
                f"hardware class {hardware}, as in the domain's other nodes",
            ),
            (
                most and gpus[domain] > most,
                field,
                f"{gpus[domain]} GPUs in NVLink domain {domain}",
                f"at most {most} GPUs ({gpu.name}): one group of nodes, or one nvlink_domain, for "
                "each rack",
            ),
            node=group.name,
        )
