"""Containers may run on every CPU of the node.

Why      Engines start containers from a service: one that is held to the housekeeping CPUs holds
         its containers there, and they set the pace of the job.
Blind    Limits that a job sets itself; Podman: its containers have the CPUs of whoever starts them.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._container import UNREAD_WITH_DEVICES, asked, part
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    return {
        engine: cpus
        for engine, cpus in part(view, "cpus").items()
        if f"{engine}.service" in view.plan.job_parents or isinstance(cpus, Unread)
    }


RULE = Rule(
    id="container.cpus",
    title="containers may run on every CPU",
    reading="containers",
    look=_look,
    expected=lambda view: view.plan.hardware.cpu.all,
    applies=asked,
    show=lambda value: f"CPUs {value}",
    repair="compare `systemctl show {device}` on {node} with its drop-in, and restart {device}",
    owner="container_runtime",
    explained_by=(Cause("cpu.count"), Cause("cpuset.services"), UNREAD_WITH_DEVICES),
    source="proc_pid_status(5), Cpus_allowed_list; measured: a report on explicit cpusets",
)
