"""The repair of a difference: a deploy of the role that owns the object, or a command.

A command is only named, and never run by Lockstep. Names are quoted for a shell. Where no command
is known to be right, the repair says which nodes have the right value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from lockstep.checks.context import View
from lockstep.checks.fingerprint.reverting import accounts, files, kernel, network, software, units
from lockstep.checks.fingerprint.reverting.case import Case, Revert
from lockstep.checks.rule import DEPLOY
from lockstep.node.fingerprint.not_applied import CPUS, LIMIT, STATE
from lockstep.plan import NodePlan, owners
from lockstep.report import fold

REVERTS: Mapping[str, Revert] = {
    "file": files.of_file,
    "program": files.of_program,
    "package": software.of_package,
    "engine": software.of_engine,
    "user": accounts.of_user,
    "group": accounts.of_group,
    "unit": units.of_unit,
    "timer": units.of_timer,
    "process": units.of_process,
    "cgroup": units.of_cgroup,
    "running": units.of_running,
    "sysctl": kernel.of_sysctl,
    "module": kernel.of_module,
    "mount": kernel.of_mount,
    "swap": kernel.of_swap,
    "interface": network.of_interface,
    "address": network.of_address,
    "route": network.of_route,
    "rule": network.of_rule,
    "neighbour": network.of_neighbour,
    "nexthop": network.of_nexthop,
    "netns": network.of_namespace,
    "tc": network.of_queueing,
    "xfrm": network.of_policy,
    "firewall": network.of_firewall,
}
"""Domain -> the function that names the commands. For other domains no command is known."""
IDENTITY = re.compile("<[^>]*>")
"""What takes the place of a node's own name, address and the like in fields."""
WRITTEN = frozenset({"content", "mode", "owner", "type", "shipped", "package", "target"})
"""What a deploy sets of a file. It removes no ACL, no capability and no attribute."""

NOT_CONFIGURED = "apply the configured value, or change the configuration to the running one"


class Repair(NamedTuple):
    """A repair for one node, and the roles whose deploy it is."""

    text: str
    roles: tuple[str, ...] = ()


def commands(domain: str, case: Case) -> str:
    """Return the shell commands that revert a difference; "" if none is known to be right."""
    steps = REVERTS[domain](case) if domain in REVERTS else ()
    text = " && ".join(step for step in steps if step != ":")
    # A name with control characters could not be pasted.
    return text if text.isprintable() and not IDENTITY.search(text) else ""


def repair(view: View, domain: str, case: Case, right: tuple[str, ...]) -> Repair:
    """Return the repair of a difference on a node.

    Args:
        view: the node.
        domain: the domain of the object.
        case: the difference.
        right: the nodes that have the right value; none if the node's configuration has it.
    """
    plan = view.plan
    roles = owners.together(plan, owner(plan, domain, case))
    if roles:
        text = DEPLOY.format(
            inventory=plan.cluster.inventory or "INVENTORY",
            role=plan.role.value,
            node=plan.name,
            roles=",".join(roles),
        )
        return Repair(plan.cluster.runnable(text), roles)
    text = commands(domain, case)
    if not text and domain == "process" and case.is_extra:
        text = f"find out who started {case.name.removeprefix('by hand: ')}, and stop it"
    if not text and right:
        text = f"make {case.name} the same as on {fold(right)}"
    return Repair(f"on {plan.name}: {text or NOT_CONFIGURED}")


def owner(plan: NodePlan, domain: str, case: Case) -> tuple[str, ...]:
    """Return the role whose deploy sets what differs; none if no role's does."""
    if domain == "file":
        roles = {file.path: role for role, file in plan.system.files}
        if case.name in roles and not case.is_extra and case.changed <= WRITTEN:
            return (roles[case.name],)
    elif domain == "unit" and case.changed <= {"enabled", "active"}:
        masks = owners.first(plan, lambda role: role.contributes.masked_units(plan))
        if case.should("enabled") == "masked" and case.name in masks:
            return (masks[case.name],)
        if case.should("active") == "active" and case.should("enabled").startswith("by "):
            return owners.of_unit(plan, case.name)
    elif domain == "package":
        return _of_package(plan, case)
    elif domain == "running":
        return _of_running(plan, case)
    return ()


def _of_running(plan: NodePlan, case: Case) -> tuple[str, ...]:
    """Return the role that applies a setting of a service without a restart (``not_applied``)."""
    unit, _, attribute = case.name.partition(": ")
    starts = attribute == STATE and unit.endswith(".socket") and case.was("running") == "inactive"
    applied_by = {
        "cpu_sets": attribute == CPUS,
        "os_settings": attribute.startswith(LIMIT),
        "container_runtime": starts,
    }
    return tuple(role for role, applies in applied_by.items() if applies and role in plan.roles)


def _of_package(plan: NodePlan, case: Case) -> tuple[str, ...]:
    """Return the roles of a package that is missing, or not at its locked version, or not held."""
    name = re.split(r":|\.\w+$", case.name)[0]
    software = plan.software
    if name not in software.packages or case.is_extra:
        return ()
    set_by_roles = {
        "status": True,
        "installed": case.is_missing,
        "version": case.is_missing or name in software.versions,
        "selection": name in software.held and case.should("selection") == "hold",
    }
    if all(set_by_roles.get(field, False) for field in case.changed):
        return owners.of_package(plan, name)
    return ()
