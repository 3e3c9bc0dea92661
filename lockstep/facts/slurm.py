"""Questions about Slurm: its database, its daemons, and a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.facts.files import is_younger
from lockstep.node.readers.slurm import OURS as OURS
from lockstep.plan.slurm_files import SLURM_CONF
from lockstep.question import Question, Taken, question

DISTRIBUTED = "/var/lib/lockstep/slurm-distributed"
"""File that is touched after slurmctld has told every slurmd to fetch the configuration."""

NOT_COMPARED = "lockstep-compare:"
"""Prefix of the drain reason of a node that is not known to equal its class. It is not "lockstep:",
because the health check resumes nodes whose drain reason starts with "lockstep:"."""
TO_COMPARE = f"{NOT_COMPARED} not compared with its class yet"
AWAITS_REBOOT = f"{NOT_COMPARED} equal to its class, but a reboot is pending"
"""The drain reason of a node that the rolling reboot (``deploys/reboot.py``) resumes."""


@question("database", "slurm.database_login")
def database_login(taken: Taken) -> bool:
    """Ask whether slurmdbd can log in to its database with its account and password."""
    return bool(taken["slurm.database_login"])


@question("slurm.clusters", "slurm.clusters")
def accounting_clusters(taken: Taken) -> tuple[str, ...]:
    """Ask for the clusters in the accounting database; empty if slurmdbd does not answer."""
    # Before the role has run, slurmdbd may be missing. The role waits for it and asks again.
    return tuple(taken.known("slurm.clusters") or ())


def configuration_distributed(files: Iterable[str]) -> Question[bool]:
    """Ask whether slurmctld has told every slurmd to fetch the configuration on disk."""
    asked = tuple(files)

    def answer(taken: Taken) -> bool:
        return not is_younger(taken, asked, taken.item("files.changed", DISTRIBUTED))

    about = {"changed": (*asked, DISTRIBUTED)}
    return Question("Slurm configuration", ("files.changed",), answer, about)


def newly_named(what: str, named_in: str) -> Question[bool]:
    """Ask whether a path, such as a plugin's, is still missing from a configuration file.

    Without a slurm.conf, the answer is False, because no job can have run yet.
    """
    asked = f"{named_in} {what}"

    def answer(taken: Taken) -> bool:
        no_job_has_run = "absent" in taken.item("files", SLURM_CONF)
        return not no_job_has_run and not taken.item("files.naming", asked)

    about = {"files": (SLURM_CONF,), "naming": (asked,)}
    return Question(asked, ("files", "files.naming"), answer, about)


def known_nodes() -> Question[frozenset[str] | None]:
    """Ask for the nodes that the controller knows.

    If it does not answer, the answer is None. If there is no slurm.conf either, it has never run,
    and knows no node.
    """

    def answer(taken: Taken) -> frozenset[str] | None:
        nodes = taken.known("slurm.nodes")
        if nodes is not None:
            return frozenset(nodes)
        return frozenset() if "absent" in taken.item("files", SLURM_CONF) else None

    about = {"files": (SLURM_CONF,)}
    return Question("nodes that Slurm knows", ("slurm.nodes", "files"), answer, about)


def new_nodes(known: frozenset[str] | None) -> Question[tuple[str, ...]]:
    """Ask the controller for the new nodes that are not drained yet.

    Those are the nodes that have never registered, and those that were not known before. A node
    that has never registered has no LastBusyTime, and others keep theirs when slurmctld starts
    again, which it also does for ``scontrol reconfigure`` (seen with Slurm 24.11).

    Args:
        known: the answer to ``known_nodes`` at the start of the run. A slurmd that was deployed
            first registers seconds after slurmctld starts.
    """

    def answer(taken: Taken) -> tuple[str, ...]:
        return tuple(
            sorted(
                name
                for name, node in taken["slurm.nodes"].items()
                if "DRAIN" not in node["state"]
                and (
                    ("UNKNOWN" in node["state"] and not node["was_busy"])
                    or (known is not None and name not in known)
                )
            )
        )

    return Question("new nodes in Slurm", ("slurm.nodes",), answer)


SLURMD = "slurmd.service"
CLOCK_GRAIN_S = 1.0
"""Resolution of the times that Slurm prints, in seconds."""


@dataclass(frozen=True)
class SlurmNodeState:
    """A node as slurmctld sees it."""

    states: frozenset[str] = frozenset()
    """State and flags (``IDLE``, ``NOT_RESPONDING``); empty if the controller did not answer."""
    reason: str = ""
    restarted_at: float | None = None
    """Unix time at which slurmd started, if it has not registered since; otherwise None."""


def slurm_node(node: str) -> Question[SlurmNodeState]:
    """Ask the controller for the state of a node (``scontrol show node``)."""

    def answer(taken: Taken) -> SlurmNodeState:
        shown = taken.known("slurm.node", node)
        if shown is None:
            return SlurmNodeState()  # no answer from the controller: the role waits for one
        started = (taken.known("units.started", SLURMD) or {}).get("at")
        registered = shown["registered_at"]
        late = None
        if started is not None and registered is not None and registered < started - CLOCK_GRAIN_S:
            late = float(started)
        return SlurmNodeState(frozenset(shown["state"]), shown["reason"], late)

    about = {"slurm_nodes": (node,), "units": (SLURMD,)}
    return Question("node in Slurm", ("slurm.node", "units.started"), answer, about)


@question("health", "slurm.health")
def is_healthy(taken: Taken) -> bool:
    """Ask whether the node's own health check currently passes.

    The check reads the whole node and runs nvidia-smi, so only ask if the answer matters.
    """
    return bool(taken.known("slurm.health"))
