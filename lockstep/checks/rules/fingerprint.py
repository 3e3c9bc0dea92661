"""Whatever differs between nodes that must be equal: one rule for each domain of the fingerprint.

The engine does not evaluate these rules: ``checks.fingerprint`` compares the hashes.
"""

from __future__ import annotations

from lockstep.checks.rule import ERROR, WARNING, Rule, Severities, by_hand

FAMILY = "fingerprint."

DOMAINS: dict[str, tuple[str, Severities]] = {
    "file": ("Files of the configuration", WARNING),
    "package": ("Installed packages", WARNING),
    "user": ("Users", WARNING),
    "group": ("Groups", WARNING),
    "unit": ("Units of systemd and their states", WARNING),
    "process": ("Daemons with their limits, priorities and CPUs", WARNING),
    "running": ("Running settings against configured ones", ERROR),
    "listener": ("Listening sockets", ERROR),
    "timer": ("Timers and planned jobs", WARNING),
    "cgroup": ("Control groups that no unit made", WARNING),
    "engine": ("Networks, images and containers of container engines", WARNING),
    "slurmd": ("What slurmd found on its node", WARNING),
    "sysctl": ("Kernel parameters", WARNING),
    "kernel": ("Settings of the kernel and its devices", WARNING),
    "module": ("Kernel modules with their parameters", WARNING),
    "interface": ("Network interfaces", WARNING),
    "address": ("Network addresses", ERROR),
    "route": ("Routes", ERROR),
    "rule": ("Routing rules", ERROR),
    "neighbour": ("Permanent neighbours", ERROR),
    "nexthop": ("Next hops", ERROR),
    "netns": ("Network namespaces", WARNING),
    "xfrm": ("IPsec states and policies", ERROR),
    "tc": ("Traffic control", WARNING),
    "firewall": ("Packet filters", ERROR),
    "mount": ("Mounts", ERROR),
    "swap": ("Swap areas", WARNING),
    "program": ("Files of packages, and others below /usr", WARNING),
    "login": ("What a login shell gets", WARNING),
    "hardware": ("Hardware and firmware", WARNING),
}
"""Domain -> what it has, and how severe a difference is unless a row of
``lockstep.checks.fingerprint.severities`` says otherwise.

Addresses, routes and the like decide which hosts a node reaches; sockets and packet filters, which
hosts reach it; without a mount, jobs fail. The others can rather slow a node than break it.
"""

RULES = tuple(
    Rule(
        id=FAMILY + domain,
        claim=f"{title} are the same on all nodes with the same role and hardware.",
        why="A distributed job runs at the speed of its most different node.",
        blind="Differences that all nodes share; lockstep.node.fingerprint lists exceptions.",
        source="comparison of nodes",
        reading="fingerprint",
        severity=severity,
        repair=by_hand("make {device} on {node} the same as on its peers"),
        objects=lambda view, device: (),
    )
    for domain, (title, severity) in DOMAINS.items()
)
