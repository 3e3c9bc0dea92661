"""Rules about power, clocks and temperature of GPUs."""

from __future__ import annotations

from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, Cause
from lockstep.checks.compare import is_number
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Bound,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Skip,
    Text,
    default,
    same,
    some,
)
from lockstep.checks.rules._gpu import (
    BRAKE,
    DEVICES,
    HEAT,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    asks,
    both,
    has_gpus,
    has_whole_gpus,
    only_where,
    same_gpu,
    seconds,
    supported,
    up_to,
    watts,
)
from lockstep.probe.record import MISSING, Unread

UNUSED_MIB = 256
"""A waiting program uses more (for its CUDA context alone), and keeps the clock high."""


def _clock_idle_items(view: View) -> Items:
    """Return the clocks of idle GPUs, None for the others."""
    clocks, loads = view.items("gpu.clocks.sm_mhz"), view.items("gpu.utilization")
    used = view.items("gpu.memory.used_mib")
    items: Items = {}
    for device, clock in clocks.items():
        whole = (clock, loads.get(device, MISSING), used.get(device, MISSING))
        unread = next((one for one in whole if isinstance(one, Unread)), None)
        if unread is not None:
            items[device] = unread
        else:
            idle = whole[1] == 0 and isinstance(whole[2], int) and whole[2] < UNUSED_MIB
            items[device] = clock if idle else None
    return items


def _within(view: View) -> dict[str, JsonValue]:
    """Return the nearest clock within the declared lock."""
    gpu = view.plan.hardware.hardware.gpu
    if gpu is None or gpu.clocks_mhz is None:
        return {}
    low, high = gpu.clocks_mhz
    return {
        device: min(max(clock, low), high)
        for device, clock in view.items("gpu.clocks.sm_mhz").items()
        if isinstance(clock, int)
    }


def _clock_idle_words(clock: JsonValue, limit: JsonValue) -> tuple[str, str]:
    below = isinstance(clock, int) and isinstance(limit, int | float) and clock < limit
    return f"{clock} MHz idle", f"at {'least' if below else 'most'} {limit:g} MHz"


def _clock_memory_items(view: View) -> Items:
    """Return the memory clocks of the GPUs in P0, None for the others."""
    clocks = up_to("gpu.clocks.memory_mhz", "gpu.clocks.max_memory_mhz")(view)
    return only_where(view, clocks, "gpu.pstate", lambda state: state == "P0")


ENFORCED = "gpu.power.enforced_w"
REQUESTED = "gpu.power.requested_w"
OWNER = "gpu_settings"


def _declared(view: View) -> float | None:
    gpu = view.plan.hardware.hardware.gpu
    return None if gpu is None else gpu.power_limit_w


def _capped(view: View, device: str) -> str:
    """Return a text where the enforced limit is below the requested one."""
    asked, enforced = (view.items(name).get(device) for name in (REQUESTED, ENFORCED))
    if not is_number(asked) or not is_number(enforced) or asked <= enforced:
        return ""
    return f"capped outside of the driver, where {watts(asked)} is set"


def _power_limit_roles(view: View, device: str) -> tuple[str, ...]:
    """Return the role that sets it: no deploy removes a cap from below the driver."""
    return () if _capped(view, device) else (OWNER,)


def _text(least: object, most: object) -> str:
    return f"{least:g} to {most:g} W"


def _power_range_items(view: View) -> Items:
    return both(view, "gpu.power.min_w", "gpu.power.max_w", _text)


def _of_model(view: View) -> str | None:
    model = view.plan.hardware.gpu_model
    return None if model is None else _text(*model.power_limits_w)


BITS = {0x20: "SW thermal slowdown", 0x40: "HW thermal slowdown", 0x80: "HW power brake"}
HOT = 0x20 | 0x40


def _slowdown_items(view: View) -> Items:
    return {
        device: ", ".join(name for bit, name in BITS.items() if reasons & bit)
        if isinstance(reasons, int)
        else reasons
        for device, reasons in view.items("gpu.slowdown.active").items()
    }


def _slowdown_tags(view: View, device: str) -> frozenset[str]:
    reasons = view.items("gpu.slowdown.active").get(device)
    bits = reasons if isinstance(reasons, int) else 0
    return frozenset({*([HEAT] if bits & HOT else []), *([BRAKE] if bits & ~HOT else [])})


LEAST_C = 5
COMPARE_VARIANT = (
    "compare the firmware (gpu.vbios) and part number of the GPU in {node} with its peers"
)
CHECK_COOLING = (
    "check fans, filters, cold plate and inlet of {node}; compare with the same slot of its peers"
)


_held_back = partial(
    Rule, look=Look(pick=supported, devices=DEVICES), kind=Kind.GROWTH, text=Text(seconds)
)
"""Time that a GPU was slowed down, as the driver counts it."""

RULES = (
    Rule(
        id="gpu.clock_idle",
        claim="The clock of an idle GPU is within its declared lock, or as low as its peers'.",
        why=(
            "No driver reports locked clocks (nvidia-smi -lgc). A GPU that is locked high "
            "stays hot while idle, and one that is locked low never reaches its peers."
        ),
        blind=(
            "A lock that starts at the lowest clock shows under load only. GPUs in use or "
            "divided (MIG). A class where most GPUs are locked and no lock is declared."
        ),
        source="nvidia-smi(1), --lock-gpu-clocks; idle H100 and H200: 345 MHz",
        reading="gpu.clocks.sm_mhz",
        look=Look(
            _clock_idle_items,
            pick=lambda clock: Skip.SKIP if clock is None else clock,
            devices=DEVICES,
        ),
        kind=Kind.WITHIN,
        expected=some(_within, bound=Bound.AT_MOST),
        peers=Peers.CLASS,
        tolerance=0.5,
        text=Text(words=_clock_idle_words),
        severity=WARNING,
        repair=by_role(
            "gpu_settings",
            "on {node}: systemctl restart lockstep-gpu-settings, and find what locked the clocks",
        ),
        applies=has_whole_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG),
    ),
    Rule(
        id="gpu.clock_max",
        claim="All GPUs of a hardware class have the same maximum clock.",
        why="Other firmware or another GPU variant: the slowest GPU slows all others.",
        blind=(
            "The clock that a GPU reaches: heat and power caps show under load only. Locked "
            "clocks, which do not change the maximum."
        ),
        source="nvidia-smi --help-query-gpu, clocks.max.sm",
        reading="gpu.clocks.max_sm_mhz",
        look=Look(devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda value: f"{value} MHz"),
        repair=by_hand(peers=(COMPARE_VARIANT)),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.name", at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.clock_max_memory",
        claim="The memory of all GPUs of a hardware class has the same maximum clock.",
        why="Other firmware or another GPU variant: the slowest GPU slows all others.",
        blind="The clock that the memory reaches: gpu.clock_memory judges that.",
        source="nvidia-smi --help-query-gpu, clocks.max.memory",
        reading="gpu.clocks.max_memory_mhz",
        look=Look(pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda value: f"{value} MHz"),
        repair=by_hand(peers=(COMPARE_VARIANT)),
        applies=asks("gpu.clocks.max_memory_mhz"),
        explained_by=(*UNREAD_WITH_COUNT, *same_gpu("gpu.name", "gpu.clock_max")),
    ),
    Rule(
        id="gpu.clock_memory",
        claim="The memory of a GPU in state P0 has its full clock.",
        why="Locked memory clocks (nvidia-smi -lmc) halve the bandwidth and show nowhere else.",
        blind="GPUs in lower power states, whose memory is slow while idle.",
        source="nvidia-smi(1), --lock-memory-clocks; idle H200: P0, memory at its maximum",
        reading="gpu.clocks.memory_mhz",
        look=Look(
            _clock_memory_items,
            pick=lambda clock: Skip.SKIP if clock is None else supported(clock),
            devices=DEVICES,
        ),
        expected=default("gpu.clocks.max_memory_mhz"),
        text=Text(lambda value: f"{value} MHz"),
        repair=by_hand("on {node}: nvidia-smi -rmc, and find what locked the memory clock"),
        applies=asks("gpu.clocks.memory_mhz", "gpu.clocks.max_memory_mhz"),
        explained_by=(*UNREAD_WITH_COUNT, *same_gpu("gpu.clock_max_memory")),
    ),
    _held_back(
        id="gpu.power_brake",
        claim="No GPU had a power brake slowdown since the last record.",
        why=(
            "The power brake halves the clocks: a failing power supply, or a cap in the BMC or "
            "the rack."
        ),
        blind="The first record of a boot. Caps of the driver itself (gpu.power_limit).",
        source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.hw_power_brake_slowdown",
        reading="gpu.slowdown.power_brake_us",
        repair=by_hand(
            "drain {node}; check its power supplies, their feeds, and caps in the BMC or the rack"
        ),
        applies=asks("gpu.slowdown.power_brake_us"),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.slowdown", tag=BRAKE, at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.power_default",
        claim="Every GPU has the default power limit of its model.",
        why="gpu.power_limit relies on this default; other firmware or another variant changes it.",
        blind="A default that is right and not reached.",
        source="lockstep/catalog/gpus",
        reading="gpu.power.default_w",
        look=Look(devices=DEVICES),
        expected=same(
            lambda view: (
                view.plan.hardware.gpu_model.default_power_limit_w
                if view.plan.hardware.gpu_model
                else None
            )
        ),
        peers=Peers.CLASS,
        text=Text(watts),
        repair=by_hand(COMPARE_VARIANT),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.power_limit",
        claim="Every GPU has its declared power limit, and otherwise its default.",
        why="A capped GPU passes every other check and slows the whole job.",
        blind=(
            "Slowdowns that do not lower a limit: gpu.power_brake and gpu.thermal_hw judge those."
        ),
        source="nvidia-smi --help-query-gpu, enforced.power.limit",
        # The enforced limit is the lowest of all limits; power.limit is only the requested one.
        reading=ENFORCED,
        look=Look(devices=DEVICES),
        expected=same(_declared, default="gpu.power.default_w"),
        peers=Peers.CLASS,
        text=Text(watts, detail=_capped),
        repair=by_role(
            OWNER,
            roles=_power_limit_roles,
            no_role=(
                "on {node}: remove the cap of {device} at its source (BMC, power supplies, "
                "firmware)"
            ),
        ),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.power_default", at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.power_range",
        claim="Every GPU accepts the power limits of its model.",
        why="Other firmware lowers the highest accepted limit, and the planned limit is refused.",
        blind="A limit that is too low and within the range.",
        source=(
            "lockstep/catalog/gpus; nvidia-smi --help-query-gpu, power.min_limit, power.max_limit"
        ),
        reading="gpu.power.max_w",
        look=Look(_power_range_items, pick=supported, devices=DEVICES),
        expected=same(_of_model),
        peers=Peers.CLASS,
        repair=by_hand(COMPARE_VARIANT),
        applies=asks("gpu.power.min_w", "gpu.power.max_w"),
        explained_by=(*UNREAD_WITH_COUNT, *same_gpu("gpu.power_default", "gpu.name")),
    ),
    Rule(
        id="gpu.slowdown",
        claim="No GPU is slowed down by heat or by its power supply now.",
        why="The hardware halves the clock of such a GPU, or lowers it further.",
        blind=(
            "GPUs that slow down under load only, while they are idle. The general bit of a "
            "hardware slowdown (0x8), which a change of clocks also sets. A cap by the power "
            "limit, which is normal under load."
        ),
        source="nvml.h, nvmlClocksEventReasons",
        reading="gpu.slowdown.active",
        look=Look(_slowdown_items, pick=supported, devices=DEVICES),
        expected=same(""),
        text=Text(words=lambda found, expected: (str(found), "no slowdown by the hardware")),
        repair=by_hand(
            "thermal: check fans, filters, cold plate and inlet of {node}; power brake: "
            "check its power supplies, and caps in the BMC or the rack"
        ),
        tags=_slowdown_tags,
        applies=asks("gpu.slowdown.active"),
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.temperature",
        claim="Every GPU is at least five degrees below its temperature limit.",
        why="At the limit clocks fall. A GPU close to it reaches it on the next warm day.",
        blind=(
            "Idle GPUs, which are cool behind any filter. The margin counts down: 0 C is the limit."
        ),
        source="nvidia-smi --help-query-gpu, temperature.gpu.tlimit; H200 under full load: 35 C",
        reading="gpu.temperature.margin_c",
        look=Look(pick=supported, devices=DEVICES),
        kind=Kind.ABSOLUTE,
        expected=same(LEAST_C),
        text=Text(lambda value: f"{value} C below the limit"),
        severity=WARNING,
        repair=by_hand(CHECK_COOLING),
        applies=asks("gpu.temperature.margin_c"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_gpu("gpu.slowdown", "gpu.thermal_hw", "gpu.thermal_sw"),
        ),
    ),
    _held_back(
        id="gpu.thermal_hw",
        claim="No GPU had a thermal slowdown by its hardware since the last record.",
        why="The hardware halves the clocks of a GPU that is too hot, and its job waits.",
        blind="The first record of a boot.",
        source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.hw_thermal_slowdown",
        reading="gpu.slowdown.thermal_hw_us",
        repair=by_hand(CHECK_COOLING),
        applies=asks("gpu.slowdown.thermal_hw_us"),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.slowdown", tag=HEAT, at=SAME_DEVICE)),
    ),
    _held_back(
        id="gpu.thermal_sw",
        claim="No GPU had a thermal slowdown by its driver since the last record.",
        why="Above its operating temperature the driver lowers a GPU's clocks step by step.",
        blind="The first record of a boot.",
        source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.sw_thermal_slowdown",
        reading="gpu.slowdown.thermal_sw_us",
        repair=by_hand(CHECK_COOLING),
        applies=asks("gpu.slowdown.thermal_sw_us"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("gpu.slowdown", tag=HEAT, at=SAME_DEVICE),
            *same_gpu("gpu.thermal_hw"),
        ),
    ),
)
