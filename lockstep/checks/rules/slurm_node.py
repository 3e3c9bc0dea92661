"""Slurm knows each worker as the plan describes it.

Why      A node that Slurm thinks smaller is partly idle; one it thinks larger fails its jobs.
Blind    What the controller would learn only after a restart.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._slurm import (
    READING,
    concerned,
    not_asked,
    seen_by_slurm,
    unread_at_controller,
)
from lockstep.probe.record import MISSING, Unread
from lockstep.spec import Role

KEYS = {
    "CPUs": "cpus",
    "RealMemory": "real_memory",
    "Gres": "gres",
    "CpuSpecList": "cpu_spec_list",
}


def _look(view: View) -> Items:
    entry = seen_by_slurm(view)
    if isinstance(entry, Unread):
        return {"": entry}
    if isinstance(entry, dict):
        return {shown: entry.get(key, MISSING) for shown, key in KEYS.items()}
    return unread_at_controller(view)


def _expected(view: View) -> dict[str, JsonValue]:
    if view.plan.role is not Role.WORKER or seen_by_slurm(view) is None:
        return {}
    plan = view.plan.hardware.slurm
    return {
        "CPUs": plan.cpus,
        "RealMemory": plan.real_memory_mib,
        "Gres": plan.gres,
        "CpuSpecList": plan.cpu_spec_list,
    }


RULE = Rule(
    id="slurm.node",
    title="Slurm knows the node as planned",
    reading=READING,
    look=_look,
    expected_each=_expected,
    applies=concerned,
    owner="slurm_controller",
    repair="pyinfra -y {inventory} deploys/head.py, then scontrol reconfigure on the controller",
    explained_by=(
        *not_asked("slurm.node"),
        Cause("file.content", device="/etc/slurm/slurm.conf", on_controller=True),
        Cause("file.content", device="/etc/slurm/gres.conf", on_controller=True),
    ),
    source="scontrol(1), show node",
)
