"""Joins differences with one cause: a unit's file, the unit, its process and its listeners."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lockstep.checks.fingerprint.objects import Difference, Fields
from lockstep.checks.fingerprint.places import RUNNING
from lockstep.checks.fingerprint.reverting.together import Member, together
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.raw_findings import RawFinding
from lockstep.node.fingerprint.leftovers import REMOVED
from lockstep.report import Severity, alike, worst

UNIT_FILE = re.compile(
    r"/(?:etc|run|usr/lib|usr/local/lib)/systemd/(?:system|system\.control|transient)/"
    r"(?:[^/]+\.(?:wants|requires|upholds)/)?(?P<unit>[^/]+?)(?:\.d(?:/.*)?)?"
)
OF_ALL_UNITS = re.compile(
    r"/(?:etc|run|usr/lib|usr/local/lib)/systemd/system/"
    r"(?:service|socket|timer|target|path|mount|slice|scope)\.d(?:/.*)?"
)
"""Drop-ins for all units of a type (systemd.unit(5))."""
NOT_LOADED = "unit files not loaded"
"""The subject of units whose files systemd has not read; one command loads them all."""
UNIT = re.compile(r"(?P<unit>\S+\.(?:service|socket|timer|target|path|mount|slice|scope))(?::.*)?")
UNITS = {"file": UNIT_FILE, **dict.fromkeys(("unit", "timer", "process", "running"), UNIT)}
"""Domain -> the pattern that finds a unit in the name of an object."""
ORDER = (
    *("package", "file", "user", "group", "module", "sysctl", "kernel", "hardware"),
    *("interface", "mount", "swap", "engine", "running", "unit", "timer", "process"),
)
"""Domains whose difference is the cause rather than the effect, the first first."""
EFFECTS = frozenset(
    {"running", "unit", "timer", "process", "listener", "slurmd", "address", "route"}
)
"""Domains whose differences follow from others. Differences of other domains are shown unless a
rule names the object itself."""
OF_KINDS = {
    ObjectKind.FILE: "file",
    ObjectKind.INTERFACE: "interface",
    ObjectKind.KERNEL_MODULE: "module",
    ObjectKind.MOUNT: "mount",
    ObjectKind.PACKAGE: "package",
    ObjectKind.PACKET_FILTER: "firewall",
    ObjectKind.SYSCTL: "sysctl",
    ObjectKind.SYSTEM_FILE: "kernel",
    ObjectKind.UNIT: "unit",
    ObjectKind.USER: "user",
}
OF_RULES: Mapping[str, frozenset[str]] = {
    "os.hostname": frozenset({"running host name: name", "sysctl kernel.hostname"}),
    "platform.bmc_firmware": frozenset({"hardware BMC firmware_revision"}),
}
"""Rule -> what it explains beyond the objects that it names: other places of the same value."""
ENABLEMENT = re.compile(
    r"/etc/systemd/system/[^/]+\.(?:wants|requires|upholds)/(?P<unit>[^/]+)"
    r"|/etc/rc\w\.d/[SK]\d\d(?P<script>[^/]+)"
)
"""Links that ``systemctl enable`` makes, also those of scripts in /etc/init.d (systemctl(1))."""
OF_NOBODY = re.compile(r"owner (?:\d+:\S+|\S+:\d+)")
"""Only the owner differs, and his number has no name on the node."""
OF_TABLE = re.compile(r"(?P<table>\w+ \S+) (?:chain|set|map) .*")
"""A part of a table of nftables; a rule about packets names the table."""
OF_INTERFACE = re.compile(r"net\.ipv[46]\.(?:conf|neigh)\.(?P<interface>.+)")
ALSO = 6
"""At most so many consequences are named."""


@dataclass(frozen=True)
class Found:
    """A finding, and what it is about."""

    domain: str
    name: str
    raw: RawFinding
    subjects: frozenset[str]
    parties: frozenset[str]
    """The nodes on whose values the verdict depends. If a rule names the object on any of them, the
    rule knows better which side is right."""

    @property
    def is_effect(self) -> bool:
        """Whether the difference follows from another one of the same subject."""
        found = self.raw.finding.found
        if self.domain == "file":
            return bool(ENABLEMENT.fullmatch(self.name) or OF_NOBODY.fullmatch(found))
        if self.domain == "sysctl":
            # They come and go with the interface, and the kernel limits IPv6's MTU to its MTU.
            whole = "absent" in (found, self.raw.finding.expected)
            follows = whole or re.fullmatch(r"mtu \d+", found)
            return bool(OF_INTERFACE.fullmatch(self.name) and follows)
        return self.domain in EFFECTS or self._follows_an_account

    @property
    def _follows_an_account(self) -> bool:
        """Whether userdel(8) removes the group of a user, or a package's removal an account."""
        is_left = any(one.startswith("package ") for one in self.subjects)
        of_user = self.raw.finding.repair.endswith(f": groupdel {self.name}")
        return self.domain in ("user", "group") and (is_left or of_user)

    @property
    def itself(self) -> str:
        """The subject that the object itself is."""
        name = self.name.partition(":")[0] if self.domain == "package" else self.name
        if self.domain == "firewall" and (part := OF_TABLE.fullmatch(name)) is not None:
            name = f"table {part['table']}"
        return f"{self.domain} {name}"


def subjects(domain: str, name: str, fields: Fields | None) -> frozenset[str]:
    """Return what an object belongs to, such as ``unit slurmd.service``."""
    fields = fields or {}
    found = {f"{domain} {name}"}
    match = UNITS[domain].fullmatch(name) if domain in UNITS else None
    link = ENABLEMENT.fullmatch(name) if domain == "file" else None
    if domain == "running" and name.endswith(": start"):
        found |= {f"file {path}" for path in fields.get("configured", "").split()}
    of_all = domain == "file" and OF_ALL_UNITS.fullmatch(name)
    if of_all or (domain == "running" and name.endswith(": unit files")):
        found.add(NOT_LOADED)
    if match is not None:
        found.add(f"unit {match['unit']}")
    elif link is not None and link["script"]:
        found.add(f"unit {link['script']}.service")
    elif domain == "running":
        found.add(name)  # "sysctl vm.swappiness", "mount /data"
        if (of_manager := name.removeprefix("systemd: ")).startswith("/"):
            found.add(f"file {of_manager}")
    elif domain == "slurmd":
        found.add("unit slurmd.service")
    elif domain == "group":
        found.add(f"user {name}")
    elif domain == "sysctl" and (of_one := OF_INTERFACE.fullmatch(name)) is not None:
        found.add(f"interface {of_one['interface']}")
    elif domain == "address":
        found.add(f"interface {name.partition(' ')[0]}")
    if domain == "running" and "file" in fields:
        found.add(f"file {fields['file']}")  # what is configured
    if domain == "file" and ":" in fields.get("owner", ""):
        owner, _, group = fields["owner"].partition(":")
        found |= {f"user {owner}", f"group {group}"} - {"user root", "group root"}
    if domain == "package":
        found.add(f"package {name.partition(':')[0]}")
    elif "package" in fields:
        found.add(f"package {fields['package']}")
    elif REMOVED in fields:
        found.add(f"package {fields[REMOVED]}")
    if "dev" in fields:
        found.add(f"interface {fields['dev']}")
    if domain == "listener" and "unit" in fields:
        found.add(f"unit {fields['unit']}")
    return frozenset(found)


def not_as_configured(differences: Iterable[Difference]) -> dict[str, frozenset[str]]:
    """Return what runs otherwise than it is configured: node -> subjects."""
    found: dict[str, frozenset[str]] = {}
    for difference in differences:
        for side in difference.sides if difference.domain == RUNNING else ():
            about = subjects(RUNNING, difference.name, side.fields)
            for node in side.nodes if side.fields is not None else ():
                found[node] = found.get(node, frozenset()) | about
    return found


def of_object(thing: Object) -> frozenset[str]:
    """Return the subjects of an object that a rule names."""
    domain = OF_KINDS.get(thing.kind, "")
    return subjects(domain, thing.name, None) if domain else frozenset()


def joined(found: Iterable[Found], known: Mapping[str, frozenset[str]]) -> list[RawFinding]:
    """Return one finding for each cause.

    Args:
        found: all findings of a group of nodes.
        known: node -> the subjects that findings of rules explain.
    """
    by_nodes: dict[frozenset[str], list[Found]] = {}
    for one in found:
        explained = frozenset().union(*(known.get(node, frozenset()) for node in one.parties))
        itself = one.itself in explained
        if not itself and not (one.is_effect and one.subjects & explained):
            by_nodes.setdefault(one.raw.nodes, []).append(one)
    return [raw for same in by_nodes.values() for raw in _of_nodes(same)]


def _of_nodes(found: list[Found]) -> list[RawFinding]:
    causes: list[tuple[set[str], list[Found]]] = []
    # A file's secret content and its mode may differ both.
    objects = alike(found, lambda one: (one.domain, one.name))
    for one in sorted(
        (_with_parts(same[0], same) for same in objects.values()),
        key=lambda one: (_rank(one), one.name),
    ):
        together = [cause for cause in causes if cause[0] & one.subjects]
        folder = ("file", one.name.rpartition("/")[0])
        below = [cause for cause in causes if one.domain == "file" and _has(cause[1], folder)]
        # What only waits for the same command is the weakest reason to be together.
        together.sort(key=lambda cause: cause[0] & one.subjects <= {NOT_LOADED})
        together = below or (together if one.is_effect else [])
        if together:
            subjects, members = together[0]
            subjects |= one.subjects
            members.append(one)
        else:
            causes.append((set(one.subjects), [one]))
    return [_with_effects(members) for _, members in causes]


def _with_parts(one: Found, every: list[Found]) -> Found:
    """Return a finding that a site can only accept together with others."""
    parts = tuple(part for other in every for part in other.raw.finding.parts)
    return replace(one, raw=replace(one.raw, finding=replace(one.raw.finding, parts=parts)))


def _has(members: list[Found], place: tuple[str, str]) -> bool:
    """Return whether a folder is among the differences of one cause."""
    return any((one.domain, one.name) == place for one in members)


def _rank(one: Found) -> int:
    """Return the place of a difference among its causes and effects."""
    follows = one.domain in ("file", "sysctl") and one.is_effect
    return ORDER.index(one.domain) if one.domain in ORDER and not follows else len(ORDER)


def _with_effects(members: list[Found]) -> RawFinding:
    first, *others = members
    if not others:
        return first.raw
    first = _with_parts(first, members)
    named = [f"{one.domain} {one.name}" for one in others[:ALSO]]
    more = f" and {len(others) - ALSO} more" if len(others) > ALSO else ""
    parts = (first.raw.finding.detail, f"also differs: {', '.join(named)}{more}")
    detail = "; ".join(part for part in parts if part)
    severity = worst(Severity(one.raw.finding.severity) for one in members)
    old = first.raw.finding
    every = [Member(one.domain, one.name, one.raw.finding.repair) for one in members]
    repair = "" if old.roles else together(old.node, every)
    finding = replace(old, detail=detail, severity=severity.value, repair=repair or old.repair)
    return replace(first.raw, finding=finding)
