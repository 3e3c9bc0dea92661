"""The input of rules: plans, records of all nodes, Lockstep's files. Rules reach no node."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from pydantic import JsonValue

from lockstep.plan import ClusterPlan, NodePlan
from lockstep.probe.record import Reading, Record, Unread
from lockstep.spec import Service

T = TypeVar("T")
Value = JsonValue | Unread
Items = dict[str, Value]
"""Device (a GPU, a unit, a file; "" for the node itself) -> what was read of it."""


class OwnedFile(Protocol):
    """A file of Lockstep on a node, as far as rules use it."""

    @property
    def path(self) -> str:
        """Its path."""

    @property
    def role(self) -> str:
        """The role that owns it."""

    @property
    def content(self) -> bytes:
        """Its content."""

    @property
    def sha256(self) -> str:
        """Hex digest of the content."""

    @property
    def mode(self) -> str:
        """Rights in octal."""

    @property
    def user(self) -> str:
        """Name of the owner."""

    @property
    def group(self) -> str:
        """Name of the group."""


@dataclass(frozen=True)
class Context:
    """Everything the rules judge."""

    plan: ClusterPlan
    reading: Reading
    files: Callable[[NodePlan], tuple[OwnedFile, ...]]
    """Lockstep's files on a node; those with secrets only where this machine has the secrets."""
    munge_key_sha256: str | None = None
    before: Mapping[str, Record] | None = None
    """Earlier records of the same nodes, for rules of kind growth."""
    latest: Mapping[str, Record] | None = None
    """Records between those and now: counters that went back are compared with them."""
    label: str = ""
    """Prefix of this cluster's nodes, where two clusters are judged together."""
    redefined: frozenset[str] = frozenset()
    """Hardware classes whose definition differs in the other cluster."""

    @cached_property
    def views(self) -> dict[str, View]:
        """One view per node that gave a record, in the order of the description."""
        return {
            self.labelled(name): View(plan, record, self)
            for name, plan in self.plan.nodes.items()
            if isinstance(record := self.reading.get(name), Record)
        }

    @cached_property
    def made(self) -> dict[Hashable, Items]:
        """Items that nodes of one kind with equal readings share (``shared``)."""
        return {}

    @cached_property
    def _files(self) -> dict[str, dict[str, OwnedFile]]:
        return {}

    def files_of(self, plan: NodePlan) -> dict[str, OwnedFile]:
        """Return path -> file of Lockstep on a node; rendered once."""
        known = self._files.get(plan.name)
        if known is None:
            known = self._files[plan.name] = {file.path: file for file in self.files(plan)}
        return known

    @cached_property
    def hosts(self) -> dict[str, list[JsonValue]]:
        """Name -> addresses, as every node's hosts file should have them."""
        return {name: [address] for address, name in self.plan.hosts}

    @property
    def controller(self) -> View | None:
        """The node that runs slurmctld, if it gave a record."""
        plan = self.plan.running(Service.SLURM_CONTROLLER)
        return None if plan is None else self.views.get(self.labelled(plan.name))

    def labelled(self, node: str) -> str:
        """Return the name of a node as findings have it."""
        return f"{self.label}:{node}" if self.label else node


@dataclass(frozen=True)
class View:
    """One node: its plan and its record."""

    plan: NodePlan
    record: Record
    context: Context

    @cached_property
    def name(self) -> str:
        """The node's name as findings have it."""
        return self.context.labelled(self.plan.name)

    @cached_property
    def _made(self) -> dict[Callable[[View], Any], Any]:
        return {}

    def once(self, make: Callable[[View], T]) -> T:
        """Return a value that several rules use; computed once."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def read(self, name: str) -> Value:
        """Return one reading of the node."""
        return self.record.get(name)

    def items(self, name: str) -> Items:
        """Return a reading item by item; one item "" for a plain one or an unread map."""
        return self.record.parts(name)

    @property
    def is_controller(self) -> bool:
        """Say whether slurmctld runs here."""
        return self.plan.runs(Service.SLURM_CONTROLLER)


def shared(*readings: str) -> Callable[[Callable[[View], Items]], Callable[[View], Items]]:
    """Decorate a look that gives equal items for nodes of a kind with equal readings.

    Equal readings of nodes are one object, so that identity replaces comparison.
    """

    def decorated(look: Callable[[View], Items]) -> Callable[[View], Items]:
        def found(view: View) -> Items:
            # The context keeps the records, so no other object gets the id of one of theirs.
            read = tuple(id(view.record.readings.get(name)) for name in readings)
            key = (look, view.plan.kind, read)
            made = view.context.made
            if key not in made:
                made[key] = look(view)
            return made[key]

        return found

    return decorated
