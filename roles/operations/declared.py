"""Applies a declaration: writes its files, including secrets, and keeps its units running."""

from __future__ import annotations

from collections.abc import Iterable

from pyinfra.api import StringCommand

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.declaration import File, Unit
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.operation import Commands, operation
from lockstep.roles.operations.service import units
from lockstep.secrets import Secrets, SecretsUnsafe, existing, store


def put_files(plan: NodePlan, role: str) -> bool:
    """Write a role's files; if secrets are missing, add a failing operation and return False.

    Args:
        plan: the plan of the node.
        role: a role of the node.
    """
    files = plan.roles[role].files_on(plan)
    has_secrets = any(file.secret for file in files)
    secrets = secrets_of(plan) if has_secrets else None
    if has_secrets and secrets is None:
        return False
    if secrets is not None and (why := no_file(files, secrets, plan)):
        refused(name="Secrets", why=why)
        return False
    if files:
        managed_files(name="Files", files=managed(plan, secrets, role))
    return True


@operation()
def refused(why: str) -> Commands:
    """Fail on this host only: an exception would end the run for all hosts.

    Args:
        why: the error message, with the next step.
    """
    yield StringCommand("cat >&2; exit 1", _stdin=why)


def secrets_of(plan: NodePlan) -> Secrets | None:
    """Return the cluster's secrets; if there are none, add a failing operation and return None."""
    try:
        found = existing(plan.spec.name, plan.spec.secrets_dir, plan.spec.software.module_key)
    except SecretsUnsafe as error:
        refused(name="Secrets", why=str(error))
        return None
    if found is None:
        refused(name="Secrets", why=no_secrets(plan))
    return found


def no_file(files: Iterable[File], secrets: Secrets, plan: NodePlan) -> str:
    """Return a message if this machine lacks a file of the site with a secret, else ""."""
    needed = [one for one in files if one.secret_content and one.secret_content(secrets) is None]
    key = plan.spec.software.module_key
    if not needed or key is None:
        return ""
    return (
        f"{key[0]}: no such file (software.module_signing.key), which {plan.name} needs as "
        f"{needed[0].path}. Next: copy the key to this path, with mode 0600"
    )


def no_secrets(plan: NodePlan) -> str:
    """Return the message for a machine that has no secrets of the cluster, with the next step."""
    return (
        f"{store(plan.spec.name, plan.spec.secrets_dir)}: no secrets for cluster "
        f"{plan.spec.name} on this machine. Next: lockstep secrets {plan.cluster.inventory} "
        "(only if the cluster is new). If another machine has deployed it, copy that machine's "
        "file to this path instead"
    )


def keep_units(plan: NodePlan, role: str, *names: str) -> None:
    """Keep the units of a role enabled, and running with the current files.

    Args:
        plan: the plan of the node.
        role: a role of the node.
        names: the names of the units; if empty, all units of the role.
    """
    wanted = services_of(plan, role, *names)
    if wanted:
        units(name="Services", wanted=wanted)


Service = tuple[str, tuple[str, ...], tuple[str, ...], bool]
"""A unit's name, the files it reads at start and on reload, and whether it must run."""


def services_of(plan: NodePlan, role: str, *names: str) -> tuple[Service, ...]:
    """Return the units of a role that a node keeps running; arguments as in ``keep_units``."""
    return tuple(
        _service(plan, role, unit)
        for unit in plan.roles[role].units
        if unit.wanted(plan) and (not names or unit.name in names)
    )


def _service(plan: NodePlan, role: str, unit: Unit) -> Service:
    files = plan.roles[role].files_on(plan) if unit.reads_own_files else ()
    own = tuple(file.path for file in files)
    again = tuple(path for path in own if unit.reloads and path.endswith(unit.reloads))
    at_start = (*(path for path in own if path not in again), *unit.starts_with(plan))
    return unit.name, at_start if unit.restart == "changed" else (), again, unit.essential
