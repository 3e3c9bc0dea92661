"""A credential made on the controller can be decoded on every other node.

Why      It is what Slurm does with every message: key, clock and daemon in one test.
Blind    The way back, from the node to the controller.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules.munge_key import has_munge
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    controller = view.context.controller
    if view.is_controller:
        made = view.read("munge.credential")
        return {"": made if isinstance(made, Unread) else "Success"}
    if controller is None or isinstance(controller.read("munge.credential"), Unread):
        return {}  # one finding, on the controller (or its node.reachable)
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
    ),
    source="munge(7)",
)
