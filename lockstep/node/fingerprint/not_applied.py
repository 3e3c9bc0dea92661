"""Settings of services that systemd has not applied: limits, CPUs, and sockets that do not listen.

A setting of systemd reaches a service when it next starts (systemd-system.conf(5)). Services that
started before it was written keep their old values until the next boot, unless a role changes them.
"""

from __future__ import annotations

from lockstep.node.fingerprint.exempt import by_domain, without_exceptions
from lockstep.node.fingerprint.running import EXCEPTIONS_OF_RUNNING, read_attributes, read_states
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request

CPUS, LIMIT, STATE = "CPUs", "limit ", "state"
"""Attributes, as the domain ``running`` names them; the name of a limit follows ``LIMIT``."""


def read_not_applied(request: Request, commands: Commands) -> Readings:
    """Units that run with other settings: unit -> attribute -> configured value.

    Only what can be changed without a restart is included.
    """
    table = by_domain(EXCEPTIONS_OF_RUNNING)
    found: dict[str, dict[str, str]] = {}
    entries = [*read_attributes(commands), *read_states(commands)]
    for entry in entries:
        unit, _, attribute = entry.name.partition(": ")
        can_change = attribute == CPUS or attribute.startswith(LIMIT)
        can_start = attribute == STATE and unit.endswith(".socket")
        starts = can_start and entry.fields["running"] == "inactive"
        if (can_change or starts) and without_exceptions("running", entry, table) is not None:
            found.setdefault(unit, {})[attribute] = entry.fields["configured"]
    return {"services.not_applied": {unit: found[unit] for unit in sorted(found)}}
