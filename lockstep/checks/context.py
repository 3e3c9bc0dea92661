"""The input to rules: plans, node records and Lockstep's files. Rules never contact nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from pydantic import JsonValue

from lockstep.checks.accepted import NONE_ACCEPTED, Acceptances
from lockstep.files import ManagedFile
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.probe.record import Reading, Record, Unread
from lockstep.probe.versions import Versions
from lockstep.spec import Service

T = TypeVar("T")
Value = JsonValue | Unread
Items = dict[str, Value]
"""Device (a GPU, a unit, a file; "" for the node itself) -> the value that was read."""


@dataclass(frozen=True)
class Context:
    """The data that rules use about one cluster."""

    plan: ClusterPlan
    reading: Reading
    files: Callable[[NodePlan], tuple[ManagedFile, ...]]
    """Returns a node's managed files, without secret files if this machine lacks the secrets."""
    munge_key_sha256: str | None = None
    before: Mapping[str, Record] | None = None
    """Earlier records of the same nodes, for growth rules."""
    latest: Mapping[str, Record] | None = None
    """Records taken between ``before`` and now, for counters that were reset after ``before``."""
    past: Versions = field(default_factory=dict)
    """Earlier states of fingerprints, for nodes and domains that differ."""
    earlier: Callable[[tuple[str, ...]], Iterable[tuple[float, Mapping[str, Record]]]] | None = None
    """Returns the earlier checks of some nodes, the newest first: Unix time, and the records."""
    accepted: Acceptances = NONE_ACCEPTED
    """Differences that the site accepts."""
    label: str = ""
    """Prefix for the names of this cluster's nodes when two clusters are checked together."""
    redefined: frozenset[str] = frozenset()
    """Hardware classes whose definitions differ between two clusters that are checked together."""

    @cached_property
    def views(self) -> dict[str, View]:
        """The view of each node that has a record, by node name, in the description's order."""
        return {
            self.labelled(name): View(plan, record, self)
            for name, plan in self.plan.nodes.items()
            if isinstance(record := self.reading.get(name), Record)
        }

    @cached_property
    def made(self) -> dict[Hashable, Items]:
        """The cache for ``shared``: the items of nodes of the same kind with equal readings."""
        return {}

    @cached_property
    def _files(self) -> dict[str, dict[str, ManagedFile]]:
        return {}

    def files_of(self, plan: NodePlan) -> dict[str, ManagedFile]:
        """Return a map of paths to Lockstep's files on a node; each file is rendered only once."""
        if plan.name not in self._files:
            self._files[plan.name] = {file.path: file for file in self.files(plan)}
        return self._files[plan.name]

    @cached_property
    def hosts(self) -> dict[str, list[JsonValue]]:
        """Host names, each with the addresses that /etc/hosts should contain on every node."""
        return {name: [address] for address, name in self.plan.hosts}

    @property
    def controller(self) -> View | None:
        """The node that runs slurmctld, if there is a record of it."""
        plan = self.plan.running(Service.SLURM_CONTROLLER)
        return None if plan is None else self.views.get(self.labelled(plan.name))

    def labelled(self, node: str) -> str:
        """Return the name that findings use for a node."""
        return f"{self.label}:{node}" if self.label else node


@dataclass(frozen=True)
class View:
    """One node: its plan and its record."""

    plan: NodePlan
    record: Record
    context: Context

    @cached_property
    def name(self) -> str:
        """The name that findings use for the node."""
        return self.context.labelled(self.plan.name)

    @cached_property
    def _made(self) -> dict[Callable[[View], Any], Any]:
        return {}

    def once(self, make: Callable[[View], T]) -> T:
        """Return a value that several rules use, computing it only once."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def read(self, name: str) -> Value:
        """Return one reading of the node."""
        return self.record.get(name)

    def items(self, name: str) -> Items:
        """Return a reading's items; a plain value or an unread map becomes one item named ""."""
        return self.record.parts(name)

    def at_controller(self, reading: str) -> Value | None:
        """Return a reading of the node that runs slurmctld; None if no node runs it."""
        planned = self.plan.cluster.running(Service.SLURM_CONTROLLER)
        if planned is None:
            return None
        controller = self.context.controller
        if controller is None:
            return Unread(unread=f"there is no record of the controller {planned.name}")
        value = controller.read(reading)
        if isinstance(value, Unread):
            return Unread(unread=f"on the controller {planned.name}: {value.unread}")
        return value

    @property
    def is_controller(self) -> bool:
        """Return whether slurmctld runs on the node."""
        return self.plan.runs(Service.SLURM_CONTROLLER)


def has_role(name: str) -> Callable[[View], bool]:
    """Return a function that tests whether a node has a role, even one that the site manages."""
    return lambda view: name in view.plan.managed_or_not


def shared(look: Callable[[View], Items], reading: str) -> Callable[[View], Items]:
    """Return ``look`` with a cache: nodes of the same kind with equal readings share one result.

    Equal readings of several nodes are one object, so comparing identities is enough.
    """

    def found(view: View) -> Items:
        # The context keeps the records, so their ids stay unique.
        key = (look, view.plan.kind, id(view.record.readings.get(reading)))
        made = view.context.made
        if key not in made:
            made[key] = look(view)
        return made[key]

    return found
