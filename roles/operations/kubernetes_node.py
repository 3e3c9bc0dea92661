"""Operations of the role kubernetes_node."""

from __future__ import annotations

from lockstep.facts.kubernetes import pod_routes, swap_areas
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import ROUTES_UNIT, routed
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.operation import Commands, ask, operation


@operation("no swap is in use")
def swap_off() -> Commands:
    """Stop the use of all swap areas; the masked swap.target keeps them off after a boot."""
    if ask(swap_areas()):
        yield "swapoff --all"


@operation("the routes to the pods of other nodes exist")
def routes_made(plan: NodePlan) -> Commands:
    """Make the routes if one is missing, leads elsewhere, or is too much.

    Args:
        plan: the plan of the node.
    """
    if ask(pod_routes()) != dict(plan.kubernetes.routes):
        yield f"systemctl restart {ROUTES_UNIT}"


def apply(plan: NodePlan) -> None:
    """Write the files of a node of Kubernetes, make its routes, and turn swap off."""
    put_files(plan, "kubernetes_node")
    keep_units(plan, "kubernetes_node")
    if routed(plan):  # its unit makes them at boot
        routes_made(name="Routes to pods", plan=plan)
    if plan.kubernetes.own_swap:
        swap_off(name="Swap")
