"""Rules about which CPUs services, interrupts and jobs may use."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.cause import Cause
from lockstep.checks.context import Items, View, shared
from lockstep.checks.repair import (
    DEPLOY,
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Skip,
    Text,
    each,
    same,
)
from lockstep.checks.rules._boot import (
    STARTED_SO,
    own_kernel,
    planned_cpus,
    started_otherwise,
    waiting_argument,
)
from lockstep.plan.running import NEW_INTERRUPTS
from lockstep.probe.record import Unread
from lockstep.spec.names import cpulist, cpus


def _housekeeping_items(view: View) -> Items:
    items: Items = {"services": view.read("cpuset.manager")}
    # Machines without cgroup controllers (cgroup: none) have no cpusets.
    if view.plan.hardware.hardware.cgroup == "v2":
        items["logins"] = view.read("cpuset.user_slice")
    return items


def _judged(view: View) -> dict[str, JsonValue | Unread]:
    """Return the services that have processes; unit.active judges whether a service runs."""
    beyond = view.plan.job_parents
    found = {
        unit: cpus for unit, cpus in view.items("cpuset.services").items() if unit not in beyond
    }
    if view.plan.hardware.hardware.cgroup == "v2":
        return found
    return {unit: value for unit, value in found.items() if unit in (*view.plan.units, "")}


def _services_items(view: View) -> Items:
    items: Items = {}
    for unit, value in _judged(view).items():
        if isinstance(value, Unread):
            items[unit] = value
        elif cpus(str(value)) <= cpus(view.plan.hardware.cpu.housekeeping):
            items[unit] = view.plan.hardware.cpu.housekeeping
        else:
            items[unit] = cpulist(cpus(str(value)))
    return items


def _services_expected(view: View) -> dict[str, JsonValue]:
    return dict.fromkeys(_judged(view), view.plan.hardware.cpu.housekeeping)


NOT_JUDGED = (
    *("timer", "rtc", "hpet", "acpi", "cascade", "i8042", "dmar", "amd-vi", "pmi"),
    *("nvme", "virtio"),
)
"""How names of interrupts begin that no job depends on, or that the kernel itself spreads over all
CPUs (managed interrupts: they cannot be moved, and disks have another number at each boot)."""


HOUSEKEEPING = "housekeeping"


@shared("irq.affinity")
def _affinity_items(view: View) -> Items:
    allowed = cpus(view.plan.hardware.cpu.housekeeping)
    return {
        name: HOUSEKEEPING if isinstance(value, str) and cpus(value) <= allowed else value
        for name, value in view.items("irq.affinity").items()
        if not name.lower().startswith(NOT_JUDGED)
    }


def _booted_as_planned(view: View) -> bool:
    # Without housekeeping CPUs irqbalance moves them differently on each node.
    return (
        own_kernel(view)
        and bool(view.plan.hardware.cpu.housekeeping)
        and not started_otherwise(view, "irqaffinity", "isolcpus")
    )


RULES = (
    Rule(
        id="cpu.isolated",
        claim="The planned CPUs are isolated from the scheduler.",
        why=(
            "A CPU that is isolated by mistake is idle while threads wait. A planned one that "
            "is not isolated shares its core with other threads."
        ),
        blind="Threads that are bound to an isolated CPU.",
        source="kernel documentation, admin-guide/kernel-parameters (isolcpus=)",
        reading="cpu.isolated",
        expected=same(lambda view: planned_cpus(view, "domain")),
        text=Text(lambda value: f"CPUs {value}" if value else "no CPUs"),
        repair=waiting_argument("isolcpus"),
        tags=lambda view, device: started_otherwise(view, "isolcpus"),
        applies=own_kernel,
        explained_by=STARTED_SO,
    ),
    Rule(
        id="cpu.nohz_full",
        claim="The planned CPUs have no timer tick.",
        why=(
            "A tick interrupts a job hundreds of times a second. A CPU that lost its tick by "
            "mistake pays for it at each system call."
        ),
        blind="Ticks that stay because several threads share a CPU.",
        source="kernel documentation, timers/no_hz",
        reading="cpu.nohz_full",
        expected=same(lambda view: planned_cpus(view, "nohz_full")),
        text=Text(lambda value: f"CPUs {value}" if value else "no CPUs"),
        repair=waiting_argument("nohz_full"),
        tags=lambda view, device: started_otherwise(view, "nohz_full"),
        applies=own_kernel,
        explained_by=STARTED_SO,
    ),
    Rule(
        id="cpuset.housekeeping",
        claim="Services and logins run on the housekeeping CPUs only.",
        why="A daemon on a job's core delays one rank, and all others wait for it.",
        blind="A service that widens its own affinity, as slurmd does on purpose. Kernel threads.",
        source="systemd-system.conf(5), CPUAffinity=; systemd.resource-control(5), AllowedCPUs=",
        reading="cpuset",
        # No slice: no user is logged in.
        look=Look(_housekeeping_items, pick=lambda value: Skip.SKIP if value is None else value),
        expected=same(lambda view: view.plan.hardware.cpu.housekeeping),
        text=Text(lambda value: f"CPUs {value}"),
        repair=by_role(
            "cpu_sets",
            f"{DEPLOY}; then, for services that already run, reboot {{node}} when it is idle",
        ),
        applies=lambda view: bool(view.plan.hardware.cpu.housekeeping),
    ),
    Rule(
        id="cpuset.services",
        claim="Each service runs on the housekeeping CPUs.",
        why="One daemon on a job's core delays one rank, and all others wait for it.",
        blind=(
            "Services that start jobs: container engines, and slurmd, which moves itself to "
            "the CPUs of CpuSpecList (without a control group to all CPUs). Threads that bind "
            "themselves elsewhere. Containers outside of system.slice. Without cgroup "
            "controllers: unplanned services that started before the deploy."
        ),
        source="systemd.resource-control(5), AllowedCPUs=; systemd.exec(5), CPUAffinity=",
        reading="cpuset.services",
        look=Look(_services_items),
        expected=each(_services_expected),
        text=Text(lambda value: f"CPUs {value}"),
        repair=by_role(
            "cpu_sets", f"{DEPLOY}; if it stays, on {{node}}: systemctl restart {{device}}"
        ),
        applies=lambda view: bool(view.plan.hardware.cpu.housekeeping),
        explained_by=(
            Cause("file.content", device="/etc/systemd/system/service.d/50-lockstep-cpus.conf"),
            Cause("file.content", device="/etc/systemd/system.conf.d/50-lockstep-cpus.conf"),
            Cause("cpuset.housekeeping", device="services"),
        ),
    ),
    Rule(
        id="irq.affinity",
        claim="An interrupt may run on the same CPUs on every node of a hardware class.",
        why=(
            "A network queue whose interrupts moved to a job's CPU, or to the far socket, "
            "slows the node under load only."
        ),
        blind=(
            "The same wrong affinity on all nodes. Interrupts of one node only, and those of "
            "NVMe disks, which the kernel manages. The CPU among the housekeeping CPUs. A node "
            "that waits for a reboot is not compared, because other kernel arguments spread "
            "its interrupts."
        ),
        source="kernel documentation, core-api/irq/irq-affinity",
        reading="irq.affinity",
        look=Look(_affinity_items),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(lambda value: f"CPUs {value}"),
        severity=WARNING,
        repair=by_hand(
            peers=(
                "on {node}: find what moved it (irqbalance, a script of the driver), then "
                "write the CPU list of the peers to smp_affinity_list of the interrupt "
                "{device} in /proc/irq"
            )
        ),
        applies=_booted_as_planned,
        explained_by=(
            Cause("unit.masked", device="irqbalance.service"),
            Cause("kernel.setting", device=NEW_INTERRUPTS),
            Cause("file.content", device="/etc/tmpfiles.d/50-lockstep-cpus.conf"),
        ),
    ),
)
