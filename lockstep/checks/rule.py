"""What a rule is: data. The engine knows seven kinds and nothing of any single rule."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.node.check.judge import Judgement
from lockstep.report import Severity, SwitchedOff
from lockstep.spec.checks import Override

DEPLOY = "pyinfra -y {inventory} deploys/{role}.py --limit {node} --data roles={roles}"
"""The repair of everything that a role sets; one that begins so, ``lockstep repair`` can make."""

NO_ROLE = "on {node}: find what changed {device}; no role sets it"
"""The repair in its place of what a role sets elsewhere, and none here."""

REBOOT = "pyinfra -y {inventory} deploys/reboot.py --limit {node}"
"""The repair of what is on disk as wanted and only waits for a reboot."""


REBOOT_BY_SLURM = "on the controller: scontrol reboot ASAP nextstate=RESUME {node}"
"""The repair of what nobody declared, its cause being gone: the rollout has no reason for it."""


class Kind(enum.Enum):
    """How values are held against each other."""

    EQUAL = "equal"
    """All devices of a node, or of all peers, have one value."""
    MULTISET = "multiset"
    """Nodes have the same values, whichever device has which."""
    SLOTS = "slots"
    """The same device (slot, package, file) has the same value on every peer."""
    WITHIN = "within"
    """Not worse than the median of the peers by more than a tolerance; better is fine."""
    UNIQUE = "unique"
    """No value appears twice."""
    GROWTH = "growth"
    """No more than in an earlier record of the same boot."""
    ABSOLUTE = "absolute"
    """On the right side of a bound."""


class Bound(enum.Enum):
    """Which side of a reference is right (kinds absolute and within)."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


class Peers(enum.Enum):
    """Whom a node is compared with; never another class of hardware unless the rule says so."""

    CLASS = "class"
    OS = "os"
    ROLE = "role"


class Local(enum.Enum):
    """When a node judges itself by a rule, and takes itself out (docs/node-check.md)."""

    HEALTH = "health check"
    JOBS = "health check, prolog, epilog"
    """Read in a moment, and no job can run well with it."""


class Skip(enum.Enum):
    """What ``pick`` returns where a rule has nothing to say of an item."""

    SKIP = "skip"


@dataclass(frozen=True)
class Cause:
    """Another rule whose finding makes this one a mere consequence."""

    rule: str
    """Its id; ``munge.*`` for all of a family."""
    device: str | None = None
    """Only its finding on this device."""
    same_device: bool = False
    """Only its finding on the same device as ours."""
    on_controller: bool = False
    """Its finding on the node that runs slurmctld, in place of the same node."""
    of_device: str | None = None
    """It explains only our finding on this device."""
    says: str = ""
    """It explains only our findings that say this in ``found``."""
    only_unread: bool = False
    """It explains why something was not read, never why something differs."""
    grounds: str = ""
    """It explains only our findings that give these grounds (``Rule.grounds``)."""
    with_grounds: str = ""
    """Only its findings that give these grounds themselves."""


def anything(value: object) -> str:
    """Return a value as short text."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def everywhere(view: View) -> bool:
    """Apply to every node."""
    return True


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule. Its module's docstring says why it matters and what it is blind to."""

    id: str
    title: str
    reading: str
    """Name of the reading, as records have it."""
    kind: Kind = Kind.EQUAL
    look: Callable[[View], Items] | None = None
    """Item -> value, where the reading is not taken as it is."""
    devices: str | None = None
    """Another reading whose items say which devices there are: a missing one is unread."""
    pick: Callable[[JsonValue], JsonValue | Skip] | None = None
    """The part of an item that matters."""
    expected: Callable[[View], JsonValue] | None = None
    """What the spec says, for every device alike; None: it says nothing."""
    expected_each: Callable[[View], Mapping[str, JsonValue]] | None = None
    """What the spec says, device by device; other devices are not judged."""
    expected_some: Callable[[View], Mapping[str, JsonValue]] | None = None
    """What the spec says of some devices; the others are judged by the next reference."""
    device: str | None = None
    """Reading of the same device that says what the value should be, where the spec does not."""
    peers: Peers | None = None
    bound: Bound = Bound.AT_LEAST
    tolerance: float = 0.0
    """Kind within: share of the median."""
    per_hour: float = 0.0
    """Kind growth: what a counter may grow by in an hour and still be fine."""
    pending: Callable[[View, str], bool] | None = None
    """Says whether the wanted value is on disk and only waits for a reboot."""
    show: Callable[[JsonValue], str] = anything
    words: Callable[[JsonValue, JsonValue], tuple[str, str]] | None = None
    """Texts of found and expected, where they depend on each other."""
    detail: Callable[[View, str], str] | None = None
    severity: Severity = Severity.ERROR
    severity_of: Callable[[View, str], Severity] | None = None
    """Where it depends on what was found."""
    unread: Severity = Severity.ERROR
    source: str = ""
    """Where the rule comes from: a manual page, a measurement, another project's check."""
    repair: str = DEPLOY
    """{inventory} {node} {role} (head, worker) {roles} (of ours) {address} {device} {expected} (as
    text) {value} are filled in."""
    repair_no_role: str = NO_ROLE
    """Where a role sets it elsewhere, and none can repair this."""
    repair_pending: str = REBOOT
    """Where ``pending`` says that a reboot is all that is missing."""
    repair_peers: str | None = None
    """Where the peers say so: what a role sets cannot repair what nobody declared."""
    owner: str = "person"
    """Role that sets it, or "person"; in words where it is not the same for all items."""
    roles: Callable[[View, str], Iterable[str]] | None = None
    """Roles that set an item, where ``owner`` is words."""
    grounds: Callable[[View, str], frozenset[str]] | None = None
    """What a difference itself gives as its grounds, where not every cause may explain it."""
    applies: Callable[[View], bool] = everywhere
    local: Local | None = None
    """The node itself judges by it as well: without its peers, and drains what differs."""
    on_node: Callable[[View], Iterable[Judgement]] | None = None
    """What it judges there, where the rule looks, picks or expects by more than data."""
    explained_by: tuple[Cause, ...] = ()
    changes: tuple[Override, ...] = ()
    """What the site wants otherwise; at most one for a hardware class."""

    @property
    def switched_off(self) -> tuple[SwitchedOff, ...]:
        """Return where the site does not want it judged, and why."""
        return tuple(SwitchedOff(self.id, one.classes, one.off) for one in self.changes if one.off)

    @property
    def is_off(self) -> bool:
        """Say whether it is judged nowhere."""
        return any(not off.classes for off in self.switched_off)

    def change(self, view: View) -> Override | None:
        """Return what the site changed of it for a node."""
        if not self.changes:
            return None
        name = view.plan.hardware.name
        return next((one for one in self.changes if one.covers(name)), None)

    def judges(self, view: View) -> bool:
        """Say whether it applies to a node, and is on there."""
        change = self.change(view)
        return (change is None or change.off is None) and self.applies(view)

    def severity_on(self, view: View, device: str) -> Severity:
        """Return how severe a difference is there."""
        change = self.change(view)
        if change is not None and change.severity is not None:
            return Severity(change.severity)
        return self.severity if self.severity_of is None else self.severity_of(view, device)

    def tolerance_on(self, view: View) -> float:
        """Return what is fine on a node: a share of the median, or growth in an hour."""
        change = self.change(view)
        if change is not None and change.tolerance is not None:
            return change.tolerance
        return self.per_hour if self.kind is Kind.GROWTH else self.tolerance
