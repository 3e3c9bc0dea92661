"""Installed packages."""

from __future__ import annotations

import os

from lockstep.node.readers.commands import Commands, failure
from lockstep.node.readers.reading import Readings, Request
from lockstep.node.readers.tree import found_by, rooted, text_of

JOURNAL = "/var/lib/dpkg/updates/*"
"""dpkg's journal, which contains files only while dpkg is running or after it was interrupted."""


def read_packages(request: Request, commands: Commands) -> Readings:
    """Installed, broken and held packages, from one dpkg-query call.

    dpkg was interrupted if a package is between two states, or if the journal contains files.
    """
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
