"""What Slurm says: of its database, of its daemons, of a node."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase
from typing_extensions import override

from lockstep.plan.slurm_files import HEALTH_CHECK, SLURM_CONF

DISTRIBUTED = "/var/lib/lockstep/slurm-distributed"
"""Touched when every slurmd was told to fetch the configuration."""

"""Slurm's HealthCheckProgram, installed by the role node_check."""
OURS = "lockstep:"
"""How a reason begins that the health check gave."""


class DatabaseLogin(FactBase[bool]):
    """Returns whether slurmdbd's own account and password open its database.

    The password is read on the node from slurmdbd.conf and handed over on standard input.
    """

    @override
    def command(self) -> str:
        return (
            "sed -n 's/^StoragePass=\\(.*\\)$/[client]\\nuser=slurm\\npassword=\\1/p' "
            "/etc/slurm/slurmdbd.conf | "
            "mariadb --defaults-extra-file=/dev/stdin -N -e 'select 1' slurm_acct_db 2>/dev/null "
            # A refused login is an answer, not a failure.
            "|| echo refused"
        )

    @override
    def process(self, output: Iterable[str]) -> bool:
        return list(output) == ["1"]


class AccountingClusters(FactBase[tuple[str, ...]]):
    """Returns the clusters that slurmdbd knows; empty when it does not answer."""

    @override
    def command(self) -> str:
        return "timeout 60 sacctmgr -nP list cluster format=cluster 2>/dev/null; echo end"

    @override
    def process(self, output: Iterable[str]) -> tuple[str, ...]:
        return tuple(line for line in output if line != "end")


class ConfigurationDistributed(FactBase[bool]):
    """Returns whether the slurmds were told of the configuration that is on disk."""

    @override
    def command(self, files: Iterable[str]) -> str:
        quoted = " ".join(shlex.quote(path) for path in files)
        return (
            f"for f in {quoted}; do "
            f'if [ ! -e {DISTRIBUTED} ] || [ "$f" -nt {DISTRIBUTED} ]; then echo stale; fi; done; '
            "echo end"
        )

    @override
    def process(self, output: Iterable[str]) -> bool:
        return "stale" not in list(output)


class NewlyNamed(FactBase[bool]):
    """Returns whether a file does not name something yet, on a node that has a slurm.conf.

    Without a slurm.conf no job has run: nothing counts on anything yet.
    """

    @override
    def command(self, what: str, named_in: str) -> str:
        return (
            f"if [ -e {SLURM_CONF} ] && ! grep -q -s -F {shlex.quote(what)} "
            f"{shlex.quote(named_in)}; then echo new; else echo old; fi"
        )

    @override
    def process(self, output: Iterable[str]) -> bool:
        return list(output) == ["new"]


@dataclass(frozen=True)
class SlurmNodeState:
    """A node as slurmctld shows it."""

    states: frozenset[str]
    """Base state and flags, ``IDLE``, ``DOWN``, ``NOT_RESPONDING``; empty: no answer."""
    reason: str
    healthy: bool
    """The node's own health check had a reason, and finds nothing wrong now."""


class SlurmNode(FactBase[SlurmNodeState]):
    """Returns what the controller says of a node; scontrol(1), show node."""

    @override
    def command(self, node: str) -> str:
        return (
            f"said=$(timeout 30 scontrol -o show node {shlex.quote(node)} 2>/dev/null); "
            """printf '%s\\n' "$said"; """
            # It reads the whole node: only where its answer counts.
            f'case "$said" in *" Reason={OURS}"*) echo "health $({HEALTH_CHECK} status)";; esac'
        )

    @override
    def process(self, output: Iterable[str]) -> SlurmNodeState:
        lines = list(output)
        healthy = "health ok" in lines
        state = re.search(r" State=(\S+)", lines[0])
        reason = re.search(r" Reason=(.*?)(?: \[\w+@|$)", lines[0])
        if state is None:
            return SlurmNodeState(frozenset(), "", healthy)
        words = state.group(1)
        states = set(words.rstrip("*").split("+"))
        if words.endswith("*"):  # the older spelling of NOT_RESPONDING
            states.add("NOT_RESPONDING")
        return SlurmNodeState(frozenset(states), reason.group(1) if reason else "", healthy)
