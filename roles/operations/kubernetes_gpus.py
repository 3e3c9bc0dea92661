"""Operations of the role kubernetes_gpus."""

from __future__ import annotations

import hashlib
import shlex

from lockstep.facts.files import file_states
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import ADMIN_CONF
from lockstep.plan.kubernetes_gpus import LAYOUTS, NAMESPACE, layouts
from lockstep.roles.operations.operation import Commands, ask, operation

RESTART = (
    f"kubectl --kubeconfig {ADMIN_CONF} --request-timeout=20s --namespace {NAMESPACE} "
    "rollout restart daemonset >/dev/null"
)


def layouts_seen(plan: NodePlan) -> None:
    """Start the device plugin anew after the workers have got other MIG devices."""
    looked_again(name="MIG devices", plan=plan)


@operation("the device plugin has seen the layouts of the GPUs", limit_s=60.0)
def looked_again(plan: NodePlan) -> Commands:
    """Restart the pods that look for MIG devices only when they start, and note the layouts.

    Args:
        plan: the plan of the node.
    """
    text = f"{layouts(plan)}\n"
    noted = ask(file_states((LAYOUTS,)))[LAYOUTS]
    if noted is None or noted.sha256 != hashlib.sha256(text.encode()).hexdigest():
        yield RESTART
        yield f"printf %s {shlex.quote(text)} >{LAYOUTS}"
