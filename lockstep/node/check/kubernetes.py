"""Sets the condition of a node in Kubernetes, and cordons and uncordons it.

The node does this with its kubelet's own certificate. The API server lets a node change its own
status and its own ``unschedulable``, but never its own taints
(plugin/pkg/admission/noderestriction of Kubernetes 1.34). Kubernetes itself adds the taint
node.kubernetes.io/unschedulable to a node that is cordoned.
"""

from __future__ import annotations

import time
from typing import Any

from lockstep.node.check.judge import Result
from lockstep.node.check.slurm import reason
from lockstep.node.readers.kubernetes import Api, Conflict
from lockstep.node.readers.slurm import OURS

KUBELET_CONF = "/etc/kubernetes/kubelet.conf"
CONDITION = "LockstepHealthy"
CORDONED = "lockstep/cordoned"
"""Annotation of a node that Lockstep cordoned, with the reason. Those of the node check begin as in
Slurm; those of rollouts (lockstep/roles/steps/reboot/pods.py) begin otherwise."""
TRIES = 3
MERGE = "application/strategic-merge-patch+json"
"""Of a list of conditions, it changes those of the same type (Kubernetes API, Update API objects
in place)."""


def is_ours(node: dict[str, Any]) -> bool:
    """Return whether the node check cordoned a node, given its object."""
    return _why(node).startswith(OURS)


def _why(node: dict[str, Any]) -> str:
    return str((node["metadata"].get("annotations") or {}).get(CORDONED, ""))


def take_out(name: str, failed: list[Result]) -> str:
    """Cordon the node, unless somebody else did, and say why in its condition; return the result.

    Raises:
        Unread: the API server does not answer, or refuses.
    """
    api, text = Api(KUBELET_CONF), reason(failed)
    for _ in range(TRIES):
        node = api.ask(f"/api/v1/nodes/{name}")
        node = _set_condition(api, node, "False", text)
        if node["spec"].get("unschedulable"):
            if is_ours(node):
                return "already cordoned"
            return f"not cordoned: the node is already cordoned ({_why(node) or 'a person'})"
        if _cordoned(api, node, text):
            return "cordoned"
    return f"not cordoned: the node changed {TRIES} times meanwhile"


def bring_back(name: str) -> bool:
    """Uncordon the node if the node check cordoned it; return whether it was uncordoned.

    A node that changes each time meanwhile is left to the next run.

    Raises:
        Unread: the API server does not answer, or refuses.
    """
    api = Api(KUBELET_CONF)
    for _ in range(TRIES):
        node = api.ask(f"/api/v1/nodes/{name}")
        node = _set_condition(api, node, "True", "the node check found no failure")
        if not is_ours(node):
            return False
        if _cordoned(api, node, None):
            return True
    return False


def _cordoned(api: Api, node: dict[str, Any], why: str | None) -> bool:
    """Cordon or (None) uncordon a node; return False if it has changed since it was read.

    A rollout may cordon it meanwhile, or take over its cordon. With the resourceVersion that was
    read, the API server refuses then (409; k8s.io/apiserver 0.34, registry/generic/registry/
    store.go, Update).
    """
    metadata = {
        "annotations": {CORDONED: why},
        "resourceVersion": node["metadata"]["resourceVersion"],
    }
    change = {"metadata": metadata, "spec": {"unschedulable": True if why else None}}
    try:
        api.ask(f"/api/v1/nodes/{node['metadata']['name']}", "PATCH", change, MERGE)
    except Conflict:
        return False
    return True


def _set_condition(api: Api, node: dict[str, Any], status: str, text: str) -> dict[str, Any]:
    """Set the condition of a node, if it has another one (Kubernetes API, NodeCondition).

    Returns the node as it is then, with its new resourceVersion.
    """
    rows = node["status"].get("conditions") or []
    before: dict[str, Any] = next((row for row in rows if row["type"] == CONDITION), {})
    if (before.get("status"), before.get("message")) == (status, text):
        return node
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    changed = before.get("lastTransitionTime", now) if before.get("status") == status else now
    condition = {
        "type": CONDITION,
        "status": status,
        "reason": "NodeCheckPassed" if status == "True" else "NodeCheckFailed",
        "message": text,
        "lastHeartbeatTime": now,
        "lastTransitionTime": changed,
    }
    path = f"/api/v1/nodes/{node['metadata']['name']}/status"
    changed_node = api.ask(path, "PATCH", {"status": {"conditions": [condition]}}, MERGE)
    return dict(changed_node)
