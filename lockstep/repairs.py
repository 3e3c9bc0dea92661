"""Finds the deploys that repair findings, and separates repaired findings from the rest."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lockstep.forms.groups import NAMED_IN_A_COMMAND, devices
from lockstep.plan import ClusterPlan, owners
from lockstep.report import Finding, Report, Status, alike, fold
from lockstep.spec import NodeRole, Service

REBOOT = "deploys/reboot.py"


@dataclass(frozen=True)
class Deploy:
    """One pyinfra run: heads or workers that need the same roles deployed."""

    role: NodeRole
    nodes: tuple[str, ...]
    roles: tuple[str, ...]

    @property
    def file(self) -> str:
        """Return the path of the deploy, relative to the root of the checkout."""
        return f"deploys/{self.role.value}.py"


class Why(enum.Enum):
    """Why a finding remains; the output lists the reasons in this order."""

    STAYED = "still found after their deploy"
    DEPLOY = "to repair by a deploy"
    REBOOT = "waiting for a reboot"
    PERSON = "to repair by hand"
    UNDECIDED = "undecided: peers disagree"
    UNREAD = "not read"


OF_STATUS = {
    Status.UNKNOWN.value: Why.UNREAD,
    Status.UNDECIDED.value: Why.UNDECIDED,
    Status.PENDING_REBOOT.value: Why.REBOOT,
}
"""Status -> why findings with this status remain; other statuses allow several reasons."""


def deploys(report: Report, plan: ClusterPlan) -> list[Deploy]:
    """Return the deploys that repair findings, heads first and accounting before the controller."""
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for finding in report:
        wanted[finding.node].update(finding.roles)
    needs = alike(
        plan.nodes.values(), lambda node: (node.role, owners.together(node, wanted[node.name]))
    )
    found = [
        Deploy(role, tuple(node.name for node in nodes), roles)
        for (role, roles), nodes in needs.items()
        if roles
    ]
    return sorted(found, key=_order)


def _order(deploy: Deploy) -> tuple[bool, int]:
    services = (number for number, one in enumerate(Service) if one.value in deploy.roles)
    return deploy.role is NodeRole.WORKER, max(services, default=-1)


def limits(nodes: Iterable[str], plan: ClusterPlan) -> list[str]:
    """Return pyinfra's ``--limit`` options for these nodes.

    A long list of all heads or all workers is replaced by the name of their group.
    """
    names = list(nodes)
    for role in NodeRole:
        group = [name for name, node in plan.nodes.items() if node.role is role]
        if len(names) > NAMED_IN_A_COMMAND and set(names) == set(group):
            names = [role.value]
    return [word for name in names for word in ("--limit", name)]


def repaired(before: Report, after: Report) -> list[Finding]:
    """Return the findings that the deploys repaired, each with only its repaired devices."""
    left = {(f.rule, f.node, device) for f in after for device in devices(f)}
    found = []
    for finding in before:
        gone = [d for d in devices(finding) if (finding.rule, finding.node, d) not in left]
        if finding.roles and gone:
            found.append(replace(finding, device=fold(gone) if len(gone) > 1 else gone[0]))
    return found


def left(after: Report, done: Iterable[Deploy]) -> dict[Why, list[Finding]]:
    """Return the remaining findings, grouped by the reason why they remain."""
    ran: defaultdict[str, set[str]] = defaultdict(set)
    for deploy in done:
        for node in deploy.nodes:
            ran[node].update(deploy.roles)
    found = alike(after, lambda finding: _why(finding, ran[finding.node]))
    return {why: found[why] for why in Why if why in found}


def _why(finding: Finding, ran: set[str]) -> Why:
    if finding.status in OF_STATUS:
        return OF_STATUS[finding.status]
    if not finding.roles:
        return Why.PERSON
    if not ran.issuperset(finding.roles):
        return Why.DEPLOY
    return Why.REBOOT if REBOOT in finding.repair else Why.STAYED
