"""Node groups: nodes of one class with consecutive names and addresses; roles and services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netaddr import IPAddress

from lockstep.describe.machines import Machines, has_gpus
from lockstep.describe.networks import Networks, in_order
from lockstep.describe.scheduler import SlurmConf
from lockstep.describe.seen import Seen
from lockstep.describe.values import Block, Value, checked, found_on, named, rows, table, todo
from lockstep.report import alike
from lockstep.spec.model import NodeGroup

SERVICES = {
    "slurm_accounting": "slurmdbd.service",
    "slurm_controller": "slurmctld.service",
    "prometheus": "prometheus.service",
}
"""Service of a head -> its unit."""


class Roles:
    """The role of each node, and the services of the heads."""

    def __init__(self, nodes: Sequence[Seen], conf: SlurmConf) -> None:
        """Find the roles of these nodes."""
        self.conf = conf
        self.running = {
            service: [one.host for one in nodes if one.is_active(unit)]
            for service, unit in SERVICES.items()
        }
        controllers = [one.host for one in nodes if one.name in conf.controllers[:1]]
        self.running["slurm_controller"] = controllers or self.running["slurm_controller"]

    def runs(self, one: Seen) -> list[str]:
        """Return the services that the description gives a node: each has one node."""
        return [service for service, hosts in self.running.items() if one.host in hosts[:1]]

    def is_worker(self, one: Seen) -> bool:
        """Return whether a node runs jobs, and no service of a head."""
        if self.runs(one):
            return False
        if self.conf.nodes:
            return one.name in self.conf.nodes
        return one.is_active("slurmd.service") or has_gpus(one)

    def why(self, one: Seen) -> str:
        """Return how the role was found."""
        if runs := self.runs(one):
            return f"it runs {', '.join(runs)}"
        if self.conf.nodes:
            return f"slurm.conf has {'a' if one.name in self.conf.nodes else 'no'} NodeName for it"
        if one.is_active("slurmd.service"):
            return "slurmd runs"
        return "it has GPUs; confirm" if has_gpus(one) else "it has no GPUs; confirm"

    def others(self) -> list[str]:
        """Return comments about services that run on more nodes than a description can have."""
        return [
            f"{service} also runs on {', '.join(hosts[1:])}: a description has one node for it"
            for service, hosts in self.running.items()
            if len(hosts) > 1
        ]

    def missing(self) -> list[str]:
        """Return the services that a cluster with Slurm has and no node runs."""
        wanted = ("slurm_controller", "slurm_accounting")
        return [service for service in wanted if not self.running[service]]


def block(
    classes: Iterable[Machines],
    networks: Networks,
    roles: Roles,
    releases: Mapping[str, str],
    usual_release: str,
) -> Block:
    """Return the node groups as a description has them.

    Args:
        classes: the hardware classes.
        networks: the networks.
        roles: the roles of the nodes.
        releases: host -> the name of its release; "" for one that Lockstep does not know.
        usual_release: the value of ``os.release``.
    """
    kinds = {
        one.host: (not roles.is_worker(one), *roles.runs(one), part.name, releases[one.host])
        for part in classes
        for one in part.nodes
    }
    hardware = {one.host: part.name for part in classes for one in part.nodes}
    nodes = sorted((one for part in classes for one in part.nodes), key=lambda one: one.order)
    groups = [
        group
        for same in alike(nodes, lambda one: kinds[one.host]).values()
        for group in _consecutive(same, networks)
    ]
    groups.sort(key=lambda group: (roles.is_worker(group[0]), group[0].order))
    # Workers need a scheduler, so a description of them has the services of its heads.
    missing = roles.missing() if any(roles.is_worker(one) for one in nodes) else []
    # Where a slurm.conf names nodes, its controller is another machine than those that were read.
    takes = (
        None if roles.conf.nodes else next((one for one in groups if _can_take(one, roles)), None)
    )
    items = [
        _group(
            group,
            networks,
            roles,
            hardware[group[0].host],
            releases,
            usual_release,
            missing if group is takes else (),
        )
        for group in groups
    ]
    if missing and takes is None:
        items.append(_lacking(missing))
    return rows(items, "Addresses of a group are consecutive, in the order of the names.")


def _can_take(group: Sequence[Seen], roles: Roles) -> bool:
    """Return whether a group is one head, which a person can have run more services."""
    return len(group) == 1 and not roles.is_worker(group[0])


def _consecutive(nodes: Sequence[Seen], networks: Networks) -> list[list[Seen]]:
    """Split nodes, sorted by name, where names or addresses do not follow each other."""
    groups: list[list[Seen]] = []
    for one in nodes:
        last = groups[-1] if groups else []
        if last and _follows(last, one, networks):
            last.append(one)
        else:
            groups.append([one])
    return groups


def _follows(group: Sequence[Seen], one: Seen, networks: Networks) -> bool:
    before, now = networks.management(group[-1]), networks.management(one)
    if before is None or now is None or not in_order([*(n.name for n in group), one.name]):
        return False
    same_prefix = (group[-1].order[0], group[-1].order[2]) == (one.order[0], one.order[2])
    rails, next_rails = networks.fabric_addresses(group[-1]), networks.fabric_addresses(one)
    return (
        same_prefix
        and int(now[1].ip) == int(before[1].ip) + 1
        and len(rails) == len(next_rails)
        and all(
            int(IPAddress(new)) == int(IPAddress(old)) + 1
            for old, new in zip(rails, next_rails, strict=True)
        )
    )


def _group(
    group: Sequence[Seen],
    networks: Networks,
    roles: Roles,
    hardware: str,
    releases: Mapping[str, str],
    usual_release: str,
    missing: Sequence[str],
) -> Block:
    first, note = group[0], found_on(group)
    name = in_order([one.name for one in group])
    hosts = [one.host for one in group]
    parts: dict[Any, Value | Block] = {
        "name": checked(NodeGroup, "name", Value(name, note), "host name"),
        "role": Value("worker" if roles.is_worker(first) else "head", roles.why(first)),
        "hardware": Value(hardware),
    }
    address = networks.management(first)
    parts["management"] = (
        Value(str(address[1].ip), f"found on {first.name}, {address[0]}")
        if address
        else todo("management address", first.reason("describe.reached_at"))
    )
    other = networks.second(first)
    if networks.second_management and other is not None:
        parts["management_second"] = Value(str(other.ip), f"found on {first.name}")
    names = ("fabric", "fabric_second")
    for field, rail in zip(names, networks.fabric_addresses(first), strict=False):
        parts[field] = Value(rail, f"found on {first.name}")
    runs = roles.runs(first)
    if runs and not missing:
        parts["runs"] = Value(runs, f"found on {first.name}")
    elif missing:
        parts["runs"] = todo(
            f"a list of {', '.join([*runs, *missing])}, here or on another head",
            f"no node that was read runs {' or '.join(missing)}, which a cluster with Slurm needs",
        )
    if releases[first.host] not in ("", usual_release):
        parts["release"] = Value(releases[first.host], note)
    above = [] if hosts == [one.name for one in group] else [f"read as {', '.join(hosts)}"]
    if renamed := [one for one in group if one.named]:
        own = ", ".join(dict.fromkeys(str(one.get("os.hostname")) for one in renamed))
        above.append(f"set the host names of {named(renamed)}: {own} is not unique")
    return table(parts, *above)


def _lacking(services: Sequence[str]) -> Block:
    """Return a group for the node that runs services which no node that was read runs."""
    both = " and ".join(services)
    return table(
        {
            "name": todo(f"name of the head with {both}"),
            "role": Value("head"),
            "hardware": todo("hardware class of this head"),
            "management": todo("management address of this head"),
            "runs": Value(list(services)),
        },
        f"no node that was read runs {both}. Run lockstep describe with that node, too. If there "
        'is none, name here the head that is to run it: add it to "runs" of a node above, and '
        "remove this group.",
    )
