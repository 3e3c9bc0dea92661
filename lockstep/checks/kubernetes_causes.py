"""Causes that leave rules about Kubernetes without data, and words that the rules share."""

from __future__ import annotations

from lockstep.checks.rule import CONTROL_PLANE, UNREAD, Cause
from lockstep.plan.kubernetes import ADMIN_CONF

KUBELET, CONTAINERD = "kubelet.service", "containerd.service"
KUBECTL = f"on a head: kubectl --kubeconfig {ADMIN_CONF}"
NOT_SEEN = (
    Cause("unit.active", device=KUBELET, of=UNREAD),
    Cause("unit.active", device=CONTAINERD, of=UNREAD),
    Cause("kubernetes.node", of=UNREAD),
)
"""Causes that leave a rule without data about the node's own pods."""


def not_asked(rule: str) -> tuple[Cause, ...]:
    """Return the causes that leave ``rule`` without data from the API server."""
    return (
        Cause("node.reachable", at=CONTROL_PLANE, of=UNREAD),
        Cause("unit.active", device=KUBELET, at=CONTROL_PLANE, of=UNREAD),
        Cause("unit.active", device=CONTAINERD, at=CONTROL_PLANE, of=UNREAD),
        Cause("kubernetes.control_plane", at=CONTROL_PLANE, of=UNREAD),
        Cause("kubernetes.node", at=CONTROL_PLANE, of=UNREAD),
        *(() if rule == "kubernetes.node" else (Cause("kubernetes.node", of=UNREAD),)),
        # Before the API server notices, it asks a kubelet that is gone.
        Cause("unit.active", device=KUBELET, of=UNREAD),
    )
