"""Installed packages."""

from __future__ import annotations

import os

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request
from lockstep.node.readers.tree import found_by, rooted

JOURNAL = "/var/lib/dpkg/updates/*"
"""Files are there only while dpkg runs, or after it was stopped."""


def read_packages(request: Request, commands: Commands) -> Readings:
    """Every installed package, the broken ones and those on hold, from one dpkg-query.

    dpkg was interrupted where a package is between two states, or its journal was left.
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
            if len(words) == 3:  # without a version: dpkg had only begun
                broken.append(words[0])
        # A removed package has no version; what is left of it is of no interest.
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
