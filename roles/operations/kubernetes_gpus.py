"""Operations of the role kubernetes_gpus."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from typing import Any

from lockstep.facts.files import file_states
from lockstep.facts.kubernetes import nodes_seen
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import KUBECTL
from lockstep.plan.kubernetes_gpus import LAYOUTS, NAMESPACE, gpu_workers, layouts
from lockstep.roles.operations.operation import Commands, ask, operation

RESTART = f"{KUBECTL} --namespace {NAMESPACE} rollout restart daemonset >/dev/null"

OFFERED_S = {"operands": 90, "operator": 600}
"""The operator pulls several large images first, and validates them one after the other."""
OFFERED = (
    "end=$(($(date +%s) + {limit})); for node in {nodes}; do "
    f"until {KUBECTL} get node $node "
    "-o jsonpath='{{.status.allocatable}}' | grep -q '\"nvidia.com/[^\"]*\":\"[1-9]'; do "
    '[ $(date +%s) -lt $end ] || {{ echo "$node offers no GPUs after {limit} s. '
    f'Next: kubectl -n {NAMESPACE} get pods -o wide" >&2; exit 1; }}}}; '
    "sleep 1; done; done"
)


def layouts_seen(plan: NodePlan) -> None:
    """Start the device plugin anew after the workers have got other MIG devices."""
    looked_again(name="MIG devices", plan=plan)
    offered(name="GPUs are offered", plan=plan)


@operation("the device plugin has seen the layouts of the GPUs", limit_s=60.0)
def looked_again(plan: NodePlan) -> Commands:
    """Restart the pods that look for MIG devices only when they start, and note the layouts.

    Args:
        plan: the plan of the node.
    """
    text = f"{layouts(plan)}\n"
    noted = ask(file_states((LAYOUTS,)))[LAYOUTS]
    if noted is None or noted.sha256 != hashlib.sha256(text.encode()).hexdigest():
        # Before the first note, the plugin has not started yet, or has found what there is.
        if noted is not None:
            yield RESTART
        yield f"printf %s {shlex.quote(text)} >{LAYOUTS}"


@operation("every worker offers GPUs", limit_s=max(OFFERED_S.values()) + 30)
def offered(plan: NodePlan) -> Commands:
    """Wait until the device plugin has told the kubelet of each new worker about its GPUs.

    It waits only for workers that take pods and offer none: one with too few has a fault, which the
    check names, and one that failed, or that was taken out of service, must not hold up the others.

    Args:
        plan: the plan of the node.
    """
    nodes = ask(nodes_seen())
    lacking = [
        one.name
        for one in gpu_workers(plan)
        if _takes_pods(node := nodes.get(one.name, {}))
        and not any(
            number != "0"
            for resource, number in node["allocatable"].items()
            if resource.startswith("nvidia.com/")
        )
    ]
    if lacking:
        limit = OFFERED_S[plan.kubernetes.settings.gpus.deploy]
        yield OFFERED.format(nodes=shlex.join(lacking), limit=limit)


def _takes_pods(node: Mapping[str, Any]) -> bool:
    """Return whether a node has joined, has a kubelet that answers, and is not cordoned."""
    # "False" is a node that has just joined; "Unknown", one that is lost (Kubernetes, Node Status).
    ready = node.get("conditions", {}).get("Ready", "Unknown")
    return ready != "Unknown" and not node["unschedulable"]
