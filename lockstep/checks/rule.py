"""Rules are data: the engine implements the seven kinds of rules, not individual rules."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.objects import Object, objects_of
from lockstep.node.check.judge import Judgement
from lockstep.report import Severity, SwitchedOff
from lockstep.spec.checks import Override

DEPLOY = "pyinfra -y {inventory} deploys/{role}.py --limit {node} --data roles={roles}"
"""The repair for an item that a role sets; ``lockstep repair`` runs repairs of this form."""

NO_ROLE = "on {node}: find out what changed {device}; no role sets it"
"""The repair for an item that no role sets on this node."""

REBOOT = "pyinfra -y {inventory} deploys/reboot.py --limit {node}"
"""The repair for a setting that is right on disk but needs a reboot to take effect."""

REBOOT_BY_SLURM = "on the controller: scontrol reboot ASAP nextstate=RESUME {node}"
"""How to reboot a node after a manual change; rollouts do not reboot nodes for such changes."""


class Kind(enum.Enum):
    """How a rule compares values."""

    EQUAL = "equal"
    """All devices of a node, or of all peers, have the same value."""
    MULTISET = "multiset"
    """Nodes have the same values; which device has which value does not matter."""
    SLOTS = "slots"
    """The same device (slot, package, file) has the same value on every peer."""
    WITHIN = "within"
    """The value is not worse than the median of the peers by more than a tolerance."""
    UNIQUE = "unique"
    """No value appears twice."""
    GROWTH = "growth"
    """A counter has not grown by more than allowed since an earlier record of the same boot."""
    ABSOLUTE = "absolute"
    """The value is at least, or at most, a limit."""


class Bound(enum.Enum):
    """Whether a limit is a minimum or a maximum (for rules of the kinds absolute and within)."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


class Peers(enum.Enum):
    """The nodes with which a node is compared."""

    CLASS = "class"
    """The nodes of its hardware class that have its operating system release."""
    OS = "os"
    """The nodes of the cluster that have its operating system release."""
    CLUSTER = "cluster"
    NVLINK_DOMAIN = "nvlink_domain"
    """The nodes of its NVLink domain, usually a rack."""
    ROLE = "role"
    """The heads, or the workers, whatever their release."""


class Local(enum.Enum):
    """When a node checks itself against a rule, draining itself on failure (docs/node-check.md)."""

    HEALTH = "health check"
    JOBS = "health check, prolog, epilog"
    """For readings that are fast to take and that show something on which every job depends."""


class Skip(enum.Enum):
    """The result of ``Look.pick`` for an item that the rule does not check."""

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


@dataclass(frozen=True)
class Look:
    """Which items of a reading a rule checks; by default all items, as they were read."""

    items: Callable[[View], Items] | None = None
    """Returns the items with their values; if None, the rule checks the reading as it is."""
    pick: Callable[[JsonValue], Value | Skip] | None = None
    """Returns the part of an item that matters."""
    devices: str | None = None
    """The reading that lists all devices; a listed device without an item counts as unread."""


@dataclass(frozen=True)
class Expected:
    """The value that a rule expects, created with ``same``, ``each``, ``some`` or ``at_most``.

    If there is no value for an item, the expected value comes from the peers.
    """

    common: Callable[[View], JsonValue] | None = None
    """Returns one declared value for every device, or None if no value is declared."""
    by_device: Callable[[View], Mapping[str, JsonValue]] | None = None
    """Returns the declared values of some of the devices, by device."""
    only_named: bool = False
    """Whether devices that ``by_device`` does not name are left unchecked."""
    default: str | None = None
    """The reading with the device's own default, for devices without a declared value."""
    bound: Bound = Bound.AT_LEAST
    set_by: str = ""
    """The role from whose settings the value follows, if a person does the repair."""

    @property
    def is_declared(self) -> bool:
        """Return whether the description can declare a value."""
        return self.common is not None or self.by_device is not None

    @cached_property
    def undeclared(self) -> Expected:
        """Only the device's own default, for a role that the site manages itself."""
        return Expected(default=self.default, bound=self.bound)

    def judged(self, view: View) -> Mapping[str, JsonValue] | None:
        """Return the declared values of the devices to check, or None to check all devices."""
        return self.by_device(view) if self.by_device is not None and self.only_named else None


def same(
    value: JsonValue | Callable[[View], JsonValue],
    *,
    default: str | None = None,
    bound: Bound = Bound.AT_LEAST,
) -> Expected:
    """Expect the same value on every device."""
    common: Callable[[View], JsonValue] = value if callable(value) else lambda view: value
    return Expected(common=common, default=default, bound=bound)


def each(
    by_device: Callable[[View], Mapping[str, JsonValue]],
    *,
    common: Callable[[View], JsonValue] | None = None,
    default: str | None = None,
    bound: Bound = Bound.AT_LEAST,
) -> Expected:
    """Expect a value on each named device; other devices are not checked.

    For a named device whose value is None, the common value is expected.
    """
    return Expected(common, by_device, only_named=True, default=default, bound=bound)


def some(
    by_device: Callable[[View], Mapping[str, JsonValue]], *, bound: Bound = Bound.AT_LEAST
) -> Expected:
    """Expect a value on the named devices; other devices are compared with the peers."""
    return Expected(by_device=by_device, bound=bound)


def at_most(limit: JsonValue | Callable[[View], JsonValue]) -> Expected:
    """Expect a value that is not greater than a limit."""
    return same(limit, bound=Bound.AT_MOST)


@dataclass(frozen=True)
class Text:
    """How a finding shows the found and the expected value."""

    show: Callable[[JsonValue], str] = as_text
    words: Callable[[JsonValue, JsonValue], tuple[str, str]] | None = None
    """Returns the texts of the found and expected values, if each text depends on both values."""
    detail: Callable[[View, str], str] | None = None


@dataclass(frozen=True)
class Severities:
    """How severe a finding is."""

    differs: Severity = Severity.ERROR
    unread: Severity = Severity.ERROR
    of: Callable[[View, str], Severity] | None = None
    """Returns the severity, if it depends on the node or the device."""


ERROR = Severities()
WARNING = Severities(Severity.WARNING)


@dataclass(frozen=True)
class OnNode:
    """A node also checks itself against the rule, without peers, and drains itself on failure."""

    when: Local
    judgements: Callable[[View], Iterable[Judgement]] | None = None
    """Returns the node's own checks, for a rule whose items or expected values come from code."""


@dataclass(frozen=True)
class Pending:
    """The condition under which a node needs only a reboot, and the repair for that case."""

    when: Callable[[View, str], bool]
    note: str = ""
    """The condition in words, for the documentation."""
    repair: str = REBOOT


@dataclass(frozen=True)
class Repair:
    """The repair for the findings of a rule.

    Texts may contain placeholders: {inventory} {node} {role} (head or worker) {roles} (Lockstep's
    roles) {address} {device} {expected} (as text) {value}.
    """

    owner: str
    """The role that sets the item, or "person"; a phrase if that role depends on the item."""
    text: str = DEPLOY
    roles: Callable[[View, str], Iterable[str]] | None = None
    """Returns the roles that set an item, if ``owner`` is a phrase."""
    no_role: str = NO_ROLE
    """The repair if ``text`` is a deploy but no role sets the item on this node."""
    peers: str | None = None
    """The repair if the expected value comes from the peers: no role can set such a value."""
    pending: Pending | None = None


by_role = Repair


def by_hand(
    text: str = NO_ROLE, *, peers: str | None = None, pending: Pending | None = None
) -> Repair:
    """Return a manual repair; ``peers`` is its text if the expected value comes from the peers."""
    return Repair("person", text, peers=peers, pending=pending)


class At(enum.Enum):
    """Where the cause is, relative to the finding that it explains."""

    NODE = "same node"
    DEVICE = "same device of the same node"
    CONTROLLER = "the node that runs slurmctld"
    CONTROL_PLANE = "the first head of Kubernetes' control plane"


SAME_DEVICE, CONTROLLER, CONTROL_PLANE = At.DEVICE, At.CONTROLLER, At.CONTROL_PLANE


@dataclass(frozen=True)
class Effect:
    """Which findings of a rule a cause explains; by default all findings."""

    device: str | None = None
    """Only the finding on this device."""
    found: str = ""
    """Only findings whose ``found`` contains this text."""
    unread: bool = False
    """Only findings about values that could not be read, not about differences."""
    tag: str = ""
    """Only findings with this tag (``Rule.tags``)."""


EVERY = Effect()
UNREAD = Effect(unread=True)


@dataclass(frozen=True)
class Cause:
    """A finding of another rule that explains findings of this rule."""

    rule: str
    """The id of the other rule, or a pattern such as ``munge.*``."""
    device: str | None = None
    """Only the finding of the other rule on this device."""
    tag: str = ""
    """Only findings of the other rule with this tag."""
    at: At = At.NODE
    of: Effect = EVERY


def same_device(*rules: str, tag: str = "") -> tuple[Cause, ...]:
    """Return one cause per rule: the finding of that rule on the same device."""
    return tuple(Cause(rule, at=SAME_DEVICE, of=Effect(tag=tag)) for rule in rules)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule."""

    id: str
    claim: str
    """One sentence that is true for a healthy node."""
    why: str = ""
    """What goes wrong on a node for which the claim is false."""
    blind: str = ""
    """What the rule cannot find."""
    source: str = ""
    """Where the rule comes from: a manual page, a measurement, another project's check."""
    reading: str
    """The name of the reading in records."""
    look: Look = Look()
    kind: Kind = Kind.EQUAL
    expected: Expected = Expected()
    peers: Peers | None = None
    tolerance: float = 0.0
    """A fraction of the median for kind ``within``; the growth allowed per hour for ``growth``."""
    text: Text = Text()
    severity: Severities = ERROR
    repair: Repair = Repair("person", NO_ROLE)
    tags: Callable[[View, str], frozenset[str]] | None = None
    """Returns the tags of a finding. A cause can be limited to findings with a tag."""
    applies: Callable[[View], bool] = lambda view: True
    on_node: OnNode | None = None
    explained_by: tuple[Cause, ...] = ()
    objects: Callable[[View, str], Iterable[Object]] | None = None
    """Returns the objects whose differences a finding explains; if None, the reading's objects."""
    changes: tuple[Override, ...] = field(default=(), repr=False)
    """The site's changes to this rule, at most one per hardware class."""

    @property
    def switched_off(self) -> tuple[SwitchedOff, ...]:
        """Return where the site switched the rule off, and why."""
        return tuple(SwitchedOff(self.id, one.classes, one.off) for one in self.changes if one.off)

    @property
    def is_off(self) -> bool:
        """Return whether the rule is switched off on all nodes."""
        return any(not off.classes for off in self.switched_off)

    def change(self, view: View) -> Override | None:
        """Return the change that the site made to this rule for a node, if there is one."""
        return next((one for one in self.changes if one.covers(view.plan.hardware.name)), None)

    def judges(self, view: View) -> bool:
        """Return whether the rule applies to a node and is not switched off for it.

        A rule whose values only an unmanaged role declares does not apply.
        """
        if self.expected.is_declared:
            left = self.expected_on(view)
            if not (left.is_declared or left.default or self.peers):
                return False
        change = self.change(view)
        return (change is None or change.off is None) and self.applies(view)

    def expected_on(self, view: View) -> Expected:
        """Return what is expected on a node, without what unmanaged roles would set."""
        if not view.plan.unmanaged:
            return self.expected
        if not view.plan.manages(self.expected.set_by or self.repair.owner):
            return self.expected.undeclared
        roles, by_device = self.repair.roles, self.expected.by_device
        if roles is None or by_device is None:
            return self.expected
        return replace(
            self.expected,
            by_device=lambda view: {
                device: value
                for device, value in by_device(view).items()
                if view.plan.unmanaged.isdisjoint(roles(view, device))
            },
        )

    def severity_on(self, view: View, device: str) -> Severity:
        """Return how severe a difference is on a node."""
        change = self.change(view)
        if change is not None and change.severity is not None:
            return Severity(change.severity)
        of = self.severity.of
        return self.severity.differs if of is None else of(view, device)

    def tolerance_on(self, view: View) -> float:
        """Return the tolerance of the rule on a node."""
        change = self.change(view)
        if change is None or change.tolerance is None:
            return self.tolerance
        return change.tolerance

    def explains(self, view: View, device: str) -> tuple[Object, ...]:
        """Return the objects whose differences are explained by a finding about an item."""
        if self.objects is not None:
            return tuple(self.objects(view, device))
        return objects_of(self.reading, device)
