"""A node's manifest: what Lockstep wrote there. Pure: it is read and written elsewhere.

"Left over" is what the manifest holds and the plan does not. A deploy never removes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.files import ManagedFile, paths
from lockstep.files import wanted as declared_files
from lockstep.plan import NodePlan, software
from lockstep.plan.declaration import Declaration, File

FORMAT = 1
SECTIONS = ("files", "groups", "masked", "packages", "sysctl", "units", "users")
SET_BY = {"masked": "os_settings", "packages": "packages", "sysctl": "os_settings"}
"""Section -> the role that brings it to the node, for all roles. An entry names its own role."""

Entry = dict[str, str]
Sections = dict[str, dict[str, Entry]]
"""Section -> name (a path, a unit, a key) -> what is known of it; ``role`` is always there."""


class ManifestError(Exception):
    """A manifest cannot be read. It is never taken for an empty one."""


def parsed(text: str) -> Sections:
    """Return a manifest; "" is a node without one.

    Raises:
        ManifestError: the text is something else.
    """
    if not text:
        return {section: {} for section in SECTIONS}
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ManifestError(f"a manifest of format {document['format']}, not {FORMAT}")
        return {section: dict(document[section]) for section in SECTIONS}
    except (ValueError, LookupError, TypeError) as error:
        raise ManifestError(f"no manifest of format {FORMAT}: {error}") from error


def written(manifest: Sections) -> str:
    """Return the text of a manifest; equal ones have equal texts."""
    return json.dumps({"format": FORMAT, **manifest}, indent=1, sort_keys=True) + "\n"


def wanted(plan: NodePlan, files: Iterable[ManagedFile], roles: Collection[str]) -> Sections:
    """Return what a deploy of some roles brings to a node.

    Args:
        plan: of the node.
        files: of the node; secret ones only where the secrets are known.
        roles: those that are deployed.
    """
    known = {file.path: file for file in files}
    found: Sections = {
        "files": {
            file.path: _file(role, file, known.get(file.path))
            for role, file in declared_files(plan)
        },
        "units": {
            unit.name: {"role": role}
            for role, units in software.units_by_role(plan).items()
            for unit in units
        },
        "packages": _packages(plan),
        "masked": _each(plan, lambda role: role.contributes.masked_units(plan)),
        "sysctl": _sysctl(plan),
        "users": _each(plan, lambda role: role.users(plan)),
        "groups": _each(plan, lambda role: role.groups(plan)),
    }
    return {
        section: {
            name: entry
            for name, entry in entries.items()
            if SET_BY.get(section, entry["role"]) in roles
        }
        for section, entries in found.items()
    }


def _file(role: str, file: File, content: ManagedFile | None) -> Entry:
    # Without content: a secret that this machine does not hold.
    known = {} if content is None else {"sha256": content.sha256}
    return {"role": role, "mode": file.mode, "owner": file.owner, **known}


def _each(plan: NodePlan, names: Callable[[Declaration], Iterable[str]]) -> dict[str, Entry]:
    """Return name -> its first role."""
    found: dict[str, Entry] = {}
    for role in plan.roles:
        for name in names(role):
            found.setdefault(name, {"role": role.name})
    return found


def _packages(plan: NodePlan) -> dict[str, Entry]:
    owner: dict[str, str] = {}
    for role, names in software.packages_by_role(plan).items():
        for name in names:
            # The role "packages" has whole version sets; the role that needs one says more.
            if name not in owner or owner[name] == "packages":
                owner[name] = role
    held = {name: {"held": "yes"} for name in plan.held}
    return {name: {"role": owner[name], **held.get(name, {})} for name in plan.packages}


def _sysctl(plan: NodePlan) -> dict[str, Entry]:
    return {
        key: {"role": role.name, "value": value}
        for role in plan.roles
        if role.contributes.sysctl is not None
        for key, value in role.contributes.sysctl(plan).items()
    }


def merged(
    held: Sections, new: Sections, plan: NodePlan, roles: Collection[str], boot: str
) -> Sections:
    """Return the manifest after a deploy of some roles; what the plan has no longer stays in it.

    Args:
        held: the manifest that the node has.
        new: what the deploy brings (``wanted``).
        plan: of the node.
        roles: those that are deployed.
        boot: which boot of the node this is.
    """
    result = {section: {**held[section]} for section in SECTIONS}
    for section, entries in new.items():
        for name, entry in entries.items():
            result[section][name] = _updated(held[section].get(name, {}), entry)
    if SET_BY["sysctl"] in roles:
        for key in result["sysctl"].keys() - plan.sysctl.keys():
            # From now on no file sets it; the kernel keeps it until its next boot.
            result["sysctl"][key] = {"dropped": boot, **result["sysctl"][key]}
    return result


def _updated(old: Entry, new: Entry) -> Entry:
    """Return an entry with what only the node's manifest knows."""
    kept = {key: old[key] for key in ("before", "package", "sha256") if key in old}
    entry: Entry = kept | new
    if "sha256" in old and old["sha256"] != entry["sha256"]:
        # A deploy that is killed now leaves the old content.
        entry["before"] = old["sha256"]
    return entry


def planned(plan: NodePlan) -> dict[str, Collection[str]]:
    """Return section -> names that the plan of a node has."""
    return {
        "files": paths(plan),
        "units": (*plan.units, *plan.masked_units),
        "masked": plan.masked_units,
        "packages": plan.packages,
        "sysctl": plan.sysctl,
        "users": tuple(name for role in plan.roles for name in role.users(plan)),
        "groups": tuple(name for role in plan.roles for name in role.groups(plan)),
    }


@dataclass(frozen=True)
class LeftOver:
    """Something that Lockstep wrote on a node and that the plan has no longer."""

    section: str
    name: str
    role: str
    state: str
    """As it is on the node now; "" where nothing is left of it."""
    sha256: str = ""
    """Of a file as it is now."""
    package: str = ""
    """The package that ships a file at this path."""

    @property
    def changed(self) -> bool:
        """Say whether somebody changed it since; such a file stays."""
        return self.section == "files" and self.state != UNCHANGED


UNCHANGED = "unchanged"


def left_over(
    plan: NodePlan, reading: Mapping[str, Any], installed: Container[str]
) -> tuple[LeftOver, ...]:
    """Return what is left over on a node; what the description leaves to the site is not.

    Args:
        plan: of the node.
        reading: ``manifest``, as the node's reader gives it.
        installed: packages that the node has.
    """
    names = planned(plan)
    unmanaged = set(plan.spec.unmanaged)
    return tuple(
        _as_left_over(section, name, entry, installed)
        for section in SECTIONS
        for name, entry in sorted(reading.get(section, {}).items())
        if name not in names[section] and not unmanaged & {entry.get("role"), SET_BY.get(section)}
    )


def _as_left_over(
    section: str, name: str, entry: Mapping[str, str], installed: Container[str]
) -> LeftOver:
    if "unread" in entry:
        return LeftOver(section, name, "", f"{UNREAD}{entry['unread']}")
    state = entry["state"]
    if section == "packages":
        words = ("installed", *((state,) if state else ()))
        state = ", ".join(words) if name in installed else ""
    shipped_by = entry.get("package", "")
    return LeftOver(section, name, entry["role"], state, entry.get("sha256", ""), shipped_by)


UNREAD = "unread: "
"""How the state of something begins that the node could not read."""


def without(manifest: Sections, gone: Iterable[LeftOver]) -> Sections:
    """Return a manifest without things that are not on the node any more."""
    left_out = {(one.section, one.name) for one in gone}
    return {
        section: {name: entry for name, entry in entries.items() if (section, name) not in left_out}
        for section, entries in manifest.items()
    }
