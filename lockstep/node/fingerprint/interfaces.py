"""Which network interfaces are configuration, and which come and go with containers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import below, line_of

NET = "/sys/class/net"
OF_CONTAINERS = re.compile(r"(?:veth|cali|lxc|eni|azv|nodelocal)[0-9a-f]+|lxc_health|podman\d+-\w+")
"""Names that Docker, Podman, Calico, Cilium and the AWS and Azure plug-ins give to the end of a
pair whose other end is in a container."""


def without_containers(names: Iterable[str]) -> list[str]:
    """Return the interfaces that do not belong to a container.

    Those of containers have a generated name, and their peer is in another network namespace, so
    its index (Documentation/ABI/testing/sysfs-class-net, iflink) is no interface of this one. An
    operator's own pair stays.
    """
    names = sorted(names)
    suspects = {name for name in names if OF_CONTAINERS.fullmatch(name)}
    if not suspects:
        return names
    indexes = {_line(name, "ifindex") for name in below(NET)}
    gone = {name for name in suspects if _line(name, "iflink") not in indexes}
    return [name for name in names if name not in gone]


def _line(name: str, file: str) -> str:
    with suppress(Unread):
        return line_of(f"{NET}/{name}/{file}", "")
    return ""
