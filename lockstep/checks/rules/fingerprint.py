"""Whatever differs between nodes that must be equal: one rule for each domain of the fingerprint.

The engine does not evaluate these rules: ``checks.fingerprint`` compares the hashes.
"""

from __future__ import annotations

from lockstep.checks.objects import ObjectKind
from lockstep.checks.rule import ERROR, WARNING, Rule, Severities, by_hand

FAMILY = "fingerprint."

DOMAINS: dict[str, tuple[str, ObjectKind, Severities]] = {
    "file": ("Files of the configuration", ObjectKind.FILE, WARNING),
    "package": ("Installed packages", ObjectKind.PACKAGE, WARNING),
    "user": ("Users", ObjectKind.USER, WARNING),
    "group": ("Groups", ObjectKind.USER, WARNING),
    "unit": ("Units of systemd and their states", ObjectKind.UNIT, WARNING),
    "process": ("Daemons with their limits, priorities and CPUs", ObjectKind.UNIT, WARNING),
    "running": ("Running settings against configured ones", ObjectKind.UNIT, ERROR),
    "listener": ("Listening sockets", ObjectKind.LISTENER, WARNING),
    "timer": ("Timers and planned jobs", ObjectKind.UNIT, WARNING),
    "cgroup": ("Control groups that no unit made", ObjectKind.UNIT, WARNING),
    "engine": ("Networks, images and containers of container engines", ObjectKind.UNIT, WARNING),
    "slurmd": ("What slurmd found on its node", ObjectKind.UNIT, WARNING),
    "sysctl": ("Kernel parameters", ObjectKind.SYSCTL, WARNING),
    "kernel": ("Settings of the kernel and its devices", ObjectKind.SYSTEM_FILE, WARNING),
    "module": ("Kernel modules with their parameters", ObjectKind.KERNEL_MODULE, WARNING),
    "interface": ("Network interfaces", ObjectKind.INTERFACE, WARNING),
    "address": ("Network addresses", ObjectKind.INTERFACE, WARNING),
    "route": ("Routes", ObjectKind.INTERFACE, WARNING),
    "rule": ("Routing rules", ObjectKind.INTERFACE, WARNING),
    "neighbour": ("Permanent neighbours", ObjectKind.INTERFACE, WARNING),
    "nexthop": ("Next hops", ObjectKind.INTERFACE, WARNING),
    "netns": ("Network namespaces", ObjectKind.INTERFACE, WARNING),
    "xfrm": ("IPsec states and policies", ObjectKind.INTERFACE, WARNING),
    "tc": ("Traffic control", ObjectKind.INTERFACE, WARNING),
    "firewall": ("Packet filters", ObjectKind.INTERFACE, WARNING),
    "mount": ("Mounts", ObjectKind.MOUNT, WARNING),
    "swap": ("Swap areas", ObjectKind.MOUNT, WARNING),
    "hardware": ("Hardware and firmware", ObjectKind.SYSTEM_FILE, WARNING),
}
"""Domain -> what it has, the kind of its objects, and how severe a difference is."""

RULES = tuple(
    Rule(
        id=FAMILY + domain,
        claim=f"{title} are the same on all nodes with the same role and hardware.",
        why="A distributed job runs at the speed of its most different node.",
        blind="Differences that all nodes share; lockstep.node.fingerprint lists exceptions.",
        source="comparison of nodes",
        reading="fingerprint",
        severity=severity,
        repair=by_hand("make {device} on {node} as on its peers"),
        objects=lambda view, device: (),
    )
    for domain, (title, _, severity) in DOMAINS.items()
)
