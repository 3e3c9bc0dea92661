"""Rules about packages, and about the kernel modules that DKMS builds from them."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.looks import made
from lockstep.checks.rule import (
    DEPLOY,
    SAME_DEVICE,
    WARNING,
    Cause,
    Effect,
    Kind,
    Look,
    Peers,
    Pending,
    Repair,
    Rule,
    by_hand,
    by_role,
    each,
    same,
    some,
)
from lockstep.checks.rules.driver import DRIVER, other_packages, tags_of_package, upstream
from lockstep.plan import owners
from lockstep.plan.job_containers import PYXIS_PACKAGE
from lockstep.plan.signing import signing
from lockstep.probe.record import Unread


def _broken_roles(view: View, device: str) -> frozenset[str]:
    broken = view.read("packages.broken")
    names = map(str, broken) if isinstance(broken, list) else ()
    return frozenset({"packages"}.union(*(owners.of_package(view.plan, name) for name in names)))


def _held_items(view: View) -> Items:
    held = view.read("packages.held")
    if not isinstance(held, list):
        return {
            "": held
            if isinstance(held, Unread)
            else Unread(unread=f"the value is not a list: {held!r:.60}")
        }
    return {name: "on hold" if name in held else "not on hold" for name in view.plan.software.held}


def _together(view: View) -> dict[str, tuple[str, ...]]:
    """Group the packages with a wrong version; the key is the names in the group as text.

    NVIDIA packages with the same installed and locked version form one group, but driver packages
    are grouped separately. Each other package is a group of its own.
    """
    alike: dict[tuple[str, str, bool], list[str]] = {}
    stack = view.plan.nvidia
    for name, installed in other_packages(view).items():
        of_stack = stack is not None and name in stack.versions
        of_driver = stack is not None and name in stack.driver.packages
        found = upstream(installed) if of_stack else name
        alike.setdefault((view.plan.software.versions[name], found, of_driver), []).append(name)
    return {", ".join(names): tuple(names) for names in alike.values()}


def _version_items(view: View) -> Items:
    items = {**view.items("packages")}
    for device, names in _together(view).items():
        items[device] = ", ".join(sorted({str(items.pop(name)) for name in names}))
    return items


def _locked(view: View) -> dict[str, JsonValue]:
    """Return the locked versions, except for patterns that match the installed version."""
    locked = view.plan.software.versions
    return {
        **{name: version for name, version in locked.items() if "*" not in version},
        **{device: locked[names[0]] for device, names in _together(view).items()},
    }


UNSIGNED = "no signature"


def has_key(view: View) -> bool:
    """Return whether the modules of the node are to be signed with a key of the site."""
    return signing(view.plan) is not None


def _signature(value: JsonValue) -> Value:
    if not isinstance(value, dict):
        return value
    if value.keys() == {"unread"}:
        return Unread(unread=str(value["unread"]))
    return _words(value["signer"], value["key"]) if value["signer"] else UNSIGNED


def _words(signer: object, serial: object) -> str:
    return f"{signer} (serial number {serial})"


def _signatures(view: View) -> Items:
    found: Items = {}
    for kernel, modules in view.items("dkms.signatures").items():
        if not isinstance(modules, dict):
            return {kernel: modules}
        for files in modules.values():
            for name, value in files.items() if isinstance(files, dict) else ():
                found[f"{name} for {kernel}"] = _signature(value)
    return found


def _planned(view: View) -> JsonValue:
    key = signing(view.plan)
    return None if key is None else _words(key.certificate.signer, key.certificate.serial)


def _enrolled(view: View) -> Items:
    key, found = signing(view.plan), view.items("secure_boot.certificates")
    if "" in found or key is None:
        return found
    return {key.certificate_file: found.get(key.certificate.sha256, "not enrolled")}


def _needs_enrolment(view: View) -> bool:
    """Return whether Secure Boot is on, or whether the kernel refuses unsigned modules anyway."""
    state = view.items("secure_boot")
    off = state.get("firmware") in ("off", "absent")
    return has_key(view) and not (off and state.get("unsigned_modules") == "loaded")


RULES = (
    Rule(
        id="dkms.signed",
        claim="Every module that DKMS has built is signed with the key of the site.",
        why=(
            "A kernel with Secure Boot refuses other modules: the driver is missing after the next "
            "boot. dkms only warns if it cannot sign."
        ),
        blind=(
            "Kernels that neither run nor boot next. A module in the initramfs. A certificate with "
            "the same issuer and serial number but another key."
        ),
        source="modinfo(8): signer, sig_key; dkms(8): mok_signing_key; kernel docs: module-signing",
        reading="dkms.signatures",
        look=Look(_signatures),
        expected=same(_planned),
        repair=by_role("module_signing"),
        applies=has_key,
    ),
    Rule(
        id="secure_boot.enrolled",
        claim=(
            "Where Secure Boot is on, the certificate of the site's key for modules is enrolled."
        ),
        why="The kernel loads no module that DKMS has signed: the node has no GPUs.",
        blind=(
            "A certificate that the firmware or shim also forbids (dbx, MokListX). Kernels that do "
            "not trust shim's list or the firmware's for modules."
        ),
        source="mokutil(1), UEFI specification 32.4.1, kernel docs: module-signing",
        reading="secure_boot.certificates",
        look=Look(_enrolled),
        expected=replace(same("enrolled"), set_by="module_signing"),
        repair=Repair(
            "person",
            (
                "on the console of {node}: run mokutil --import {device}, reboot, and confirm the "
                "enrolment in shim's menu"
            ),
        ),
        applies=_needs_enrolment,
    ),
    Rule(
        id="secure_boot.state",
        kind=Kind.SLOTS,
        claim=(
            "Secure Boot is on, or off, on all nodes of a hardware class, and their kernels refuse "
            "unsigned modules, or load them, alike."
        ),
        why="A driver that one node loads is refused by the other.",
        blind="A setting of the firmware that takes effect at the next boot.",
        source="UEFI specification 3.3 (SecureBoot), kernel_lockdown(7), kernel docs: sig_enforce",
        reading="secure_boot",
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "compare the firmware settings and the kernel command line of {node} with its peers"
        ),
    ),
    Rule(
        id="package.broken",
        claim="No package is half installed.",
        why="After an interrupted dpkg run, the next deploy fails on this node.",
        blind="Fully installed packages whose files were changed later.",
        source="dpkg(1), --audit",
        reading="packages.broken",
        expected=same([]),
        repair=by_role(
            "the packages role and the role that needs the package",
            f"{DEPLOY}; if the finding remains, dpkg --configure -a on {{node}} shows why",
            roles=_broken_roles,
        ),
        explained_by=(Cause("package.present", device=""),),
    ),
    Rule(
        id="package.held",
        claim="Packages that must not change while jobs are running are on hold.",
        why="A pin only sets which version apt prefers. Only a hold prevents a manual upgrade.",
        blind=(
            "Holds that are not planned. Upgrades that override a hold "
            "(--allow-change-held-packages)."
        ),
        source="apt-mark(8), dpkg(1)",
        reading="packages.held",
        look=Look(_held_items),
        expected=each(lambda view: dict.fromkeys(view.plan.software.held, "on hold")),
        repair=by_role("packages"),
        applies=lambda view: bool(view.plan.software.held),
        explained_by=(
            Cause("package.present", at=SAME_DEVICE),
            Cause("package.present", device=""),
        ),
    ),
    Rule(
        id="package.present",
        claim="Every planned package is installed.",
        why="Services that need a missing package cannot run.",
        blind="Unplanned packages, whose versions package.version compares.",
        source="dpkg-query(1)",
        reading="packages",
        look=Look(
            made(
                "packages",
                lambda view, installed: {
                    name: "installed" if name in installed else "not installed"
                    for name in view.plan.software.packages
                },
            )
        ),
        expected=each(lambda view: dict.fromkeys(view.plan.software.packages, "installed")),
        repair=by_role(
            "the packages role and the role that needs the package",
            roles=lambda view, name: owners.of_package(view.plan, name),
        ),
        tags=lambda view, device: tags_of_package(device, view),
    ),
    Rule(
        id="package.version",
        claim=(
            "Every locked package has its locked version. All other packages have the same version "
            "on all nodes."
        ),
        why="Two versions of the same library in a job cause errors that are hard to reproduce.",
        blind=(
            "Software that is not in a package. A package that only one node has. A missing "
            "planned package, which package.present reports. The same wrong version on all nodes, "
            "if the package is not locked or the lock's pattern allows that version."
        ),
        source="apt_preferences(5)",
        reading="packages",
        look=Look(_version_items),
        kind=Kind.SLOTS,
        expected=some(_locked),
        peers=Peers.OS,
        repair=by_role(
            "the packages role and the role that needs the package",
            roles=lambda view, device: {
                role for name in device.split(", ") for role in owners.of_package(view.plan, name)
            },
            peers=(
                "run apt-get install {device}={expected} on {node}, or lock the version in "
                "software.versions"
            ),
            pending=Pending(
                lambda view, device: DRIVER in tags_of_package(device.split(", ")[0], view),
                "GPU driver packages are changed only on a drained node, before it reboots.",
            ),
        ),
        tags=lambda view, device: frozenset().union(
            *(tags_of_package(name, view) for name in device.split(", "))
        ),
        explained_by=(
            Cause("package.present", at=SAME_DEVICE),
            Cause("package.present", device=""),
            # Builds of pyxis for different Slurm versions are revisions of the same pyxis version.
            Cause("slurm.pyxis", of=Effect(device=PYXIS_PACKAGE)),
        ),
    ),
)
