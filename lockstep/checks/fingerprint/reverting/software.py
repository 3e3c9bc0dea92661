"""Commands that revert differences of packages and of container engines."""

from __future__ import annotations

import re

from lockstep.checks.fingerprint.reverting.case import Case, Steps, command

DPKG = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]+):(?P<architecture>[a-z0-9-]+)")
RPM = re.compile(r"(?P<name>[\w+.-]+)\.(?P<architecture>\w+)")
OTHERS = re.compile(r"(?P<kind>snap|statoverride of|architecture|flatpak) (?P<name>\S+)")
OF_DPKG = frozenset({"version", "status", "selection", "installed", "error"})
REMOVE = ("dnf", "remove", "--noautoremove")
TO_CONFIGURE = ("unpacked", "half-configured")


def of_package(case: Case) -> Steps:
    """Return the commands that make a package as on the other nodes."""
    other = OTHERS.fullmatch(case.name)
    if other is not None:
        return _other(case, other["kind"], other["name"])
    if case.family == "rhel":
        return _of_rpm(case)
    match = DPKG.fullmatch(case.name)
    return [] if match is None else _of_dpkg(case, match["name"], match["architecture"])


def _of_dpkg(case: Case, name: str, architecture: str) -> Steps:
    called = name if architecture == "all" else f"{name}:{architecture}"
    if case.is_extra:
        unhold = [command("apt-mark", "unhold", called)] if case.was("selection") == "hold" else []
        return [*unhold, command("apt-get", "purge", called)]
    if case.should("status") != "installed" or not case.changed <= OF_DPKG:
        return []
    steps: list[str] = []
    held, to_hold = (value == "hold" for value in (case.was("selection"), case.should("selection")))
    if held and (case.changed != {"selection"} or not to_hold):
        steps.append(command("apt-mark", "unhold", called))
    if case.was("version") != case.should("version") or case.was("status") in ("", "config-files"):
        version = f"{called}={case.should('version')}"
        steps.append(command("apt-get", "install", "--allow-downgrades", version))
    elif case.was("status") in TO_CONFIGURE:
        steps.append(command("dpkg", "--configure", called))
    elif case.was("status") != "installed":
        return []
    elif "error" in case.changed:
        steps.append(command("apt-get", "install", "--reinstall", called))
    mark = {"automatically": "auto", "manually": "manual"}.get(case.should("installed"), "")
    is_new = case.was("status") in ("", "config-files")  # apt marks it as installed manually
    if mark and "installed" in case.changed and not (is_new and mark == "manual"):
        steps.append(command("apt-mark", mark, called))
    if to_hold and (steps or not held):
        steps.append(command("apt-mark", "hold", called))
    return steps


def _of_rpm(case: Case) -> Steps:
    """Return the commands for RPM's packages, of which one can be installed in several versions.

    dnf(8) installs the exact version that is named, no matter which one is installed. Without
    ``--noautoremove`` it would also remove what the package was installed with.
    """
    match = RPM.fullmatch(case.name)
    if match is None:
        return []
    if case.is_extra:
        return [command(*REMOVE, case.name)]
    if not case.changed <= {"version", "status"}:
        return []
    now, wanted = (list(filter(None, text.split(", ")))
                   for text in (case.was("version"), case.should("version")))  # fmt: skip
    steps = [
        command("dnf", "install", f"{match['name']}-{version}.{match['architecture']}")
        for version in wanted
        if version not in now
    ]
    replaced = len(now) == len(wanted) == 1
    return [
        *steps,
        *(
            command(*REMOVE, f"{match['name']}-{version}.{match['architecture']}")
            for version in now
            if version not in wanted and not replaced
        ),
    ]


def _other(case: Case, kind: str, name: str) -> Steps:
    if kind == "snap":
        if case.is_extra:
            return [command("snap", "remove", name)]
        verb = "install" if case.is_missing else "refresh"
        return [command("snap", verb, f"--revision={case.should('revision')}", name)]
    if kind == "flatpak":
        return [command("flatpak", "uninstall", "--system", name)] if case.is_extra else []
    if kind == "architecture":
        verb = "--remove-architecture" if case.is_extra else "--add-architecture"
        return [command("dpkg", verb, name)]
    removed = [] if case.is_missing else [command("dpkg-statoverride", "--remove", name)]
    if case.is_extra:
        return removed
    user, _, group = case.should("owner").partition(":")
    added = ("dpkg-statoverride", "--update", "--add", user, group, case.should("mode"), name)
    return [*removed, command(*added)] if user and group else []


def of_engine(case: Case) -> Steps:
    """Return the command that removes an image or network; volumes and containers have data."""
    match = re.fullmatch(r"(docker|podman) (image|network) (\S+)", case.name)
    if match is None or not case.is_extra:
        return []
    return [command(match[1], match[2], "rm", match[3])]
