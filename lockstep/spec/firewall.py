"""The packet filter of the nodes, as it is declared."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator

from lockstep.spec.fields import Model, Network_


def _ports(value: str) -> str:
    found = re.fullmatch(r"(?:tcp|udp)/([1-9]\d{0,4})(?:-([1-9]\d{0,4}))?", value, re.ASCII)
    if found is None:
        raise ValueError(
            'a port or a range of ports, such as "tcp/443" or "udp/60000-61000"',
        )
    if not int(found[1]) <= int(found[2] or found[1]) <= 65535:
        raise ValueError("ports between 1 and 65535, the lower one first")
    return value


Ports = Annotated[str, AfterValidator(_ports)]
"""A protocol, and a port or a range of ports."""


class Firewall(Model):
    """What nodes accept from other machines, beside what follows from their roles.

    docs/firewall.md has all of it.
    """

    kind: Literal["nftables", "firewalld"]
    """The program that loads the rules; the units of others are masked."""
    trusted: tuple[Network_, ...] = ()
    """Networks of the site from which nodes accept everything, as from each other."""
    services: tuple[Ports, ...] = ()
    """Ports that nodes open to everyone, such as "tcp/443"."""
