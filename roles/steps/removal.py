"""Removes what is left over on a node: what Lockstep wrote there and the plan has no longer.

Owns     nothing; it removes unchanged files and units, and puts back files of packages.
Restart  nothing: a unit that is left over is stopped. What running jobs use waits on a busy node.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from pyinfra import host
from pyinfra.api import FactBase, FactProcessError, StringCommand, deploy
from typing_extensions import override

from lockstep.facts.manifest import Manifest
from lockstep.facts.node import NodeProbe
from lockstep.facts.reboot import Hold
from lockstep.manifest import LeftOver, ManifestError, left_over, parsed, without
from lockstep.node.readers.manifest import MANIFEST
from lockstep.plan import NodePlan
from lockstep.probe.record import Unread
from lockstep.removal import Removal, commands, decide
from lockstep.roles.operations.manifest import put, unreadable
from lockstep.roles.operations.operation import operation
from lockstep.roles.operations.packages import APT_GET
from lockstep.roles.steps.reboot.turn import BUSY
from lockstep.spec import Role


class JobSteps(FactBase[int]):
    """Returns how many steps of jobs run on a node."""

    @override
    def command(self) -> str:
        # A step names itself so; "slurmstepd infinity" only keeps a cgroup. pgrep(1) ends with 1
        # where there is none: that is an answer.
        return "pgrep -c -f '^slurmstepd: \\['; true"

    @override
    def process(self, output: Iterable[str]) -> int:
        lines = list(output)
        if len(lines) != 1 or not lines[0].isdigit():
            raise FactProcessError(f"job steps, unexpected answer: {lines}")
        return int(lines[0])


class Refused(Exception):
    """The node cannot be judged; the text says why and what to do."""


@operation()
def removed(
    plan: NodePlan, named: tuple[str, ...] = (), path: str = MANIFEST
) -> Generator[StringCommand | str, None, None]:
    """Remove what is left over on a node, as far as it is unchanged and no running job uses it.

    Args:
        plan: of the node.
        named: packages, users and groups that may be removed.
        path: where the node has its manifest.
    """
    try:
        manifest = parsed(host.get_fact(Manifest, path=path).text)
        left = _left_over(plan)
    except ManifestError as error:
        yield StringCommand("cat >&2; exit 1", _stdin=unreadable(error))
        return
    except Refused as refused:
        yield StringCommand("cat >&2; exit 1", _stdin=str(refused))
        return
    removal = decide(plan, left, named, _busy(plan) if left else "")
    for line in described(removal):
        host.log(line)
    finished = (*removal.taken, *removal.gone)
    if not finished:
        host.noop("nothing to remove")
        return
    yield from commands(removal.taken, APT_GET)
    yield put(without(manifest, finished), path)


def described(removal: Removal) -> list[str]:
    """Return what becomes of each thing that is left over, a line for each."""
    return [
        *(f"removed: {one.section} {one.name} ({one.state})" for one in removal.taken),
        *(f"left: {one.section} {one.name} {why}" for one, why in removal.stays),
    ]


def _left_over(plan: NodePlan) -> tuple[LeftOver, ...]:
    """Read the node as the check reads it.

    Raises:
        Refused: it could not be read.
    """
    record = host.get_fact(NodeProbe)
    if record is None:
        raise Refused("not read, so nothing was removed")
    reading, packages = record.get("manifest"), record.get("packages")
    for part in (reading, packages):
        if isinstance(part, Unread):
            raise Refused(f"not read, so nothing was removed: {part.unread}")
    if not isinstance(reading, dict) or not isinstance(packages, dict):
        return ()  # no manifest: nothing is known to be Lockstep's
    return left_over(plan, reading, packages)


def _busy(plan: NodePlan) -> str:
    """Return why the node counts as busy; "" when no job runs there."""
    if plan.role is Role.HEAD:
        return ""
    if host.get_fact(JobSteps):
        return "steps of jobs run on the node"
    if plan.spec.scheduler is None:
        return ""
    hold = host.get_fact(Hold, node=plan.name)
    if hold.jobs is None or not hold.states:
        return "the controller does not say whether jobs run on the node"
    return "jobs run on the node" if hold.jobs or hold.states & BUSY else ""


@deploy("Removal")
def apply(plan: NodePlan) -> None:
    """Remove what is left over, with the packages and users that ``--data`` names."""
    given = (host.data.get("packages"), host.data.get("users"))
    named = tuple(name for names in given if names for name in str(names).split(","))
    removed(name="Left over", plan=plan, named=named)
