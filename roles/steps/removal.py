"""Removes what Lockstep wrote to a node if it is no longer in the plan.

Owns     nothing; it removes unchanged files and units, and restores files that packages ship. A
         membership of Kubernetes is undone first, while its programs are there.
Restart  nothing: a leftover unit is stopped. On a busy node, everything that running jobs might
         use stays for now.
"""

from __future__ import annotations

from pyinfra import host
from pyinfra.api import StringCommand, deploy

from lockstep.facts.manifest import manifest_state, on_the_node
from lockstep.facts.reboot import hold_state
from lockstep.fast import limits
from lockstep.manifest import ManifestError, has_entries, left_over, parsed, without
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import OF_A_MEMBER, PKI
from lockstep.removal import Removal, commands, decide
from lockstep.roles.operations import kubernetes_leaving as leaving
from lockstep.roles.operations.manifest import put, unreadable
from lockstep.roles.operations.operation import Commands, ask, operation
from lockstep.roles.operations.packages import MANAGERS
from lockstep.roles.operations.run import begins
from lockstep.roles.steps.reboot.turn import BUSY
from lockstep.spec import NodeRole

SLURM = "slurm_worker"
"""The role that makes a node a worker of Slurm."""


@operation("nothing to remove", limits.LONG_S)
def removed(plan: NodePlan, named: tuple[str, ...] = ()) -> Commands:
    """Remove all leftovers that are unchanged and that no running job can be using.

    Args:
        plan: the plan of the node.
        named: the packages, users and groups that may be removed.
    """
    try:
        manifest = parsed(ask(manifest_state()).text)
    except ManifestError as error:
        yield StringCommand("cat >&2; exit 1", _stdin=unreadable(error))
        return
    there = ask(on_the_node())
    member = leaving.membership(plan)
    left = left_over(plan, there.manifest, there.packages)
    # A node that is still Kubernetes' alone is not in Slurm: the controller cannot know it.
    of_slurm = not member or not plan.manages(SLURM) or has_entries(manifest, SLURM)
    busy = _busy(plan, there.job_steps, of_slurm) if left or member else ""
    removal = decide(plan, left, named, busy, member=bool(member))
    for line in described(removal):
        host.log(line)
    taken = removal.taken
    if member:
        host.log(leaving.described(plan, member, busy))
    if member and not busy:
        yield from leaving.undone(plan, member)
        if member.intersection(OF_A_MEMBER):  # then kubeadm reset has deleted this folder
            taken = tuple(one for one in taken if not one.name.startswith(f"{PKI}/"))
    finished = (*removal.taken, *removal.gone)
    if not finished:
        return
    yield from commands(taken, MANAGERS[plan.release.family], plan.release.family)
    yield put(without(manifest, finished))


def described(removal: Removal) -> list[str]:
    """For each leftover, return a line that says that it is removed, or why it stays."""
    return [
        *(f"removed: {one.section} {one.name} ({one.state})" for one in removal.taken),
        *(f"left: {one.section} {one.name} {why}" for one, why in removal.stays),
    ]


def _busy(plan: NodePlan, job_steps: int, of_slurm: bool) -> str:
    """Return the reason why the node counts as busy; "" if no jobs are running there."""
    if plan.role is NodeRole.HEAD:
        return ""
    if job_steps:
        return "job steps are running on the node"
    if not plan.takes_slurm_jobs or not of_slurm:
        return ""
    hold = ask(hold_state(plan.name))
    if hold.jobs is None or not hold.states:
        return "the controller did not report whether jobs are running on the node"
    return "jobs are running on the node" if hold.jobs or hold.states & BUSY else ""


@deploy("Removal")
def apply(plan: NodePlan) -> None:
    """Remove what is left over, including the packages and users that ``--data`` names."""
    if not begins(host.state, plan.cluster):
        return
    given = (host.data.get("packages"), host.data.get("users"))
    named = tuple(name for names in given if names for name in str(names).split(","))
    removed(name="Left over", plan=plan, named=named)
