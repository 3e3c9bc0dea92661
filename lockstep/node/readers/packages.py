"""Installed packages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

from lockstep.node.readers.commands import Commands, failure
from lockstep.node.readers.reading import Readings, Request
from lockstep.node.readers.tree import exists, found_by, rooted, text_of

JOURNAL = "/var/lib/dpkg/updates/*"
"""dpkg's journal, which contains files only while dpkg is running or after it was interrupted."""


VERSIONLOCK = "/etc/dnf/plugins/versionlock"
"""Configuration (``.conf``) and list (``.list``) of dnf's plugin (dnf-versionlock(8))."""
PLUGIN = "/usr/lib/python3*/site-packages/dnf-plugins/versionlock.py"
SEVERAL = ("kernel", "kmod-", "gpg-pubkey")
"""Beginnings of the names of packages that may be installed in several versions (dnf.conf(5),
installonlypkgs)."""


RPM_DATABASES = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")


def of_rpm() -> bool:
    """Return whether RPM manages the packages of this machine."""
    return not exists("/var/lib/dpkg/status") and any(map(exists, RPM_DATABASES))


def read_rpms(commands: Commands) -> Readings:
    """Installed, broken and locked packages of the RHEL family, from one call of rpm(8).

    Versions are without an epoch. An interrupted transaction leaves the old and the new version
    of a package: it is broken then. A package is on hold if dnf's plugin has a lock that its
    installed version matches.
    """
    out = commands.run("rpm", "-qa", "--qf", "%{NAME} %{ARCH} %{VERSION}-%{RELEASE}\\n")
    versions: dict[str, str] = {}
    architectures: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    broken = set()
    for line in sorted(out.splitlines()):
        name, architecture, version = line.split()
        if name == "gpg-pubkey":
            continue
        if (name, architecture) in seen:
            if not name.startswith(SEVERAL):
                broken.add(name)
                continue
            name = f"{name}:{version}"
        elif name in versions:
            name = f"{name}:{architecture}"
        seen.add((name, architecture))
        versions[name] = version
        architectures[name] = architecture
    locks = _locks()
    held = [
        name
        for name, version in versions.items()
        if any(_locks_it(lock, name, version, architectures[name]) for lock in locks)
    ]
    return {
        "packages": versions,
        "packages.broken": sorted(broken),
        "packages.held": sorted(held),
        "packages.interrupted": bool(broken),
    }


def _locks() -> list[str]:
    """Return the locks in force; none if the plugin is missing or disabled."""
    conf = text_of(f"{VERSIONLOCK}.conf", otherwise="").replace(" ", "").lower().splitlines()
    if "enabled=1" not in conf or not found_by(PLUGIN):
        return []
    lines = (line.strip() for line in text_of(f"{VERSIONLOCK}.list", otherwise="").splitlines())
    return [line for line in lines if line and line[0] not in "#!"]


def _locks_it(lock: str, name: str, version: str, architecture: str) -> bool:
    """Return whether a lock is for this package at this version (with or without epoch).

    dnf's plugin writes locks that end in ``.*``; an administrator can name an architecture.
    """
    if not lock.startswith(f"{name}-"):
        return False
    wanted = lock[len(name) + 1 :].rpartition(":")[2]
    return fnmatchcase(version, wanted) or fnmatchcase(f"{version}.{architecture}", wanted)


def read_packages(request: Request, commands: Commands) -> Readings:
    """Installed, broken and held packages, from one call of dpkg-query or rpm.

    dpkg was interrupted if a package is between two states, or if the journal contains files.
    """
    if of_rpm():
        return read_rpms(commands)
    out = commands.run(
        "dpkg-query", "-W", "-f", "${Package} ${Architecture} ${Version} ${db:Status-Abbrev}\\n"
    )
    versions: dict[str, str] = {}
    broken = []
    held = []
    interrupted = any(os.path.isfile(rooted(path)) for path in found_by(JOURNAL))
    for line in out.splitlines():
        words = line.split()
        if len(words) > 2 and words[-1][1] not in "nci":
            interrupted = True
            if len(words) == 3:  # no version: dpkg had only just begun
                broken.append(words[0])
        # A purged package has no version; a removed one has only configuration files left.
        if len(words) < 4 or words[3][1] in "nc":
            continue
        name, architecture, version, state = words[:4]
        if name in versions:
            name = f"{name}:{architecture}"
        versions[name] = version
        if state[1] != "i" or state[2:3] == "R":
            broken.append(name)
        if state[0] == "h":
            held.append(name)
    return {
        "packages": versions,
        "packages.broken": sorted(broken),
        "packages.held": sorted(held),
        "packages.interrupted": interrupted,
    }


OF_PACKAGES = "/var/lib/ucf/registry"
"""List of the files that packages create with ucf(1). Each line contains a package and a path."""


def read_shipped(request: Request, commands: Commands) -> Readings:
    """The package of each requested path; paths that belong to no package are left out."""
    asked = request["shipped"]
    said = ""
    if asked and of_rpm():
        return {"packages.shipped": _shipped_by_rpm(asked, commands)}
    if asked:
        status, said, why = commands.outcome("dpkg-query", "-S", *asked)
        # Exit status 1 is not a failure: it means that a path belongs to no package.
        if status not in (0, 1):
            raise failure("dpkg-query", status, said, why)
    found: dict[str, str] = {}
    for line in said.splitlines():
        packages, separator, path = line.partition(": ")
        if separator and not packages.startswith("diversion "):
            # A file may belong to several packages or architectures: "libc6:amd64, libc6:i386".
            found.setdefault(path, packages.split(", ")[0].partition(":")[0])
    for line in text_of(OF_PACKAGES, "").splitlines():
        package, _, path = line.partition(" ")
        if path in asked:
            found.setdefault(path, package)
    return {"packages.shipped": found}


def _shipped_by_rpm(paths: Sequence[str], commands: Commands) -> dict[str, str]:
    """Return the package of each path that an RPM contains."""
    found: dict[str, str] = {}
    for path in paths:
        # Exit status 1 is not a failure: it means that a path belongs to no package.
        status, said, why = commands.outcome("rpm", "-qf", "--qf", "%{NAME}\\n", path)
        if status not in (0, 1):
            raise failure("rpm", status, said, why)
        if status == 0:
            found[path] = said.splitlines()[0]
    return found
