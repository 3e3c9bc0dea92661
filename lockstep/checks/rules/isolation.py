"""Rules about which CPUs services, interrupts and jobs may use."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.context import Items, View, shared
from lockstep.checks.rule import (
    DEPLOY,
    WARNING,
    Cause,
    Kind,
    Look,
    Peers,
    Rule,
    Skip,
    Text,
    by_hand,
    by_role,
    each,
    same,
)
from lockstep.checks.rules.boot import (
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
    # Machines without cgroup controllers (cgroup: none) have no cpusets.
    has_slices = view.plan.hardware.hardware.cgroup == "v2"
    logins = {"logins": view.read("cpuset.user_slice")} if has_slices else {}
    return {"services": view.read("cpuset.manager"), **logins}


def _judged(view: View) -> Items:
    """Return the CPUs used by each service that must stay on the housekeeping CPUs.

    A service without processes has no reading; unit.active checks whether a service is running.
    """
    planned_only = view.plan.hardware.hardware.cgroup != "v2"
    return {
        unit: used
        for unit, used in view.items("cpuset.services").items()
        if unit not in view.plan.system.job_parents
        and not (planned_only and unit and unit not in view.plan.system.units)
    }


def _services_items(view: View) -> Items:
    housekeeping = view.plan.hardware.cpu.housekeeping

    def shown(used: JsonValue) -> str:
        right = cpus(str(used)) <= cpus(housekeeping)
        return housekeeping if right else cpulist(cpus(str(used)))

    return {
        unit: used if isinstance(used, Unread) else shown(used)
        for unit, used in _judged(view).items()
    }


NOT_JUDGED = (
    *("timer", "rtc", "hpet", "acpi", "cascade", "i8042", "dmar", "amd-vi", "pmi"),
    *("nvme", "virtio"),
)
"""Name prefixes of the interrupts that the rule skips. No job depends on most of them. Disk
interrupts (nvme, virtio) are spread over all CPUs by the kernel and cannot be moved; their numbers
also change at each boot."""


def _affinity_items(view: View) -> Items:
    allowed = cpus(view.plan.hardware.cpu.housekeeping)
    return {
        name: "housekeeping" if isinstance(value, str) and cpus(value) <= allowed else value
        for name, value in view.items("irq.affinity").items()
        if not name.lower().startswith(NOT_JUDGED)
    }


RULES = (
    Rule(
        id="cpu.isolated",
        claim="Exactly the planned CPUs are isolated from the scheduler.",
        why=(
            "A CPU that is isolated by mistake stays idle while threads wait. If a planned CPU is "
            "not isolated, the scheduler also runs other threads on it."
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
        claim="Exactly the planned CPUs run without a timer tick.",
        why=(
            "A tick interrupts a job hundreds of times a second. On a CPU that is tickless by "
            "mistake, each system call takes longer."
        ),
        blind="Ticks that remain because several threads share a CPU.",
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
        claim="Services and login sessions run only on the housekeeping CPUs.",
        why="A daemon on a job's core delays one rank, and all other ranks wait.",
        blind="Services that change their own affinity, as slurmd does on purpose. Kernel threads.",
        source="systemd-system.conf(5), CPUAffinity=; systemd.resource-control(5), AllowedCPUs=",
        reading="cpuset",
        # The slice exists only while a user is logged in.
        look=Look(_housekeeping_items, pick=lambda value: Skip.SKIP if value is None else value),
        expected=same(lambda view: view.plan.hardware.cpu.housekeeping),
        text=Text(lambda value: f"CPUs {value}"),
        repair=by_role(
            "cpu_sets",
            (
                f"{DEPLOY}; then, for services that are already running, reboot {{node}} when it "
                "is idle"
            ),
        ),
        applies=lambda view: bool(view.plan.hardware.cpu.housekeeping),
    ),
    Rule(
        id="cpuset.services",
        claim="Each service runs only on the housekeeping CPUs.",
        why="One daemon on a job's core delays one rank, and all other ranks wait.",
        blind=(
            "Services that start jobs: container engines, and slurmd, which moves itself to the "
            "CPUs of CpuSpecList (without cgroups, to all CPUs). Threads that bind themselves to "
            "other CPUs. Containers outside system.slice. On machines without cgroup controllers, "
            "unplanned services that started before the deploy."
        ),
        source="systemd.resource-control(5), AllowedCPUs=; systemd.exec(5), CPUAffinity=",
        reading="cpuset.services",
        look=Look(_services_items),
        expected=each(
            lambda view: dict.fromkeys(_judged(view), view.plan.hardware.cpu.housekeeping)
        ),
        text=Text(lambda value: f"CPUs {value}"),
        repair=by_role(
            "cpu_sets",
            f"{DEPLOY}; if the finding remains, run systemctl restart {{device}} on {{node}}",
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
        claim="Each interrupt has the same CPU affinity on all nodes of a hardware class.",
        why=(
            "If a network queue's interrupts move to a job's CPU or to the other socket, the node "
            "slows down, but only under load."
        ),
        blind=(
            "The same wrong affinity on all nodes. Interrupts that only one node has, and "
            "interrupts of NVMe disks, which the kernel manages. Which housekeeping CPU handles an "
            "interrupt. Nodes whose new kernel arguments take effect only after a reboot."
        ),
        source="kernel documentation, core-api/irq/irq-affinity",
        reading="irq.affinity",
        look=Look(shared(_affinity_items, "irq.affinity")),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(lambda value: f"CPUs {value}"),
        severity=WARNING,
        repair=by_hand(
            peers=(
                "on {node}: find out what moved the interrupt {device} (irqbalance, a driver "
                "script), then write its peers' CPU list to the interrupt's smp_affinity_list "
                "file in /proc/irq"
            )
        ),
        # Without housekeeping CPUs irqbalance moves interrupts differently on each node.
        applies=lambda view: (
            own_kernel(view)
            and bool(view.plan.hardware.cpu.housekeeping)
            and not started_otherwise(view, "irqaffinity", "isolcpus")
        ),
        explained_by=(
            Cause("unit.masked", device="irqbalance.service"),
            Cause("kernel.setting", device=NEW_INTERRUPTS),
            Cause("file.content", device="/etc/tmpfiles.d/50-lockstep-cpus.conf"),
        ),
    ),
)
