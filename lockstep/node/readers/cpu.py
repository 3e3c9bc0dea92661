"""Processors: model, frequencies, power, idle states, isolation, interrupts, NUMA."""

from __future__ import annotations

import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, counted, each, one
from lockstep.node.readers.tree import below, exists, found_by, line_of, number_of, said, text_of

CPU = "/sys/devices/system/cpu"
CPU0_IDLE = CPU + "/cpu0/cpuidle"
NUMA_NODES = "/sys/devices/system/node"


def read_cpus(request: Request, commands: Commands) -> Readings:
    """The CPUs that are online, and the CPUs of each NUMA node."""
    paths = found_by(f"{NUMA_NODES}/node[0-9]*/cpulist")
    return {
        "cpu.online": line_of(CPU + "/online"),
        "numa.cpus": {numa_node_of(path)[len("node") :]: line_of(path) for path in paths}
        or Unread(f"{NUMA_NODES} lists no NUMA nodes"),
    }


def read_distances(request: Request, commands: Commands) -> Readings:
    """Distances from each NUMA node to all nodes."""
    paths = found_by(f"{NUMA_NODES}/node[0-9]*/distance")
    return {"numa.distance": {numa_node_of(path): one(line_of, path) for path in paths}}


def numa_node_of(path: str) -> str:
    """Return the name of the NUMA node that a sysfs file belongs to."""
    return path.split("/")[-2]


def read_processors(request: Request, commands: Commands) -> Readings:
    """Model, microcode, SMT, and the mitigation of each CPU vulnerability."""
    text = text_of("/proc/cpuinfo")
    weak = below(CPU + "/vulnerabilities")
    return {
        "cpu.model": counted(re.findall(r"^(?:model name|CPU part)\s*: (.*)$", text, re.M)),
        "cpu.microcode": counted(re.findall(r"^microcode\s*: (\S+)$", text, re.M)),
        "cpu.smt": said(CPU + "/smt/control"),
        "cpu.mitigations": each(weak, lambda name: line_of(f"{CPU}/vulnerabilities/{name}")),
    }


def read_frequency(request: Request, commands: Commands) -> Readings:
    """Frequency settings of the CPUs; one text per setting covers all CPUs."""
    policy = CPU + "/cpufreq/policy*/"

    def limit(which: str) -> str:
        now = {path: line_of(path) for path in found_by(f"{policy}scaling_{which}_freq")}
        most = {path: line_of(path.replace("/scaling_", "/cpuinfo_")) for path in now}
        return counted(
            ["of the CPU" if now[path] == most[path] else f"{now[path]} kHz" for path in now]
        )

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
    """Idle states by name: "enabled" or "disabled"; if CPUs differ, both with their CPU counts."""
    words = {"0": "enabled", "1": "disabled"}

    def state(folder: str) -> str:
        flags = [line_of(path) for path in found_by(f"{CPU}/cpu[0-9]*/cpuidle/{folder}/disable")]
        return counted([words.get(flag, flag) for flag in flags])

    names = {folder: line_of(f"{CPU}/cpu0/cpuidle/{folder}/name") for folder in below(CPU0_IDLE)}
    return {"cpu.idle_states": {name: one(state, folder) for folder, name in names.items()}}


def read_max_cstate(request: Request, commands: Commands) -> Readings:
    """The deepest idle state that the kernel's idle driver may use."""
    path = "/sys/module/{}/parameters/max_cstate"
    for module in ("intel_idle", "processor"):
        if exists(path.format(module)):
            return {"kernel.max_cstate": number_of(path.format(module))}
    raise Unread("neither intel_idle nor processor in /sys/module has the parameter max_cstate")


def read_power_limits(request: Request, commands: Commands) -> Readings:
    """Power limits in watts, keyed by zone and kind of limit: ``package-0 long_term``."""
    limits: dict[str, Any] = {}
    for path in found_by("/sys/class/powercap/intel-rapl:*/constraint_*_power_limit_uw"):
        kind = path.replace("_power_limit_uw", "_name")
        zone = line_of(os.path.dirname(path) + "/name")
        limits[f"{zone} {line_of(kind)}"] = number_of(path) / 1e6
    return {"cpu.power_limits": limits}


def read_isolation(request: Request, commands: Commands) -> Readings:
    """Isolated CPUs, and CPUs that run without a tick (nohz_full); "" if there are none."""
    # A kernel that was built without NO_HZ_FULL has neither the file nor such CPUs.
    no_tick = line_of(CPU + "/nohz_full", "").replace("(null)", "")
    return {"cpu.isolated": line_of(CPU + "/isolated"), "cpu.nohz_full": no_tick}


def read_interrupts(request: Request, commands: Commands) -> Readings:
    """CPUs that may handle each interrupt, keyed by the name of the interrupt."""
    numbers = sorted(int(name) for name in below("/proc/irq") if name.isdigit())
    if not numbers:
        raise Unread("/proc/irq lists no interrupts")
    affinity: dict[str, Any] = {}
    times: dict[str, int] = {}
    for number in numbers:
        name = one(line_of, f"/sys/kernel/irq/{number}/actions")
        if not name or isinstance(name, dict):
            continue  # the interrupt has no handler, or has been freed in the meantime
        times[name] = times.get(name, 0) + 1
        key = f"{name}#{times[name]}" if times[name] > 1 else name
        affinity[key] = one(line_of, f"/proc/irq/{number}/smp_affinity_list")
    if not affinity:
        raise Unread("/sys/kernel/irq/*/actions shows no interrupt with a handler")
    return {"irq.affinity": affinity}


def cpus(text: str) -> set[int]:
    """Return the CPU numbers in a list such as ``0-3,56``."""
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
