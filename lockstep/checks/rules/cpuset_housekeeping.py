"""Services and logins stay on the housekeeping CPUs.

Why      A daemon on a job's core delays one rank, and all others wait for it.
Blind    A service that widens its own affinity, as slurmd does on purpose; kernel threads.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import DEPLOY, Rule, Skip


def _look(view: View) -> Items:
    items: Items = {"services": view.read("cpuset.manager")}
    # Machines without cgroup controllers (cgroup: none in the spec) have no cpusets.
    if view.plan.hardware.hardware.cgroup == "v2":
        items["logins"] = view.read("cpuset.user_slice")
    return items


RULE = Rule(
    id="cpuset.housekeeping",
    title="services and logins stay on the housekeeping CPUs",
    reading="cpuset",
    look=_look,
    # No slice: nobody is logged in, so nobody is on a job's CPU.
    pick=lambda value: Skip.SKIP if value is None else value,
    expected=lambda view: view.plan.hardware.cpu.housekeeping,
    show=lambda value: f"CPUs {value}",
    applies=lambda view: bool(view.plan.hardware.cpu.housekeeping),
    owner="cpu_sets",
    repair=f"{DEPLOY}; then, for services that already run, reboot {{node}} when it is idle",
    source="systemd-system.conf(5), CPUAffinity=; systemd.resource-control(5), AllowedCPUs=",
)
