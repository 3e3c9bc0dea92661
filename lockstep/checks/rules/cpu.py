"""Rules about CPUs: model, firmware, clocks, idle states, NUMA."""

from __future__ import annotations

from functools import partial

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.looks import joined, made, part
from lockstep.checks.peer_settings import OTHER_KERNEL, OTHER_MACHINE
from lockstep.checks.rule import (
    WARNING,
    Cause,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    as_text,
    by_hand,
    each,
    same,
)
from lockstep.checks.rules.boot import own_kernel
from lockstep.plan.running import GOVERNOR
from lockstep.spec.names import cpulist, cpus

NONE = ""


def _planned(view: View) -> dict[str, JsonValue]:
    return {f"node{number}": listed for number, listed in enumerate(view.plan.hardware.cpu.numa)}


_numa_items = made(
    "numa.cpus",
    lambda view, seen: {
        **dict.fromkeys(_planned(view), NONE),
        **{f"node{number}": value for number, value in seen.items()},
    },
)


_alike = partial(Rule, kind=Kind.SLOTS, peers=Peers.CLASS)
"""Rules that compare CPU settings with those of the peers."""

RULES = (
    Rule(
        id="cpu.boost",
        claim="CPU boost has the same setting on all nodes of a hardware class.",
        why="Without boost, a core can be a third slower, and no error message shows it.",
        blind="Boost that the firmware has turned off without the driver reporting it.",
        source="kernel documentation, admin-guide/pm/intel_pstate (no_turbo), cpufreq (boost)",
        reading="cpu.frequency",
        look=Look(joined("cpu.frequency", "no_turbo", "boost")),
        peers=Peers.CLASS,
        text=Text(lambda value: f"no_turbo, boost: {value}"),
        repair=by_hand(
            "on {node}: find the program that wrote intel_pstate/no_turbo or cpufreq/boost "
            "(tuned, cpupower)"
        ),
        explained_by=(Cause("cpu.frequency_driver"), *OTHER_MACHINE),
    ),
    Rule(
        id="cpu.count",
        claim="Every node has as many CPUs as its hardware class declares.",
        why="If the firmware turns SMT off, a node loses half its CPUs without an error.",
        blind="Slower CPU models, which cpu.model finds.",
        source="kernel documentation, ABI/testing/sysfs-devices-system-cpu",
        reading="cpu.online",
        look=Look(pick=lambda online: len(cpus(str(online)))),
        expected=same(lambda view: view.plan.hardware.hardware.cpus),
        text=Text(lambda value: f"{value} CPUs"),
        repair=by_hand(
            "on {node}: check the firmware settings for threads and cores, and read "
            "/sys/devices/system/cpu/offline"
        ),
    ),
    Rule(
        id="cpu.energy_preference",
        claim="The CPU energy preference is the same on all nodes of a hardware class.",
        why="A CPU that is set to save energy runs at lower clocks, even under the same governor.",
        blind="CPUs whose driver has no energy preference.",
        source="kernel documentation, admin-guide/pm/intel_pstate",
        reading="cpu.frequency",
        look=Look(part("cpu.frequency", "energy_preference")),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: find out what set energy_performance_preference (for example tuned or a "
            "firmware setting)"
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
        why=(
            "A different driver has different governors and limits, so the same setting results in "
            "different clocks."
        ),
        blind="Clocks that the firmware controls, if no node of the class has a frequency driver.",
        source="kernel documentation, admin-guide/pm/cpufreq",
        reading="cpu.frequency",
        look=Look(part("cpu.frequency", "driver")),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "compare the power settings in the firmware of {node}, and intel_pstate= or "
            "amd_pstate= on its kernel command line, with those of its peers"
        ),
        explained_by=(*OTHER_KERNEL, *OTHER_MACHINE),
    ),
    _alike(
        id="cpu.frequency_limits",
        claim="CPU frequency limits are the same on all nodes of a hardware class.",
        why="A forgotten limit caps the clocks of a node under any governor.",
        blind="Limits that the firmware sets. Clocks under load.",
        source="kernel documentation, admin-guide/pm/cpufreq",
        reading="cpu.frequency",
        look=Look(part("cpu.frequency", "lowest", "highest")),
        repair=by_hand(
            "on {node}: find the program that wrote scaling_min_freq or scaling_max_freq (tuned, "
            "cpupower)"
        ),
        explained_by=(Cause("cpu.frequency_driver"), Cause("cpu.boost"), *OTHER_MACHINE),
    ),
    Rule(
        id="cpu.governor",
        claim="All CPUs of a hardware class use the same frequency governor.",
        why="A CPU that is slow to raise its clock delays its rank, and all other ranks wait.",
        blind="Whether the firmware follows the governor.",
        source="kernel documentation, admin-guide/pm/cpufreq",
        reading="cpu.frequency",
        look=Look(part("cpu.frequency", "governor")),
        peers=Peers.CLASS,
        repair=by_hand(
            "declare kernel.cpu_governor in the hardware class, or find the program that set the "
            "governor on {node} (tuned, cpupower)"
        ),
        explained_by=(
            Cause("kernel.setting", device=GOVERNOR),
            Cause("cpu.frequency_driver"),
            *OTHER_KERNEL,
        ),
    ),
    _alike(
        severity=WARNING,
        id="cpu.idle_states",
        claim="The same CPU idle states are enabled on all nodes of a hardware class.",
        why="A CPU takes tens of microseconds to wake up from a deep idle state.",
        blind="States that only some nodes have. States that the firmware enters on its own.",
        source="kernel documentation, admin-guide/pm/cpuidle",
        reading="cpu.idle_states",
        repair=by_hand(
            "on {node}: find the program that wrote cpuidle/state*/disable (tuned, cpupower "
            "idle-set)"
        ),
        explained_by=(Cause("kernel.max_cstate"), *OTHER_KERNEL, *OTHER_MACHINE),
    ),
    Rule(
        id="cpu.microcode",
        claim="The CPUs of a hardware class have the same microcode.",
        why=(
            "New microcode fixes security holes and can change a CPU's speed. A node that has not "
            "been rebooted is still running the old microcode."
        ),
        blind="Outdated microcode on all nodes.",
        source="proc_cpuinfo(5); kernel documentation, arch/x86/microcode",
        reading="cpu.microcode",
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: install the same microcode package as on its peers, then reboot {node} "
            "when it is idle"
        ),
        explained_by=OTHER_MACHINE,
    ),
    _alike(
        severity=WARNING,
        id="cpu.mitigations",
        claim="The kernel mitigates the same CPU vulnerabilities on all nodes of a hardware class.",
        why="Mitigations slow a CPU, so a node with different mitigations performs differently.",
        blind="Vulnerabilities that the kernel does not know about.",
        source="kernel documentation, admin-guide/hw-vuln",
        reading="cpu.mitigations",
        repair=by_hand(
            "compare mitigations= on the kernel command line and the microcode of {node} with "
            "those of its peers"
        ),
        explained_by=(Cause("cpu.microcode"), Cause("cpu.smt"), *OTHER_KERNEL, *OTHER_MACHINE),
    ),
    Rule(
        id="cpu.model",
        claim="All nodes of a hardware class have the same CPU model.",
        why="A slower CPU in one node delays a job at every synchronization point.",
        blind=(
            "CPU steppings. Different CPUs in the sockets of a node, if all nodes have the same "
            "mix."
        ),
        source="proc_cpuinfo(5)",
        reading="cpu.model",
        peers=Peers.CLASS,
        repair=by_hand(
            "move {node} to its own hardware class in the description, or replace its CPUs"
        ),
        explained_by=(Cause("platform.product"),),
    ),
    Rule(
        id="cpu.numa",
        claim="Each NUMA node has its planned CPUs.",
        why=(
            "Housekeeping CPUs, huge pages and the cores in gres.conf assume the planned NUMA "
            "layout. If the firmware divides the sockets differently, jobs are bound to CPUs far "
            "from their GPUs."
        ),
        blind="The memory and the GPUs of each NUMA node. Unplanned NUMA nodes without CPUs.",
        source="kernel documentation, ABI/stable/sysfs-devices-node",
        reading="numa.cpus",
        look=Look(_numa_items, pick=lambda value: cpulist(cpus(str(value)))),
        expected=each(
            lambda view: {
                **dict.fromkeys((node for node in _numa_items(view) if node), NONE),
                **_planned(view),
            }
        ),
        text=Text(lambda value: f"CPUs {value}" if value else "no CPUs"),
        repair=by_hand(
            "correct sockets, numa_nodes or cpu_numbering in the hardware class, or the "
            "firmware settings of {node} (nodes per socket, sub-NUMA clusters)"
        ),
        # A node without a kernel of its own has the NUMA nodes of its host.
        applies=own_kernel,
        explained_by=(Cause("cpu.count"),),
    ),
    _alike(
        id="cpu.power_limit",
        claim="CPU power limits are the same on all nodes of a hardware class.",
        why="A lower limit, set by the BMC or a tool, slows a node, but only under load.",
        blind=(
            "A limit that the BMC sets for the whole machine. Kernels without the powercap driver."
        ),
        source="kernel documentation, power/powercap/powercap",
        reading="cpu.power_limits",
        text=Text(
            lambda value: f"{value:g} W" if isinstance(value, int | float) else as_text(value)
        ),
        repair=by_hand(
            "on {node}: find out what changed the limit (BMC power policy, powercap-set, BIOS)"
        ),
        explained_by=OTHER_MACHINE,
    ),
    Rule(
        id="cpu.smt",
        claim="SMT (CPU threads) has the same setting on all nodes of a hardware class.",
        why="A node with a different SMT setting runs jobs at a different speed.",
        blind="Which CPU threads a job gets.",
        source="kernel documentation, ABI/testing/sysfs-devices-system-cpu (smt/control)",
        reading="cpu.smt",
        peers=Peers.CLASS,
        repair=by_hand(
            "compare nosmt on the kernel command line and the SMT setting in the firmware of "
            "{node} with those of its peers"
        ),
        explained_by=(Cause("cpu.count"), *OTHER_KERNEL, *OTHER_MACHINE),
    ),
    _alike(
        id="numa.distance",
        claim="NUMA distances are the same on all nodes of a hardware class.",
        why=(
            "Programs place memory by NUMA distance. A difference points to different firmware "
            "settings."
        ),
        blind="Distances that the firmware reports wrongly on all nodes.",
        source="kernel documentation, ABI/stable/sysfs-devices-node",
        reading="numa.distance",
        repair=by_hand(
            "compare the NUMA settings in the firmware of {node} (nodes per socket, sub-NUMA "
            "clusters) with those of its peers"
        ),
        explained_by=(Cause("cpu.numa"), *OTHER_MACHINE),
    ),
)
