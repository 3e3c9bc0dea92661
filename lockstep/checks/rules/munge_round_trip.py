"""A credential made on the controller can be decoded on every other node.

Why      It is what Slurm does with every message: key, clock and daemon in one test.
Blind    The way back, from the node to the controller.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules.munge_key import has_munge
from lockstep.probe.record import Unread
from lockstep.spec import Service


def _look(view: View) -> Items:
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


RULE = Rule(
    id="munge.round_trip",
    title="a credential of the controller is good here",
    reading="munge.decoded",
    look=_look,
    expected=lambda view: "Success",
    applies=has_munge,
    owner="munge",
    repair="on {node}: systemctl restart munge (after a change of key or clock)",
    explained_by=(
        Cause("munge.key"),
        Cause("munge.key", on_controller=True),
        Cause("unit.active", device="munge.service"),
        Cause("unit.active", device="chrony.service"),
        Cause("time.*"),
        Cause("node.reachable", on_controller=True, only_unread=True),
        Cause("munge.round_trip", on_controller=True, only_unread=True),
    ),
    source="munge(7)",
)
