"""Operations of the role kubernetes_node."""

from __future__ import annotations

from lockstep.facts.kubernetes import swap_areas
from lockstep.plan import NodePlan
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.operation import Commands, ask, operation


@operation("no swap is in use")
def swap_off() -> Commands:
    """Stop the use of all swap areas; the masked swap.target keeps them off after a boot."""
    if ask(swap_areas()):
        yield "swapoff --all"


def apply(plan: NodePlan) -> None:
    """Write the files of a node of Kubernetes, make its routes, and turn swap off."""
    put_files(plan, "kubernetes_node")
    keep_units(plan, "kubernetes_node")
    if plan.kubernetes.own_swap:
        swap_off(name="Swap")
