"""Processors: model, clocks, idle states, isolation, interrupts, NUMA."""

from __future__ import annotations

import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, counted, each, one
from lockstep.node.readers.tree import below, exists, found_by, line_of, number_of, said, text_of

CPU = "/sys/devices/system/cpu"
CPU0_IDLE = CPU + "/cpu0/cpuidle"


def read_cpus(request: Request, commands: Commands) -> Readings:
    """CPUs in use and where they sit."""
    nodes = {}
    for path in found_by("/sys/devices/system/node/node[0-9]*/cpulist"):
        number = os.path.basename(os.path.dirname(path))[len("node") :]
        nodes[number] = text_of(path).strip()
    return {
        "cpu.online": text_of("/sys/devices/system/cpu/online").strip(),
        "numa.cpus": nodes or Unread("/sys/devices/system/node: no NUMA node"),
    }


def read_distances(request: Request, commands: Commands) -> Readings:
    """How far each NUMA node is from the others."""
    top = "/sys/devices/system/node"
    nodes = [name for name in below(top) if re.fullmatch(r"node\d+", name)]
    return {"numa.distance": each(nodes, lambda node: line_of(f"{top}/{node}/distance"))}


def read_processors(request: Request, commands: Commands) -> Readings:
    """Model, microcode, threads and what the kernel does against each weakness of the CPUs."""
    text = text_of("/proc/cpuinfo")
    weak = below(CPU + "/vulnerabilities")
    return {
        "cpu.model": counted(re.findall(r"^(?:model name|CPU part)\s*: (.*)$", text, re.M)),
        "cpu.microcode": counted(re.findall(r"^microcode\s*: (\S+)$", text, re.M)),
        "cpu.smt": said(CPU + "/smt/control"),
        "cpu.mitigations": each(weak, lambda name: line_of(f"{CPU}/vulnerabilities/{name}")),
    }


def read_frequency(request: Request, commands: Commands) -> Readings:
    """How the clocks of the CPUs are driven: one text for all of them."""
    policy = CPU + "/cpufreq/policy*/"

    def limit(which: str) -> str:
        paths = found_by(f"{policy}scaling_{which}_freq")
        own = [path.replace("/scaling_", "/cpuinfo_") for path in paths]
        pairs = [(line_of(path), line_of(own[index])) for index, path in enumerate(paths)]
        return counted(["of the CPU" if now == most else f"{now} kHz" for now, most in pairs])

    def lines(pattern: str) -> str:
        return counted([line_of(path) for path in found_by(pattern)])

    return {
        "cpu.frequency": {
            "driver": one(lines, policy + "scaling_driver"),
            "governor": one(lines, policy + "scaling_governor"),
            "energy_preference": one(lines, policy + "energy_performance_preference"),
            "lowest": one(limit, "min"),
            "highest": one(limit, "max"),
            "no_turbo": one(lines, CPU + "/intel_pstate/no_turbo"),
            "boost": one(lines, CPU + "/cpufreq/boost"),
        }
    }


def read_idle_states(request: Request, commands: Commands) -> Readings:
    """Idle states of the CPUs by name: enabled, disabled, or on how many of them."""
    words = {"0": "enabled", "1": "disabled"}

    def state(folder: str) -> str:
        flags = [line_of(path) for path in found_by(f"{CPU}/cpu[0-9]*/cpuidle/{folder}/disable")]
        return counted([words.get(flag, flag) for flag in flags])

    names = {folder: line_of(f"{CPU}/cpu0/cpuidle/{folder}/name") for folder in below(CPU0_IDLE)}
    return {"cpu.idle_states": {name: one(state, folder) for folder, name in names.items()}}


def read_max_cstate(request: Request, commands: Commands) -> Readings:
    """Deepest idle state that the driver of idle states may use."""
    path = "/sys/module/{}/parameters/max_cstate"
    for module in ("intel_idle", "processor"):
        if exists(path.format(module)):
            return {"kernel.max_cstate": number_of(path.format(module))}
    raise Unread("/sys/module: neither intel_idle nor processor has a parameter max_cstate")


def read_power_limits(request: Request, commands: Commands) -> Readings:
    """Watts that each package of CPUs may draw, by the kind of limit."""
    limits: dict[str, Any] = {}
    for path in found_by("/sys/class/powercap/intel-rapl:*/constraint_*_power_limit_uw"):
        kind = path.replace("_power_limit_uw", "_name")
        zone = line_of(os.path.dirname(path) + "/name")
        limits[f"{zone} {line_of(kind)}"] = number_of(path) / 1e6
    return {"cpu.power_limits": limits}


def read_isolation(request: Request, commands: Commands) -> Readings:
    """CPUs that the kernel took out of load balancing, and those without a tick; "" for none."""
    folder = "/sys/devices/system/cpu"
    isolated = line_of(folder + "/isolated")
    # A kernel that was built without full dynticks has no such file, and no such CPU.
    no_tick = line_of(folder + "/nohz_full") if "nohz_full" in below(folder) else ""
    return {"cpu.isolated": isolated, "cpu.nohz_full": "" if no_tick == "(null)" else no_tick}


def read_interrupts(request: Request, commands: Commands) -> Readings:
    """CPUs that each interrupt may run on, by the name of what raises it."""
    numbers = sorted(int(name) for name in below("/proc/irq") if name.isdigit())
    if not numbers:
        raise Unread("/proc/irq: no interrupt")
    affinity: dict[str, Any] = {}
    times: dict[str, int] = {}
    for number in numbers:
        name = ""
        try:
            name = line_of(f"/sys/kernel/irq/{number}/actions")
            allowed: Any = line_of(f"/proc/irq/{number}/smp_affinity_list")
        except Unread as reason:
            if not name:
                continue  # freed while it was read
            allowed = {"unread": str(reason)}
        # Nobody listens to an interrupt without a name. Equal names are told apart by their order.
        if name:
            times[name] = times.get(name, 0) + 1
            affinity[f"{name}#{times[name]}" if times[name] > 1 else name] = allowed
    if not affinity:
        raise Unread("/sys/kernel/irq: no interrupt with a name")
    return {"irq.affinity": affinity}


def cpus(text: str) -> set[int]:
    """Return the CPU numbers of a list such as ``0-3,56``."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def cpulist(numbers: set[int]) -> str:
    """Return CPU numbers as the kernel lists them: ``0-3,56``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)
