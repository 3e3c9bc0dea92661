"""Each service runs on the housekeeping CPUs.

Why      One daemon that is left on a job's core delays one rank, and all others wait for it.
Blind    Services in which jobs begin: slurmd, which moves itself to the CPUs of CpuSpecList (where
         it has no control group, to all), and container engines. Threads that bind themselves
         elsewhere; containers outside of system.slice. Without cgroup controllers, services that
         started before the deploy and are not of the plan.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import DEPLOY, Cause, Rule
from lockstep.probe.record import Unread
from lockstep.spec.names import cpulist, cpus

READING = "cpuset.services"


def _judged(view: View) -> dict[str, JsonValue | Unread]:
    """Return the services that have processes; which of them should run is unit.active's part."""
    beyond = view.plan.job_parents
    found = {unit: cpus for unit, cpus in view.items(READING).items() if unit not in beyond}
    if view.plan.hardware.hardware.cgroup == "v2":
        return found
    return {unit: value for unit, value in found.items() if unit in (*view.plan.units, "")}


def _look(view: View) -> Items:
    items: Items = {}
    for unit, value in _judged(view).items():
        if isinstance(value, Unread):
            items[unit] = value
        elif cpus(str(value)) <= cpus(view.plan.hardware.cpu.housekeeping):
            items[unit] = view.plan.hardware.cpu.housekeeping
        else:
            items[unit] = cpulist(cpus(str(value)))
    return items


def _expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(_judged(view), view.plan.hardware.cpu.housekeeping)


RULE = Rule(
    id="cpuset.services",
    title="each service runs on the housekeeping CPUs",
    reading=READING,
    look=_look,
    expected_each=_expected,
    show=lambda value: f"CPUs {value}",
    applies=lambda view: bool(view.plan.hardware.cpu.housekeeping),
    owner="cpu_sets",
    repair=f"{DEPLOY}; if it stays, on {{node}}: systemctl restart {{device}}",
    explained_by=(
        Cause("file.content", device="/etc/systemd/system/service.d/50-lockstep-cpus.conf"),
        Cause("file.content", device="/etc/systemd/system.conf.d/50-lockstep-cpus.conf"),
        Cause("cpuset.housekeeping", device="services"),
    ),
    source="systemd.resource-control(5), AllowedCPUs=; systemd.exec(5), CPUAffinity=",
)
