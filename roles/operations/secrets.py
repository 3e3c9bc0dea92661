"""The cluster's secrets for a role, or an operation that fails and says what is missing."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import StringCommand

from lockstep.plan import NodePlan
from lockstep.roles.operations.operation import operation
from lockstep.secrets import Secrets, SecretsUnsafe, existing, obtain, store


@operation()
def refused(why: str) -> Generator[StringCommand, None, None]:
    """Fail on this host alone: an exception would end the run for all of them.

    Args:
        why: what is missing and what to do.
    """
    yield StringCommand("cat >&2; exit 1", _stdin=why)


def secrets_of(plan: NodePlan) -> Secrets | None:
    """Return the cluster's secrets; None after an operation that fails.

    New ones are made only in a run that deploys the controller too: a run for one node on
    another machine would give that node a key of its own.
    """
    name, folder = plan.spec.name, plan.spec.secrets_dir
    try:
        controller = host.state.inventory.get_host(plan.controller_host, None)
        if controller is not None and host.state.is_host_in_limit(controller):
            return obtain(name, folder)
        found = existing(name, folder)
    except SecretsUnsafe as error:
        refused(name="Secrets", why=str(error))
        return None
    if found is None:
        refused(
            name="Secrets",
            why=f"{store(name, folder)}: no secrets of cluster {name} on this machine. Deploy from "
            f"the machine that holds them, or with {plan.controller_host} in the run to make new "
            "ones for all nodes.",
        )
    return found
