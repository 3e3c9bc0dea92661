"""A node's manifest lists everything that Lockstep wrote on the node.

This module computes manifests; other modules read and write the files. Items that are no longer in
the plan are left over; only ``deploys/remove.py`` removes them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.files import ManagedFile
from lockstep.plan import NodePlan, owners

FORMAT = 1
SECTIONS = ("files", "groups", "masked", "packages", "sysctl", "units", "users")
SET_BY = {"masked": "os_settings", "packages": "packages", "sysctl": "os_settings"}
"""Section -> the role that applies its entries, on behalf of the role that each entry names."""

Entry = dict[str, str]
Sections = dict[str, dict[str, Entry]]
"""Section -> name (a path, a unit, a key) -> its entry, which always has ``role``."""


class ManifestError(Exception):
    """Raised when a manifest cannot be read; it is never treated as an empty one."""


class NewerManifest(ManifestError):
    """Raised for a manifest of a newer version of Lockstep, which must not be replaced."""


def parsed(text: str) -> Sections:
    """Parse the text of a manifest; "" means that the node has no manifest.

    Raises:
        ManifestError: the text is not a manifest.
    """
    if not text:
        return {section: {} for section in SECTIONS}
    try:
        document = json.loads(text)
        number = document["format"]
        if isinstance(number, int) and number > FORMAT:
            raise NewerManifest(
                f"a newer version of Lockstep wrote this file, in format {number}; this one reads "
                f"format {FORMAT}"
            )
        if number != FORMAT:
            raise ManifestError(f"format {number} is not supported, only format {FORMAT}")
        return {section: dict(document[section]) for section in SECTIONS}
    except (ValueError, LookupError, TypeError) as error:
        raise ManifestError(f"the file is not a manifest in format {FORMAT}: {error}") from error


def has_entries(manifest: Sections, role: str) -> bool:
    """Return whether a role has written anything to the node."""
    return any(one["role"] == role for section in manifest.values() for one in section.values())


def written(manifest: Sections) -> str:
    """Return a manifest as text; equal manifests have equal texts."""
    return json.dumps({"format": FORMAT, **manifest}, indent=1, sort_keys=True) + "\n"


def wanted(plan: NodePlan, files: Iterable[ManagedFile], roles: Collection[str]) -> Sections:
    """Return the manifest entries of everything that deploying the given roles writes.

    Args:
        plan: the plan of the node.
        files: the node's files; secret files only if this machine has the secrets.
        roles: the roles that are deployed.
    """
    hashes = {file.path: {"sha256": file.sha256} for file in files}
    details: Sections = {
        # A secret file has no hash if this machine does not have the secret.
        "files": {
            file.path: {"mode": file.mode, "owner": file.owner, **hashes.get(file.path, {})}
            for _, file in plan.system.files
        },
        "packages": {name: {"held": "yes"} for name in plan.software.held},
        "sysctl": {key: {"value": value} for key, value in plan.system.sysctl.items()},
    }
    return {
        section: {
            name: {"role": role, **details.get(section, {}).get(name, {})}
            for name, role in role_of.items()
            if SET_BY.get(section, role) in roles
        }
        for section, role_of in planned(plan).items()
    }


def planned(plan: NodePlan) -> dict[str, dict[str, str]]:
    """Return the role of every entry in a node's plan, as section -> name -> role."""
    # A role that needs a package takes precedence over the role "packages", which needs them all.
    needed_by = owners.first(
        plan, lambda role: () if role.name == "packages" else plan.software.by_role[role.name]
    )
    return {
        "files": {file.path: role for role, file in plan.system.files},
        "units": plan.system.role_of_unit,
        "packages": {name: needed_by.get(name, "packages") for name in plan.software.packages},
        "masked": owners.first(plan, lambda role: role.contributes.masked_units(plan)),
        "sysctl": {
            key: role.name for role in plan.roles.values() for key in role.contributes.sysctl(plan)
        },
        "users": owners.first(plan, lambda role: role.users(plan)),
        "groups": owners.first(plan, lambda role: role.groups(plan)),
    }


def merged(
    held: Sections, new: Sections, plan: NodePlan, roles: Collection[str], boot: str
) -> Sections:
    """Return the manifest after a deploy of some roles; entries no longer planned are kept.

    Args:
        held: the node's current manifest.
        new: the entries of the deploy (``wanted``).
        plan: the plan of the node.
        roles: the roles that are deployed.
        boot: the identity of the node's current boot.
    """
    result = {section: {**held[section]} for section in SECTIONS}
    for section, entries in new.items():
        for name, entry in entries.items():
            result[section][name] = _updated(held[section].get(name, {}), entry)
    if SET_BY["sysctl"] in roles:
        for key in result["sysctl"].keys() - plan.system.sysctl.keys():
            # No file sets this key any more; the kernel keeps its value until the next boot.
            result["sysctl"][key] = {"dropped": boot, **result["sysctl"][key]}
    return result


def _updated(old: Entry, new: Entry) -> Entry:
    """Return the new entry; values missing from it are taken from the old entry."""
    entry = {key: old[key] for key in ("before", "package", "sha256") if key in old} | new
    if "sha256" in old and old["sha256"] != entry["sha256"]:
        # If the deploy is killed now, the node keeps the old content.
        entry["before"] = old["sha256"]
    return entry


@dataclass(frozen=True)
class LeftOver:
    """Something that Lockstep wrote on a node and that is no longer in the plan."""

    section: str
    name: str
    role: str
    state: str
    """Current state on the node; "" if the item is gone."""
    sha256: str = ""
    """Hash of a file's current content."""
    package: str = ""
    """Package that ships a file at this path; "" if none does."""

    @property
    def changed(self) -> bool:
        """Whether this is a file that was changed by hand; such files are never removed."""
        return self.section == "files" and self.state != UNCHANGED


UNCHANGED = "unchanged"


def left_over(
    plan: NodePlan, reading: Mapping[str, Any], installed: Container[str]
) -> tuple[LeftOver, ...]:
    """Return everything that is left over on a node, except what ``unmanaged`` roles own.

    Args:
        plan: the plan of the node.
        reading: the node's reading ``manifest``.
        installed: the packages that are installed on the node.
    """
    whole = plan.with_every_role
    names = whole.once(planned, lambda: planned(whole))
    if plan.manages_nothing:
        return ()
    unmanaged = plan.unmanaged
    return tuple(
        _as_left_over(section, name, entry, installed)
        for section in SECTIONS
        for name, entry in sorted(reading.get(section, {}).items())
        if name not in names[section]
        # A unit that is now masked is not left over, even though no role keeps it running.
        and not (section == "units" and name in names["masked"])
        and not unmanaged & {entry.get("role"), SET_BY.get(section)}
    )


def _as_left_over(
    section: str, name: str, entry: Mapping[str, str], installed: Container[str]
) -> LeftOver:
    if "unread" in entry:
        return LeftOver(section, name, "", f"{UNREAD}{entry['unread']}")
    state = entry["state"]
    if section == "packages":
        state = ", ".join(filter(None, ("installed", state))) if name in installed else ""
    return LeftOver(
        section,
        name,
        entry["role"],
        state,
        sha256=entry.get("sha256", ""),
        package=entry.get("package", ""),
    )


UNREAD = "unread: "
"""Prefix of the state of an entry that could not be read on the node."""


def without(manifest: Sections, gone: Iterable[LeftOver]) -> Sections:
    """Return a manifest without the entries of items that are gone from the node."""
    left_out = {(one.section, one.name) for one in gone}
    return {
        section: {name: entry for name, entry in entries.items() if (section, name) not in left_out}
        for section, entries in manifest.items()
    }
