"""Which keys a line of a configuration file sets: a site may not set those of Lockstep's lines.

Each function returns the keys of a line, none for a comment, and raises ValueError with what is
expected for a line that the file's program would not understand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address

from lockstep.spec.names import expand

Keys = Callable[[str], tuple[str, ...]]

_PAIR = re.compile(r"([\w.]+)\s*[-+*/]?=\s*(\"[^\"]*\"|\S*)")
_NAMED = ("partitionname", "nodeset", "downnodes", "frontendname", "name")
"""Keys of lines that are about one thing: slurm.conf has several such lines."""


def of_slurm(line: str) -> tuple[str, ...]:
    """Return the keys of a line of slurm.conf(5), gres.conf(5), cgroup.conf(5), slurmdbd.conf(5).

    A line about a node, a partition or another thing sets only what it is about.
    """
    text = re.split(r"(?<!\\)#", line)[0].strip()
    if not text or re.fullmatch(r"include\s+\S+", text, re.IGNORECASE):
        return ()
    pairs = _PAIR.findall(text)
    if not pairs or not text.lower().startswith(pairs[0][0].lower()):
        raise ValueError("Key=Value, or a comment that begins with #")
    if text.endswith("\\"):
        raise ValueError("a whole line: this one goes on in the next")
    values = {key.lower(): value.strip('"') for key, value in pairs}
    for key in _NAMED:
        if key in values:
            return (f"{_spelt(pairs, key)}={values[key]}",)
    if "autodetect" in values:
        return ("AutoDetect",)
    if "nodename" in values:
        return tuple(f"NodeName={name}" for name in expand(values["nodename"]))
    return tuple(key for key, _ in pairs)


def _spelt(pairs: list[tuple[str, str]], key: str) -> str:
    return next(name for name, _ in pairs if name.lower() == key)


REPEATED = ("allow", "deny", "cmdallow", "cmddeny", "hwtimestamp", "refclock")
"""Directives of chrony.conf(5) of which each line is about another network or device."""


def of_chrony(line: str) -> tuple[str, ...]:
    """Return the directive of a line of chrony.conf(5), with what it is about where it matters."""
    if line.lstrip().startswith(("#", "%", ";", "!")) or not line.strip():
        return ()
    directive, *rest = line.split()
    if not re.fullmatch(r"[A-Za-z0-9]+", directive):
        raise ValueError("a directive of chrony.conf(5), or a comment that begins with #")
    name = directive.lower()
    return (" ".join((name, *rest[:1])) if name in REPEATED else name,)


def of_hosts(line: str) -> tuple[str, ...]:
    """Return the names in a line of hosts(5)."""
    address, *names = line.partition("#")[0].split() or [""]
    if not address:
        return ()
    try:
        ip_address(address)
    except ValueError as error:
        raise ValueError("an address and at least one name, as in hosts(5)") from error
    if not names:
        raise ValueError("an address and at least one name, as in hosts(5)")
    return tuple(name.lower() for name in names)
