"""What listens on a node's network, from its role and services.

Ports: slurm.conf(5) SlurmctldPort, SlurmdPort; slurmdbd.conf(5) DbdPort; chrony.conf(5) port. munge
has no port: it answers on a local socket, and its credentials travel inside Slurm's messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lockstep.plan import nvidia
from lockstep.spec import Cluster

SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818
SLURMDBD_PORT = 6819
NTP_PORT = 123


@dataclass(frozen=True)
class Listener:
    """One port that peers must reach."""

    unit: str
    protocol: Literal["tcp", "udp"]
    port: int


def plan(
    cluster: Cluster, capabilities: tuple[str, ...], time_served_to: tuple[str, ...]
) -> tuple[Listener, ...]:
    """Return the listeners of a node with these capabilities."""
    monitoring = cluster.monitoring
    found = [Listener("ssh.service", "tcp", cluster.access.port)]
    if time_served_to:
        found.append(Listener("chrony.service", "udp", NTP_PORT))
    by_capability = {
        "node_exporter": ("prometheus-node-exporter.service", monitoring.node_exporter_port),
        "dcgm_exporter": (nvidia.DCGM_EXPORTER, monitoring.dcgm_exporter_port),
        "prometheus": ("prometheus.service", monitoring.prometheus_port),
        "slurm_accounting": ("slurmdbd.service", SLURMDBD_PORT),
        "slurm_controller": ("slurmctld.service", SLURMCTLD_PORT),
        "slurm_worker": ("slurmd.service", SLURMD_PORT),
    }
    found += [
        Listener(unit, "tcp", port)
        for capability, (unit, port) in by_capability.items()
        if capability in capabilities
    ]
    return tuple(found)
