"""What the rules about Slurm share."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause
from lockstep.probe.record import Unread
from lockstep.spec import Role, Service

READING = "slurm.nodes"


def not_asked(rule: str) -> tuple[Cause, ...]:
    """Return why the controller said nothing of a node; ``rule`` is the one that missed it."""
    return (
        Cause("node.reachable", on_controller=True, only_unread=True),
        Cause("unit.active", device="slurmctld.service", on_controller=True, only_unread=True),
        Cause(rule, on_controller=True, only_unread=True),
    )


def concerned(view: View) -> bool:
    """Apply to the workers, and to the controller, which is asked about them."""
    return view.plan.spec.scheduler is not None and (
        view.plan.role is Role.WORKER or view.is_controller
    )


def has_pyxis(view: View) -> bool:
    """Apply where Slurm's jobs start in containers."""
    return "pyxis" in view.plan.capabilities


def seen_by_slurm(view: View) -> JsonValue | Unread | None:
    """Return the controller's entry of a worker; None for another node."""
    planned = view.plan.cluster.running(Service.SLURM_CONTROLLER)
    if planned is None or view.plan.role is not Role.WORKER:
        return None
    controller = view.context.controller
    if controller is None:
        return Unread(unread=f"{planned.name}, the controller, gave no record")
    nodes = controller.read(READING)
    if isinstance(nodes, Unread):
        return Unread(unread=f"on {planned.name}, the controller: {nodes.unread}")
    entry = controller.record.entry(READING, view.plan.name)
    return Unread(unread="the controller does not know the node") if entry is None else entry


def unread_at_controller(view: View) -> Items:
    """Return one unread item on the controller when it could not be asked at all."""
    nodes = view.read(READING) if view.is_controller else None
    return {"": nodes} if isinstance(nodes, Unread) else {}
