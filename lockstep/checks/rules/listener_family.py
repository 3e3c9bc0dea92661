"""Every service that others need listens on the management network, in its address family.

Why      A daemon that listens on IPv4 alone is up, and nobody on an IPv6 network reaches it.
Blind    Packet filters on the way. On an IPv4 network, a socket on :: that takes IPv6 only.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.plan import owners
from lockstep.probe.record import Unread

READING = "listeners"
CONFIGURED_BY = {
    # Unit -> files that say where it listens.
    "ssh.service": (),
    "chrony.service": ("/etc/chrony/chrony.conf", "/etc/default/chrony"),
    "prometheus-node-exporter.service": ("/etc/default/prometheus-node-exporter",),
    "nvidia-dcgm-exporter.service": (
        "/etc/systemd/system/nvidia-dcgm-exporter.service.d/50-lockstep.conf",
    ),
    "prometheus.service": ("/etc/default/prometheus",),
    "slurmdbd.service": ("/etc/slurm/slurmdbd.conf",),
    "slurmctld.service": ("/etc/slurm/slurm.conf",),
    "slurmd.service": ("/etc/slurm/slurm.conf", "/etc/default/slurmd"),
}
CLOSED_BY_ITSELF = "ssh.service"
"""No unit of the plan: without it the node gives no record at all."""


def _units(view: View) -> dict[str, str]:
    return {f"{one.protocol}/{one.port}": one.unit for one in view.plan.listeners}


def _reached_by(view: View) -> tuple[str, ...]:
    """Return the addresses of sockets that the management address leads to."""
    # A socket on :: takes IPv4 as well, unless it says otherwise (ipv6(7), IPV6_V6ONLY).
    every = ("::",) if view.plan.address_family == "ipv6" else ("0.0.0.0", "::")
    return (*every, view.plan.address)


def _expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(_units(view), " or ".join(_reached_by(view)))


def _look(view: View) -> Items:
    items: Items = {}
    for port, found in view.items(READING).items():
        if isinstance(found, Unread):
            items[port] = found
            continue
        addresses = [str(address) for address in found] if isinstance(found, list) else []
        reached = not set(_reached_by(view)).isdisjoint(addresses)
        here = ", ".join(addresses) or "nobody listens"
        items[port] = _expected(view).get(port) if reached else here
    return items


RULE = Rule(
    id="listener.family",
    title="services listen in the address family of the network",
    reading=READING,
    look=_look,
    expected_each=_expected,
    detail=lambda view, port: f"port of {_units(view)[port]}",
    grounds=lambda view, port: frozenset({_units(view)[port]}),
    owner="the role of the unit",
    roles=lambda view, port: owners.of_unit(view.plan, _units(view)[port]),
    explained_by=(
        *(
            Cause("file.content", device=file, grounds=unit)
            for unit, files in CONFIGURED_BY.items()
            for file in files
        ),
        *(
            Cause("unit.active", device=unit, grounds=unit)
            for unit in CONFIGURED_BY
            if unit != CLOSED_BY_ITSELF
        ),
        Cause(
            "file.content",
            device="/etc/slurm/slurm.conf",
            on_controller=True,
            grounds="slurmd.service",
        ),
        Cause("slurm.conf", grounds="slurmd.service"),
    ),
    source="ipv6(7)",
)
