"""Installed packages."""

from __future__ import annotations

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request


def read_packages(request: Request, commands: Commands) -> Readings:
    """Every installed package, the broken ones and those on hold, from one dpkg-query."""
    out = commands.run(
        "dpkg-query", "-W", "-f", "${Package} ${Architecture} ${Version} ${db:Status-Abbrev}\\n"
    )
    versions: dict[str, str] = {}
    broken = []
    held = []
    for line in out.splitlines():
        words = line.split()
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
    return {"packages": versions, "packages.broken": sorted(broken), "packages.held": sorted(held)}
