"""Rules about packages."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, Cause, Effect
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    DEPLOY,
    Pending,
    by_role,
)
from lockstep.checks.rule import (
    Kind,
    Look,
    Peers,
    Rule,
    each,
    same,
    some,
)
from lockstep.checks.rules._driver import other_packages, tags_of_package, upstream
from lockstep.plan import owners
from lockstep.plan.job_containers import PYXIS_PACKAGE
from lockstep.probe.record import Unread


def _broken_roles(view: View, device: str) -> frozenset[str]:
    broken = view.read("packages.broken")
    names = map(str, broken) if isinstance(broken, list) else ()
    return frozenset({"packages"}.union(*(owners.of_package(view.plan, name) for name in names)))


def _held_items(view: View) -> Items:
    held = view.read("packages.held")
    if not isinstance(held, list):
        return {
            "": held if isinstance(held, Unread) else Unread(unread=f"not a list: {held!r:.60}")
        }
    return {name: "on hold" if name in held else "not on hold" for name in view.plan.held}


def _held_expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.held, "on hold")


def _present_items(view: View) -> Items:
    installed = view.record.items("packages")
    if isinstance(installed, Unread):
        return {"": installed}
    return {
        name: "installed" if name in installed else "not installed" for name in view.plan.packages
    }


def _present_expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(view.plan.packages, "installed")


def _together(view: View) -> dict[str, tuple[str, ...]]:
    """Return groups of packages with the same installed and the same locked version."""
    alike: dict[tuple[str, str, bool], list[str]] = {}
    stack = view.plan.nvidia
    for name, installed in other_packages(view).items():
        of_stack = stack is not None and name in stack.versions
        of_driver = stack is not None and name in stack.driver_packages
        found = upstream(installed) if of_stack else name
        alike.setdefault((view.plan.versions[name], found, of_driver), []).append(name)
    return {", ".join(names): tuple(names) for names in alike.values()}


def _version_items(view: View) -> Items:
    installed = view.record.items("packages")
    if isinstance(installed, Unread):
        return {"": installed}
    items = dict(installed)
    for device, names in _together(view).items():
        found = sorted({str(items.pop(name)) for name in names})
        items[device] = ", ".join(found)
    return items


def _locked(view: View) -> dict[str, JsonValue]:
    """Return the locked versions; versions that match a pattern are compared with the peers."""
    locked = view.plan.versions
    wanted: dict[str, JsonValue] = {
        name: version for name, version in locked.items() if "*" not in version
    }
    return wanted | {device: locked[names[0]] for device, names in _together(view).items()}


def _of_driver(view: View, device: str) -> bool:
    stack = view.plan.nvidia
    return stack is not None and device.split(", ")[0] in stack.driver_packages


def _version_tags(view: View, device: str) -> frozenset[str]:
    return frozenset().union(*(tags_of_package(name, view) for name in device.split(", ")))


def _version_roles(view: View, device: str) -> frozenset[str]:
    names = device.split(", ")
    return frozenset().union(*(owners.of_package(view.plan, name) for name in names))


RULES = (
    Rule(
        id="package.broken",
        claim="No package is half installed.",
        why="dpkg was interrupted: the next deploy fails on this node only.",
        blind="A complete package whose files changed afterwards.",
        source="dpkg(1), --audit",
        reading="packages.broken",
        expected=same([]),
        repair=by_role(
            "packages, and the role that needs it",
            f"{DEPLOY}; if it stays, on {{node}}: dpkg --configure -a shows why",
            roles=_broken_roles,
        ),
        explained_by=(Cause("package.present", device=""),),
    ),
    Rule(
        id="package.held",
        claim="Packages that must not change under a job are on hold.",
        why="A pin steers apt. Only a hold stops an upgrade by hand.",
        blind="Unplanned holds. A hold that somebody overrides (--allow-change-held-packages).",
        source="apt-mark(8), dpkg(1)",
        reading="packages.held",
        look=Look(_held_items),
        expected=each(_held_expected),
        repair=by_role("packages"),
        applies=lambda view: bool(view.plan.held),
        explained_by=(
            Cause("package.present", at=SAME_DEVICE),
            Cause("package.present", device=""),
        ),
    ),
    Rule(
        id="package.present",
        claim="Every planned package is installed.",
        why="Its services cannot run.",
        blind="Other packages: package.version compares their versions only.",
        source="dpkg-query(1)",
        reading="packages",
        look=Look(_present_items),
        expected=each(_present_expected),
        repair=by_role(
            "packages, and the role that needs it",
            roles=lambda view, name: owners.of_package(view.plan, name),
        ),
        tags=lambda view, device: tags_of_package(device, view),
    ),
    Rule(
        id="package.version",
        claim="Packages have the locked version, and otherwise the version of their peers.",
        why="Two versions of one library in a job give errors that are hard to reproduce.",
        blind=(
            "Software outside of packages. A package that only one node has. A missing planned "
            "package: package.present judges that. Revisions of one version that all nodes "
            "share."
        ),
        source="apt_preferences(5)",
        reading="packages",
        look=Look(_version_items),
        kind=Kind.SLOTS,
        expected=some(_locked),
        peers=Peers.OS,
        repair=by_role(
            "packages, and the role that needs it",
            roles=_version_roles,
            peers="apt-get install {device}={expected} on {node}, or lock it in software.versions",
            pending=Pending(
                _of_driver,
                "Packages of the GPU driver change on a drained node only, before its reboot.",
            ),
        ),
        tags=_version_tags,
        explained_by=(
            Cause("package.present", at=SAME_DEVICE),
            Cause("package.present", device=""),
            # Builds for several versions of Slurm are revisions of one version.
            Cause("slurm.pyxis", of=Effect(device=PYXIS_PACKAGE)),
        ),
    ),
)
