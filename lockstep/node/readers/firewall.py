"""The rules of the packet filter that Lockstep keeps, as the kernel or firewalld has them.

nft(8), firewall-cmd(1).
"""

from __future__ import annotations

from lockstep.node.readers.commands import Commands, failure, installed
from lockstep.node.readers.reading import ABSENT, Readings, Request, each

TABLE = "table inet lockstep"
OF_FIREWALLD = "table inet firewalld"
NOT_RUNNING = 252
"""firewall-cmd(1), exit codes: NOT_RUNNING."""
NO_RULES = ("interfaces", "forward", "ingress-priority", "egress-priority")
"""Lines of ``--list-all`` that say nothing about what a zone accepts from other machines."""


def read_firewall(request: Request, commands: Commands) -> Readings:
    """The rules of each requested program, one per line; "absent" if it has loaded none."""
    read = {"nftables": _nftables, "firewalld": _firewalld}
    return {"firewall.rules": each(request["firewall"], lambda kind: read[kind](commands))}


def _nftables(commands: Commands) -> object:
    """Return Lockstep's table, without counters, with protocols and priorities as numbers."""
    if TABLE not in _tables(commands):
        return ABSENT
    shown = commands.run(
        # Names of protocols would be those of /etc/protocols, which a node may lack.
        *("nft", "--stateless", "--numeric-priority", "--numeric-protocol"),
        *("list", "table", "inet", "lockstep"),
    )
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    return [line for line in lines if line not in ("", "}", f"{TABLE} {{")]


def _tables(commands: Commands) -> list[str]:
    return commands.run("nft", "list", "tables").splitlines() if installed("nft") else []


def _firewalld(commands: Commands) -> object:
    """Return what the default zone accepts, sorted, and the table if the kernel has it.

    The daemon does not notice that somebody deletes its table.
    """
    if not installed("firewall-cmd"):
        return ABSENT
    status, shown, err = commands.outcome("firewall-cmd", "--list-all")
    if status == NOT_RUNNING:
        return ABSENT
    if status:
        raise failure("firewall-cmd", status, shown, err)
    zone, *lines = shown.splitlines()
    found = {f"zone: {zone.split()[0]}", *(one for one in _tables(commands) if one == OF_FIREWALLD)}
    for line in lines:
        key, _, value = line.strip().partition(": ")
        if line.startswith("\t"):
            found.add(line.strip())
        elif key not in NO_RULES and value != "no":
            found |= {f"{key}: {word}" for word in value.split()}
    return sorted(found)
