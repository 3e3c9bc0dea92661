"""Obtains the secrets of a cluster before a deploy adds any operation.

New secrets are made only for a new cluster: by ``lockstep secrets``, or by a run that deploys the
controller. Otherwise, a run from another machine would give some nodes a different key.
"""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.exceptions import PyinfraError

from lockstep.plan import NodePlan
from lockstep.plan.declaration import File
from lockstep.roles.operations.apply import asked_for
from lockstep.roles.operations.declared import no_file, no_secrets
from lockstep.secrets import SecretsUnsafe, existing, obtain, store
from lockstep.spec import Service


def made(plan: NodePlan) -> None:
    """Generate missing secrets if this run includes the controller; else require them.

    Raises:
        PyinfraError: as in ``required``, or the file cannot be written. It ends the run before any
            node is changed.
    """
    if not _concerned(plan):
        return
    hosts = [host.state.inventory.get_host(name, None) for name in _makers(plan)]
    if not any(one is not None and host.state.is_host_in_limit(one) for one in hosts):
        required(plan)
        return
    spec = plan.spec
    try:
        found = obtain(
            spec.name, spec.secrets_dir, spec.software.module_key, spec.kubernetes is not None
        )
    except SecretsUnsafe as error:
        raise PyinfraError(str(error)) from error
    except OSError as error:
        path = store(plan.spec.name, plan.spec.secrets_dir)
        raise PyinfraError(
            f"{error.filename or path}: {error.strerror}. Next: make {path.parent} a folder that "
            "is writable for this user and has free space, and run the command again"
        ) from error
    if why := no_file(_needed(plan), found, plan):
        raise PyinfraError(why)


def _makers(plan: NodePlan) -> list[str]:
    """Return the nodes whose first deploy makes a new cluster: those that run its controllers."""
    slurm = [plan.cluster.controller_host] if plan.spec.slurm is not None else []
    first = plan.cluster.running(Service.KUBERNETES_CONTROL_PLANE)
    return [*slurm, *([first.name] if first is not None else [])]


def required(plan: NodePlan) -> None:
    """Require the secrets for the roles that this run applies to a node.

    Raises:
        PyinfraError: this machine has no secrets of the cluster, or an unsafe file. It ends the run
            before any node is changed.
    """
    if not _concerned(plan):
        return
    try:
        found = existing(plan.spec.name, plan.spec.secrets_dir, plan.spec.software.module_key)
    except SecretsUnsafe as error:
        raise PyinfraError(str(error)) from error
    if found is None:
        raise PyinfraError(no_secrets(plan))
    if why := no_file(_needed(plan), found, plan):
        raise PyinfraError(why)


def _concerned(plan: NodePlan) -> bool:
    """Return whether this run reads secrets for a node: for its files, or for a token to join."""
    return bool(_needed(plan)) or "kubernetes_worker" in _chosen(plan)


def _chosen(plan: NodePlan) -> set[str]:
    asked = asked_for(host.data.get("roles"), {role.name for role in plan.cluster.roles})
    return {name for name in plan.roles if name in asked}


def _needed(plan: NodePlan) -> list[File]:
    """Return the secret files that this run writes to a node."""
    chosen = _chosen(plan)
    return [
        file
        for name, role in plan.roles.items()
        if name in chosen
        for file in role.files_on(plan)
        if file.secret
    ]
