"""The probe by clush(1) on the controller: over the connections and the tree that it has there.

Options: clush(1) of ClusterShell 1.9.3. With a topology.conf(5) there it goes over gateways.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from lockstep.probe.parts import MARKER
from lockstep.probe.ship import Request, for_many
from lockstep.report import fold

OPTION = "--through-clush"
CONNECT_S = 10
PROBE_S = 60
"""For one node, its connection included; the probe itself gives up after 25 s."""
ALL_S = 300
"""For all of them, 64 at a time (clush.conf(5): fanout)."""
KILL_S = 10


def run(requests: Mapping[str, Request]) -> str:
    """Return the command that reads these nodes; it is run as root on the controller.

    Raises:
        ValueError: the command is too long.
    """
    program, asked = for_many(requests)
    # clush.conf decides which user logs in; one that is not root reads half of a record.
    root = '$([ "$(id -u)" = 0 ] || echo sudo -n -H)'
    probe = f'{root} python3 -c {shlex.quote(program)} {asked} "$(uname -n)"'
    words = [
        *("timeout", f"--kill-after={KILL_S}", str(ALL_S)),
        *("clush", "--nostdin", "--quiet", "--color=never"),
        *(f"--connect_timeout={CONNECT_S}", f"--command_timeout={PROBE_S}"),
        *("-w", fold(tuple(requests)), "--", probe),
    ]
    return shlex.join(words)


def own(lines: Iterable[str]) -> Iterator[str]:
    """Return the lines that a node says of itself, without clush's label.

    A node that calls itself by another one's name must not be taken for it.
    """
    for line in lines:
        label, _, said = line.partition(": ")
        if said.split(" ", 2)[:2] == [MARKER, label]:
            yield said
