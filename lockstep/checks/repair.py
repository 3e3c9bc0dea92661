"""How a finding is repaired: a role's deploy, a command for a person, or a reboot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lockstep.checks.context import View

DEPLOY = "pyinfra -y {inventory} deploys/{role}.py --limit {node} --data roles={roles}"
"""The repair of everything that a role sets. ``lockstep repair`` runs repairs that begin so."""

NO_ROLE = "on {node}: find what changed {device}; no role sets it"
"""The repair of what a role sets on other nodes and no role sets here."""

REBOOT = "pyinfra -y {inventory} deploys/reboot.py --limit {node}"
"""The repair of what is right on disk and only waits for a reboot."""

REBOOT_BY_SLURM = "on the controller: scontrol reboot ASAP nextstate=RESUME {node}"
"""The reboot after a change that the description does not declare: the rollout does not do it."""


@dataclass(frozen=True)
class Pending:
    """When a reboot is all that is missing."""

    when: Callable[[View, str], bool]
    note: str = ""
    """The same in words, for the documents."""
    repair: str = REBOOT


@dataclass(frozen=True)
class Repair:
    """The repair of a rule's findings.

    Texts may name {inventory} {node} {role} (head, worker) {roles} (roles of Lockstep) {address}
    {device} {expected} (as text) {value}.
    """

    text: str = DEPLOY
    owner: str = "person"
    """Role that sets it, or "person"; in words where it is not the same for all items."""
    roles: Callable[[View, str], Iterable[str]] | None = None
    """Roles that set an item, where ``owner`` is words."""
    no_role: str = NO_ROLE
    """Where the repair is a deploy and no role sets the item on this node."""
    peers: str | None = None
    """Where the peers decide: a role cannot set what the description does not declare."""
    pending: Pending | None = None


def by_role(
    owner: str,
    text: str = DEPLOY,
    *,
    roles: Callable[[View, str], Iterable[str]] | None = None,
    no_role: str = NO_ROLE,
    peers: str | None = None,
    pending: Pending | None = None,
) -> Repair:
    """Return the repair of what a role sets."""
    return Repair(text, owner, roles, no_role, peers, pending)


def by_hand(
    text: str = NO_ROLE, *, peers: str | None = None, pending: Pending | None = None
) -> Repair:
    """Return a repair that a person makes; ``peers`` where the peers decide."""
    return Repair(text, peers=peers, pending=pending)
