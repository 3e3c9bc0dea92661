"""Operations of the role kubernetes_node."""

from __future__ import annotations

from fnmatch import fnmatchcase

from pyinfra.api import StringCommand

from lockstep.facts.files import file_states
from lockstep.facts.kubernetes import pod_routes, swap_areas
from lockstep.facts.packages import package_state
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import DONE, KUBELET_CONF, ROUTES_UNIT, packages, routed
from lockstep.roles.operations.declared import keep_units, put_files
from lockstep.roles.operations.operation import Commands, ask, operation


@operation("the node has the planned version, or has not joined yet")
def same_version(plan: NodePlan) -> Commands:
    """Refuse to go on with another version: only deploys/upgrade.py knows the order of an upgrade.

    Args:
        plan: the plan of the node.
    """
    planned = packages(plan)
    found = ask(package_state(planned)).installed
    other = [
        f"{name} {version}"
        for name, version in found.items()
        if not fnmatchcase(version, planned[name])
    ]
    if other and ask(file_states((DONE,)))[DONE] is not None:
        yield StringCommand(
            "cat >&2; exit 1",
            _stdin=(
                f"{plan.name} has {', '.join(other)}, and scheduler.version is "
                f"{plan.kubernetes.settings.version}: nothing of Kubernetes was changed. Next: "
                f"{plan.cluster.deploy_command('upgrade')}"
            ),
        )


@operation("the API server has the address with which the node has joined")
def same_endpoint(plan: NodePlan) -> Commands:
    """Refuse to go on with another address of the API server.

    It is in the kubeconfigs of all nodes and in the certificates of the heads, and kubeadm cannot
    change it (Kubernetes, Creating a cluster with kubeadm: ControlPlaneEndpoint).

    Args:
        plan: the plan of the node.
    """
    planned = plan.kubernetes.endpoint
    files = ask(file_states((DONE, KUBELET_CONF)))
    done = files[DONE]
    # Earlier versions noted no address, and after a reset the node joins anew.
    if done is None or files[KUBELET_CONF] is None or done.holds(""):
        return
    if done.holds(f"{planned}\n"):
        return
    yield StringCommand(
        f"{{ cat {DONE}; cat; }} >&2; exit 1",
        _stdin=(
            f"The line above is the address of the API server that {plan.name} has joined, and the "
            f"description has {planned}: Kubernetes was left as it is there. kubeadm cannot give a "
            "cluster another address. Next: declare the old one (scheduler.virtual_address, "
            "scheduler.api_port, the first head); or, to make another cluster, which loses all of "
            "this one: kubeadm reset on every node, then run this again"
        ),
    )


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
    same_version(name="Version", plan=plan)
    same_endpoint(name="Address of the API server", plan=plan)
    put_files(plan, "kubernetes_node")
    keep_units(plan, "kubernetes_node")
    if routed(plan):  # its unit makes them at boot
        routes_made(name="Routes to pods", plan=plan)
    if plan.kubernetes.own_swap:
        swap_off(name="Swap")
