"""Rules about munge and the clock."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.cause import CONTROLLER, UNREAD, Cause
from lockstep.checks.compare import number
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    by_role,
)
from lockstep.checks.rule import (
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    at_most,
    same,
)
from lockstep.probe.record import Unread
from lockstep.spec import Service


def has_munge(view: View) -> bool:
    """Apply to the nodes of Slurm."""
    return "munge" in view.plan.capabilities


def _show(value: JsonValue) -> str:
    return "absent" if value == "absent" else f"a key (sha256 {str(value)[:12]})"


def _round_trip_items(view: View) -> Items:
    planned = view.plan.cluster.running(Service.SLURM_CONTROLLER)
    controller = view.context.controller
    if view.is_controller:
        made = view.read("munge.credential")
        return {"": made if isinstance(made, Unread) else "Success"}
    if planned is None:
        return {}
    if controller is None:
        return {"": Unread(unread=f"{planned.name}, the controller, gave no record")}
    made = controller.read("munge.credential")
    if isinstance(made, Unread):
        return {"": Unread(unread=f"on {planned.name}, the controller: {made.unread}")}
    return {"": view.read("munge.decoded")}


def follows(view: View) -> bool:
    """Apply to all nodes but the cluster's own reference."""
    return not view.plan.time.reference


def _milliseconds(value: JsonValue) -> str:
    return f"{number(value) * 1000:.3g} ms"


RULES = (
    Rule(
        id="munge.key",
        claim="All nodes have the cluster's munge key.",
        why="A node with another key cannot send or receive jobs.",
        blind="A key that changed after munged read it: munge.round_trip judges that.",
        source="munged(8)",
        reading="munge.key_sha256",
        expected=same(lambda view: view.context.munge_key_sha256),
        peers=Peers.OS,
        text=Text(_show),
        repair=by_role("munge"),
        applies=has_munge,
    ),
    Rule(
        id="munge.round_trip",
        claim="Every node can decode a munge credential of the controller.",
        why="Slurm does this with every message. It tests key, clock and daemon together.",
        blind="The direction from the node to the controller.",
        source="munge(7)",
        reading="munge.decoded",
        look=Look(_round_trip_items),
        expected=same("Success"),
        repair=by_role(
            "munge", "on {node}: systemctl restart munge (after a change of key or clock)"
        ),
        applies=has_munge,
        explained_by=(
            Cause("munge.key"),
            Cause("munge.key", at=CONTROLLER),
            Cause("unit.active", device="munge.service"),
            Cause("unit.active", device="chrony.service"),
            Cause("time.*"),
            Cause("node.reachable", at=CONTROLLER, of=UNREAD),
            Cause("munge.round_trip", at=CONTROLLER, of=UNREAD),
        ),
    ),
    Rule(
        id="time.offset",
        claim="The clock is close to its servers.",
        why="Operators compare times of one job on many nodes: logs, traces, accounting.",
        blind="Wrong servers, and the cluster's own reference, as with time.synchronised.",
        source="chronyc(1), tracking: system time",
        reading="time.offset_s",
        look=Look(pick=lambda value: abs(number(value))),
        kind=Kind.ABSOLUTE,
        expected=at_most(lambda view: view.plan.spec.time.max_offset_s),
        text=Text(_milliseconds),
        repair=by_role(
            "time_sync", "on {node}: chronyc sources; chronyc makestep once the node is idle"
        ),
        applies=follows,
        explained_by=(
            Cause("time.synchronised"),
            Cause("unit.active", device="chrony.service"),
            Cause("file.content", device="/etc/chrony/chrony.conf"),
        ),
    ),
    Rule(
        id="time.synchronised",
        claim="The clock is synchronised with its servers.",
        why="munge credentials live 300 s: a node whose clock drifts drops out of Slurm.",
        blind=(
            "Wrong servers. Servers that were lost in the last two hours (or ten update "
            "intervals); after that the clock counts as not synchronised. The cluster's own "
            "reference (the first head, if the description names no servers) has no server and "
            "is not judged."
        ),
        source="chronyc(1), tracking: leap status, reference time, update interval",
        reading="time.synchronised",
        expected=same(True),
        text=Text(lambda value: "synchronised" if value else "not synchronised"),
        repair=by_role("time_sync"),
        applies=follows,
        explained_by=(
            Cause("unit.active", device="chrony.service"),
            Cause("file.content", device="/etc/chrony/chrony.conf"),
        ),
    ),
)
