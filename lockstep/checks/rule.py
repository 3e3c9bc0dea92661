"""What a rule is: data. The engine knows seven kinds and nothing about any single rule."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from lockstep.checks.cause import Cause
from lockstep.checks.context import Items, View
from lockstep.checks.objects import Object, objects_of
from lockstep.checks.repair import Repair, by_hand
from lockstep.node.check.judge import Judgement
from lockstep.report import Severity, SwitchedOff
from lockstep.spec.checks import Override


class Kind(enum.Enum):
    """How values are compared."""

    EQUAL = "equal"
    """All devices of a node, or of all peers, have one value."""
    MULTISET = "multiset"
    """Nodes have the same values; which device has which value does not matter."""
    SLOTS = "slots"
    """The same device (slot, package, file) has the same value on every peer."""
    WITHIN = "within"
    """Not worse than the median of the peers by more than a tolerance; better is fine."""
    UNIQUE = "unique"
    """No value appears twice."""
    GROWTH = "growth"
    """No more than in an earlier record of the same boot."""
    ABSOLUTE = "absolute"
    """At least, or at most, a limit."""


class Bound(enum.Enum):
    """Which side of a limit is right (kinds absolute and within)."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


class Peers(enum.Enum):
    """The nodes that a node is compared with. CLASS: never with other hardware."""

    CLASS = "class"
    OS = "os"
    ROLE = "role"


class Local(enum.Enum):
    """When a node judges itself by a rule, and drains itself (docs/node-check.md)."""

    HEALTH = "health check"
    JOBS = "health check, prolog, epilog"
    """Fast to read, and no job can run well without it."""


class Skip(enum.Enum):
    """What ``Look.pick`` returns for an item that the rule does not judge."""

    SKIP = "skip"


def as_text(value: object) -> str:
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


@dataclass(frozen=True)
class Look:
    """Which items of a reading a rule judges; by default all, as they were read."""

    items: Callable[[View], Items] | None = None
    """Item -> value, where the reading is not taken as it is."""
    pick: Callable[[JsonValue], JsonValue | Skip] | None = None
    """The part of an item that matters."""
    devices: str | None = None
    """Another reading whose items are the existing devices: a missing item counts as unread."""


@dataclass(frozen=True)
class Expected:
    """The value that a rule expects. ``same``, ``each``, ``some`` and the others make it.

    Where it is silent about an item, the item's peers decide.
    """

    common: Callable[[View], JsonValue] | None = None
    """One value of the description for every device; None: it declares none."""
    by_device: Callable[[View], Mapping[str, JsonValue]] | None = None
    """A value of the description for each device that it names."""
    only_named: bool = False
    """Devices without a value of their own are not judged."""
    default: str | None = None
    """A reading: the device's own default, used where the description declares nothing."""
    bound: Bound = Bound.AT_LEAST

    @property
    def is_declared(self) -> bool:
        """Say whether the description can declare a value."""
        return self.common is not None or self.by_device is not None

    def judged(self, view: View) -> Mapping[str, JsonValue] | None:
        """Return the only devices that are judged, with their values; None: all are."""
        return self.by_device(view) if self.by_device is not None and self.only_named else None


NOTHING = Expected()
DEFAULT_REPAIR = by_hand()


def same(
    value: JsonValue | Callable[[View], JsonValue],
    *,
    default: str | None = None,
    bound: Bound = Bound.AT_LEAST,
) -> Expected:
    """Expect one value of every device."""
    common: Callable[[View], JsonValue] = value if callable(value) else lambda view: value
    return Expected(common=common, default=default, bound=bound)


def each(
    by_device: Callable[[View], Mapping[str, JsonValue]],
    *,
    common: Callable[[View], JsonValue] | None = None,
    default: str | None = None,
    bound: Bound = Bound.AT_LEAST,
) -> Expected:
    """Expect a value of each named device; other devices are not judged.

    A named device without a value (None) has the common one.
    """
    return Expected(common, by_device, only_named=True, default=default, bound=bound)


def some(
    by_device: Callable[[View], Mapping[str, JsonValue]], *, bound: Bound = Bound.AT_LEAST
) -> Expected:
    """Expect a value of the named devices; the peers decide about the others."""
    return Expected(by_device=by_device, bound=bound)


def default(reading: str) -> Expected:
    """Expect of each device its own default, which another reading has."""
    return Expected(default=reading)


def at_most(limit: JsonValue | Callable[[View], JsonValue]) -> Expected:
    """Expect no more than a limit."""
    return same(limit, bound=Bound.AT_MOST)


AT_MOST_PEERS = Expected(bound=Bound.AT_MOST)
"""No more than the peers have (kind within); by default it is no less."""


@dataclass(frozen=True)
class Text:
    """How a finding writes what was found and what is expected."""

    show: Callable[[JsonValue], str] = as_text
    words: Callable[[JsonValue, JsonValue], tuple[str, str]] | None = None
    """Texts of found and expected, where they depend on each other."""
    detail: Callable[[View, str], str] | None = None


@dataclass(frozen=True)
class Severities:
    """How severe a finding is."""

    differs: Severity = Severity.ERROR
    unread: Severity = Severity.ERROR
    of: Callable[[View, str], Severity] | None = None
    """Where it depends on what was found."""


ERROR = Severities()
WARNING = Severities(Severity.WARNING)


@dataclass(frozen=True)
class OnNode:
    """The node judges itself by the rule as well, without its peers, and drains itself."""

    when: Local
    judgements: Callable[[View], Iterable[Judgement]] | None = None
    """What the node judges, where the rule looks, picks or expects by more than data."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule."""

    id: str
    claim: str
    """What is true of a healthy node, as one sentence."""
    why: str = ""
    """What goes wrong where it is not true."""
    blind: str = ""
    """What the rule cannot see."""
    source: str = ""
    """Where the rule comes from: a manual page, a measurement, another project's check."""
    reading: str
    """Name of the reading, as records have it."""
    look: Look = Look()
    kind: Kind = Kind.EQUAL
    expected: Expected = NOTHING
    peers: Peers | None = None
    tolerance: float = 0.0
    """Kind within: share of the median. Kind growth: what a counter may grow by in an hour."""
    text: Text = Text()
    severity: Severities = ERROR
    repair: Repair = DEFAULT_REPAIR
    tags: Callable[[View, str], frozenset[str]] | None = None
    """Tags of a finding. A cause can ask for a tag, where it does not explain every finding."""
    applies: Callable[[View], bool] = everywhere
    on_node: OnNode | None = None
    explained_by: tuple[Cause, ...] = ()
    objects: Callable[[View, str], Iterable[Object]] | None = None
    """The objects whose differences a finding about an item explains; None: by its reading."""
    changes: tuple[Override, ...] = field(default=(), repr=False)
    """What the site changes; at most one for a hardware class."""

    @property
    def switched_off(self) -> tuple[SwitchedOff, ...]:
        """Return where the site switched it off, and why."""
        return tuple(SwitchedOff(self.id, one.classes, one.off) for one in self.changes if one.off)

    @property
    def is_off(self) -> bool:
        """Say whether it is judged nowhere."""
        return any(not off.classes for off in self.switched_off)

    def change(self, view: View) -> Override | None:
        """Return what the site changed for a node."""
        if not self.changes:
            return None
        name = view.plan.hardware.name
        return next((one for one in self.changes if one.covers(name)), None)

    def judges(self, view: View) -> bool:
        """Say whether it applies to a node, and is on there."""
        if self.expected.is_declared and self.repair.owner in view.plan.spec.unmanaged:
            return False
        change = self.change(view)
        return (change is None or change.off is None) and self.applies(view)

    def severity_on(self, view: View, device: str) -> Severity:
        """Return how severe a difference is there."""
        change = self.change(view)
        if change is not None and change.severity is not None:
            return Severity(change.severity)
        severity = self.severity
        return severity.differs if severity.of is None else severity.of(view, device)

    def tolerance_on(self, view: View) -> float:
        """Return the tolerance on a node."""
        change = self.change(view)
        if change is not None and change.tolerance is not None:
            return change.tolerance
        return self.tolerance

    def explains(self, view: View, device: str) -> tuple[Object, ...]:
        """Return the objects whose differences a finding about an item explains."""
        if self.objects is not None:
            return tuple(self.objects(view, device))
        return objects_of(self.reading, device)
