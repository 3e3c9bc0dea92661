"""What listens on a node's network, as the units of its roles have it.

munge has no port: it answers on a local socket, and its credentials travel inside Slurm's messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lockstep.plan import software

if TYPE_CHECKING:
    from lockstep.plan import NodePlan


@dataclass(frozen=True)
class Listener:
    """One port that peers must reach."""

    unit: str
    protocol: Literal["tcp", "udp"]
    port: int


def of_node(plan: NodePlan) -> tuple[Listener, ...]:
    """Return the listeners of a node: sshd, and the units of its roles that have a port."""
    ports = ((unit, unit.port(plan)) for unit in software.all_units(plan) if unit.port is not None)
    return (
        Listener("ssh.service", "tcp", plan.spec.access.port),
        *(Listener(unit.name, unit.protocol, port) for unit, port in ports if port is not None),
    )
