"""Rules about CPUs: model, firmware, clocks, idle states, NUMA."""

from __future__ import annotations

from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import Cause
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    by_hand,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    as_text,
    each,
    same,
)
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE, joined, part
from lockstep.plan.running import GOVERNOR
from lockstep.spec.names import cpulist, cpus


def _boost_words(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    return f"no_turbo, boost: {found}", f"no_turbo, boost: {expected}"


def _count(online: JsonValue) -> JsonValue:
    return len(cpus(str(online)))


NONE = ""


def _numa_items(view: View) -> Items:
    seen = view.items("numa.cpus")
    if "" in seen:
        return seen
    planned = dict.fromkeys(_planned(view), NONE)
    return {**planned, **{f"node{number}": value for number, value in seen.items()}}


def _planned(view: View) -> dict[str, JsonValue]:
    return {f"node{number}": listed for number, listed in enumerate(view.plan.hardware.cpu.numa)}


def _numa_expected(view: View) -> dict[str, JsonValue]:
    return {**dict.fromkeys((node for node in _numa_items(view) if node), NONE), **_planned(view)}


_alike = partial(Rule, kind=Kind.SLOTS, peers=Peers.CLASS)
"""CPU settings that are compared with the peers."""

_alike_warning = partial(Rule, kind=Kind.SLOTS, peers=Peers.CLASS, severity=WARNING)
"""The same, for settings with little effect."""

RULES = (
    Rule(
        id="cpu.boost",
        claim="CPU boost is equal in a hardware class.",
        why="Without boost a core is a third slower, without any message.",
        blind="Boost that the firmware forbids: the driver then shows other limits.",
        source="kernel documentation, admin-guide/pm/intel_pstate (no_turbo), cpufreq (boost)",
        reading="cpu.frequency",
        look=Look(joined("cpu.frequency", "no_turbo", "boost")),
        peers=Peers.CLASS,
        text=Text(words=_boost_words),
        repair=by_hand(
            "on {node}: find what wrote intel_pstate/no_turbo or cpufreq/boost (tuned, cpupower)"
        ),
        explained_by=(Cause("cpu.frequency_driver"), *OTHER_MACHINE),
    ),
    Rule(
        id="cpu.count",
        claim="Every node has the CPUs of its hardware class.",
        why="If the firmware switches threads off, a node loses half its speed without an error.",
        blind="Slower CPUs in the same number.",
        source="kernel documentation, ABI/testing/sysfs-devices-system-cpu",
        reading="cpu.online",
        look=Look(pick=_count),
        expected=same(lambda view: view.plan.hardware.hardware.cpus),
        text=Text(lambda value: f"{value} CPUs"),
        repair=by_hand(
            "on {node}: check threads and cores in the firmware, and "
            "/sys/devices/system/cpu/offline"
        ),
    ),
    Rule(
        id="cpu.energy_preference",
        claim="The CPU energy preference is equal in a hardware class.",
        why="A CPU that should save energy clocks lower under the same governor.",
        blind="CPUs whose driver has no such preference.",
        source="kernel documentation, admin-guide/pm/intel_pstate",
        reading="cpu.frequency",
        look=Look(part("cpu.frequency", "energy_preference")),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: find what set energy_performance_preference (tuned, the firmware)"
        ),
        explained_by=(
            Cause("cpu.frequency_driver"),
            Cause("cpu.governor"),
            Cause("kernel.setting", device=GOVERNOR),
            *OTHER_KERNEL,
        ),
    ),
    Rule(
        id="cpu.frequency_driver",
        claim="All nodes of a hardware class use the same CPU frequency driver.",
        why="Another driver has other governors and limits: the same setting gives other clocks.",
        blind="Clocks that the firmware controls without a driver, on all nodes.",
        source="kernel documentation, admin-guide/pm/cpufreq",
        reading="cpu.frequency",
        look=Look(part("cpu.frequency", "driver")),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: compare the firmware's power settings and intel_pstate= or "
            "amd_pstate= on the kernel command line"
        ),
        explained_by=(*OTHER_KERNEL, *OTHER_MACHINE),
    ),
    _alike(
        id="cpu.frequency_limits",
        claim="CPU frequency limits are equal in a hardware class.",
        why="A forgotten limit caps a node under any governor.",
        blind="Limits of the firmware. Clocks under load.",
        source="kernel documentation, admin-guide/pm/cpufreq",
        reading="cpu.frequency",
        look=Look(part("cpu.frequency", "lowest", "highest")),
        repair=by_hand(
            "on {node}: find what wrote scaling_min_freq or scaling_max_freq (tuned, cpupower)"
        ),
        explained_by=(Cause("cpu.frequency_driver"), Cause("cpu.boost"), *OTHER_MACHINE),
    ),
    Rule(
        id="cpu.governor",
        claim="All CPUs of a hardware class have one governor.",
        why="A CPU that raises its clock late delays its rank, and all ranks wait.",
        blind="How the firmware follows the governor.",
        source="kernel documentation, admin-guide/pm/cpufreq",
        reading="cpu.frequency",
        look=Look(part("cpu.frequency", "governor")),
        peers=Peers.CLASS,
        repair=by_hand(
            "declare kernel.cpu_governor of the hardware class, or find what set it on "
            "{node} (tuned, cpupower)"
        ),
        explained_by=(
            Cause("kernel.setting", device=GOVERNOR),
            Cause("cpu.frequency_driver"),
            *OTHER_KERNEL,
        ),
    ),
    _alike_warning(
        id="cpu.idle_states",
        claim="The same CPU idle states are enabled in a hardware class.",
        why="A deep idle state costs a node tens of microseconds at each wake-up.",
        blind="States that only some nodes have. What the firmware does below these states.",
        source="kernel documentation, admin-guide/pm/cpuidle",
        reading="cpu.idle_states",
        repair=by_hand(
            "on {node}: find what wrote cpuidle/state*/disable (tuned, cpupower idle-set)"
        ),
        explained_by=(Cause("kernel.max_cstate"), *OTHER_KERNEL, *OTHER_MACHINE),
    ),
    Rule(
        id="cpu.microcode",
        claim="The CPUs of a hardware class have the same microcode.",
        why=(
            "Microcode changes speed and fixes security holes. A node that was not rebooted "
            "has the old one."
        ),
        blind="Microcode that is old on all nodes.",
        source="proc_cpuinfo(5); kernel documentation, arch/x86/microcode",
        reading="cpu.microcode",
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: install the microcode package of its peers, then reboot it when it is idle"
        ),
        explained_by=OTHER_MACHINE,
    ),
    _alike_warning(
        id="cpu.mitigations",
        claim="The kernel mitigates the same CPU vulnerabilities in a hardware class.",
        why="Mitigations cost speed: a node with fewer or more of them runs at another speed.",
        blind="Vulnerabilities that this kernel does not know.",
        source="kernel documentation, admin-guide/hw-vuln",
        reading="cpu.mitigations",
        repair=by_hand(
            "on {node}: compare mitigations= on the kernel command line and the microcode"
        ),
        explained_by=(Cause("cpu.microcode"), Cause("cpu.smt"), *OTHER_KERNEL, *OTHER_MACHINE),
    ),
    Rule(
        id="cpu.model",
        claim="The CPUs of a hardware class are of one model.",
        why="A slower CPU in one node slows every common step of a job.",
        blind="Steppings. Different CPUs in the sockets of a node, where all nodes are equal.",
        source="proc_cpuinfo(5)",
        reading="cpu.model",
        peers=Peers.CLASS,
        repair=by_hand(
            "give {node} a hardware class of its own in the description, or replace its CPUs"
        ),
        explained_by=(Cause("platform.product"),),
    ),
    Rule(
        id="cpu.numa",
        claim="Each NUMA node has its planned CPUs.",
        why=(
            "Housekeeping CPUs, huge pages and the cores of gres.conf follow the plan. If the "
            "firmware divides the sockets in another way, jobs are bound to the wrong side of "
            "a GPU."
        ),
        blind="Which memory and GPUs a NUMA node has. NUMA nodes without CPUs.",
        source="kernel documentation, ABI/stable/sysfs-devices-node",
        reading="numa.cpus",
        look=Look(_numa_items, pick=lambda value: cpulist(cpus(str(value)))),
        expected=each(_numa_expected),
        text=Text(lambda value: f"CPUs {value}" if value else "no CPUs"),
        repair=by_hand(
            "correct sockets, numa_nodes or cpu_numbering of the hardware class, or the "
            "firmware settings of {node} (nodes per socket, sub-NUMA clusters)"
        ),
        # Without a kernel of its own a node has the NUMA nodes of its host.
        applies=own_kernel,
        explained_by=(Cause("cpu.count"),),
    ),
    _alike(
        id="cpu.power_limit",
        claim="CPU power limits are equal in a hardware class.",
        why="A lower limit, set by the BMC or a tool, slows a node under load only.",
        blind="A limit of the whole machine inside the BMC. Kernels without the powercap driver.",
        source="kernel documentation, power/powercap/powercap",
        reading="cpu.power_limits",
        text=Text(
            lambda value: f"{value:g} W" if isinstance(value, int | float) else as_text(value)
        ),
        repair=by_hand(
            "on {node}: find what lowered it (power policy of the BMC, powercap-set, the BIOS)"
        ),
        explained_by=OTHER_MACHINE,
    ),
    Rule(
        id="cpu.smt",
        claim="CPU threads (SMT) are on or off on all nodes of a hardware class.",
        why="With other threads a node computes at another speed.",
        blind="Which threads a job gets.",
        source="kernel documentation, ABI/testing/sysfs-devices-system-cpu (smt/control)",
        reading="cpu.smt",
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: compare nosmt on the kernel command line and the firmware's setting"
        ),
        explained_by=(Cause("cpu.count"), *OTHER_KERNEL, *OTHER_MACHINE),
    ),
    _alike(
        id="numa.distance",
        claim="NUMA distances are equal in a hardware class.",
        why="Programs place memory by them. Other distances mean another firmware setting.",
        blind="Wrong distances from the firmware on all nodes.",
        source="kernel documentation, ABI/stable/sysfs-devices-node",
        reading="numa.distance",
        repair=by_hand(
            "compare the firmware settings of {node} (nodes per socket, sub-NUMA clusters)"
        ),
        explained_by=(Cause("cpu.numa"), *OTHER_MACHINE),
    ),
)
