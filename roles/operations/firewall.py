"""Operations of the role firewall."""

from __future__ import annotations

from pyinfra.api import StringCommand

from lockstep.facts.firewall import listens, loaded_rules
from lockstep.facts.services import service_state
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.firewall import FIREWALLD, NFT_UNIT, NFTABLES, UNITS
from lockstep.roles.operations.declared import keep_units
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.operation import Commands, CommandsOrReason, ask, operation
from lockstep.roles.operations.service import RUNNING

LOAD = {
    NFTABLES: f"systemctl reload {NFT_UNIT}",
    # It reads zones and the default zone again, and waits until the kernel has the rules.
    FIREWALLD: "firewall-cmd --reload >/dev/null",
}


@operation()
def files(plan: NodePlan) -> CommandsOrReason:
    """Write the files, unless their rules would keep the next deploy out.

    Args:
        plan: the plan of the node.
    """
    ssh = plan.firewall.accepted[0].ports
    if not ask(listens(ssh)):
        yield StringCommand("cat >&2; exit 1", _stdin=unsafe(plan.name, ssh))
        return ""
    yield from managed_files._inner(files=managed(plan, None, "firewall"))
    return "every file of this role is as planned"


def unsafe(name: str, ssh: str) -> str:
    """Return the message for a node on which sshd does not listen on the declared port."""
    return (
        f"{name}: nothing listens on {ssh} (access.port), so this connection comes through another "
        "port, which the packet filter would close; nothing was written. Next: set access.port to "
        "the port on which the node's sshd listens, and deploy again"
    )


@operation("firewalld runs")
def bus() -> Commands:
    """Let D-Bus read its files again before firewalld starts for the first time.

    It read those of polkit before the package had made polkit's user (seen with Debian 13); then
    polkit does not start, and firewalld waits for it until its own start fails.
    """
    if ask(service_state(UNITS[FIREWALLD])).active not in RUNNING:
        yield "systemctl reload dbus.service"


@operation()
def loaded(plan: NodePlan) -> CommandsOrReason:
    """Load the rules if they are not those of the plan: somebody may have changed or flushed them.

    Args:
        plan: the plan of the node.
    """
    kind = plan.firewall.kind
    if ask(loaded_rules(kind)) != plan.firewall.rules:
        yield LOAD[kind]
    return "the planned rules are loaded"


def apply(plan: NodePlan) -> None:
    """Write the files, keep the unit running, then load the rules if others are loaded."""
    files(name="Files", plan=plan)
    if plan.firewall.kind == FIREWALLD:
        bus(name="D-Bus")
    keep_units(plan, "firewall")
    loaded(name="Rules", plan=plan)
