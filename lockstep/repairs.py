"""Which deploys a report asks for, where and with which roles; what they repaired. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lockstep.forms.groups import NAMED_IN_A_COMMAND, devices
from lockstep.plan import ClusterPlan, owners
from lockstep.report import Finding, Report, Status, fold
from lockstep.spec import Role, Service

REBOOT = "deploys/reboot.py"


@dataclass(frozen=True)
class Deploy:
    """One run of pyinfra: nodes of one kind that need the same roles."""

    role: Role
    nodes: tuple[str, ...]
    roles: tuple[str, ...]

    @property
    def file(self) -> str:
        """Return the deploy, as seen from the folder that users work in."""
        return f"deploys/{self.role.value}.py"


class Why(enum.Enum):
    """Why a finding is left; in the order in which people are told."""

    STAYED = "still found after their deploy"
    DEPLOY = "a deploy's to repair"
    REBOOT = "waiting for a reboot"
    PERSON = "a person's to repair"
    UNDECIDED = "undecided: peers disagree"
    UNREAD = "not read"


def deploys(report: Report, plan: ClusterPlan) -> list[Deploy]:
    """Return the runs that a report asks for: heads first, accounting before the controller."""
    wanted: dict[str, set[str]] = {}
    for finding in report:
        if finding.roles:
            wanted.setdefault(finding.node, set()).update(finding.roles)
    alike: dict[tuple[Role, tuple[str, ...]], list[str]] = {}
    for name, node in plan.nodes.items():
        if roles := owners.together(node, wanted.get(name, ())):
            alike.setdefault((node.role, roles), []).append(name)
    found = [Deploy(role, tuple(nodes), roles) for (role, roles), nodes in alike.items()]
    return sorted(found, key=_order)


def _order(deploy: Deploy) -> tuple[bool, int]:
    services = [service.value for service in Service]
    last = max((services.index(name) for name in deploy.roles if name in services), default=-1)
    return deploy.role is Role.WORKER, last


def limits(nodes: Iterable[str], plan: ClusterPlan) -> list[str]:
    """Return pyinfra's options for these nodes alone; a whole large group by its name."""
    names = list(nodes)
    for role in Role:
        group = [name for name, node in plan.nodes.items() if node.role is role]
        if len(names) > NAMED_IN_A_COMMAND and set(names) == set(group):
            names = [role.value]
    return [word for name in names for word in ("--limit", name)]


def repaired(before: Report, after: Report) -> list[Finding]:
    """Return what deploys were to repair and is no longer found, device by device."""
    left = {(f.rule, f.node, device) for f in after for device in devices(f)}
    found = []
    for finding in before:
        gone = [d for d in devices(finding) if (finding.rule, finding.node, d) not in left]
        if finding.roles and gone:
            found.append(replace(finding, device=fold(gone) if len(gone) > 1 else gone[0]))
    return found


def left(after: Report, done: Iterable[Deploy]) -> dict[Why, list[Finding]]:
    """Return what is still found, by the reason why."""
    ran: dict[str, set[str]] = {}
    for deploy in done:
        for node in deploy.nodes:
            ran.setdefault(node, set()).update(deploy.roles)
    found: dict[Why, list[Finding]] = {why: [] for why in Why}
    for finding in after:
        found[_why(finding, ran)].append(finding)
    return {why: findings for why, findings in found.items() if findings}


def _why(finding: Finding, ran: Mapping[str, set[str]]) -> Why:
    of_status = {
        Status.UNKNOWN.value: Why.UNREAD,
        Status.UNDECIDED.value: Why.UNDECIDED,
        Status.PENDING_REBOOT.value: Why.REBOOT,
    }
    if finding.status in of_status:
        return of_status[finding.status]
    if not finding.roles:
        return Why.PERSON
    if not set(finding.roles) <= ran.get(finding.node, set()):
        return Why.DEPLOY
    return Why.REBOOT if REBOOT in finding.repair else Why.STAYED
