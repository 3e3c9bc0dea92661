"""Rules: gpu_power."""

from __future__ import annotations

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
    same_board,
    seconds,
    supported,
    up_to,
    watts,
)
from lockstep.probe.record import MISSING, Unread

UNUSED_MIB = 256
"""A program that waits holds more (its CUDA context alone), and keeps the clock up."""


def _clock_idle_items(view: View) -> Items:
    """Return the clocks of the boards that nobody uses, None for the others."""
    clocks, loads = view.items("gpu.clocks.sm_mhz"), view.items("gpu.utilization")
    used = view.items("gpu.memory.used_mib")
    items: Items = {}
    for board, clock in clocks.items():
        whole = (clock, loads.get(board, MISSING), used.get(board, MISSING))
        unread = next((one for one in whole if isinstance(one, Unread)), None)
        if unread is not None:
            items[board] = unread
        else:
            idle = whole[1] == 0 and isinstance(whole[2], int) and whole[2] < UNUSED_MIB
            items[board] = clock if idle else None
    return items


def _within(view: View) -> dict[str, JsonValue]:
    """Return the nearest clock that a declared lock allows."""
    gpu = view.plan.hardware.hardware.gpu
    if gpu is None or gpu.clocks_mhz is None:
        return {}
    low, high = gpu.clocks_mhz
    return {
        board: min(max(clock, low), high)
        for board, clock in view.items("gpu.clocks.sm_mhz").items()
        if isinstance(clock, int)
    }


def _clock_idle_words(clock: JsonValue, limit: JsonValue) -> tuple[str, str]:
    below = isinstance(clock, int) and isinstance(limit, int | float) and clock < limit
    return f"{clock} MHz idle", f"at {'least' if below else 'most'} {limit:g} MHz"


CLOCK_MEMORY_READING, CLOCK_MEMORY_MOST = "gpu.clocks.memory_mhz", "gpu.clocks.max_memory_mhz"


def _clock_memory_items(view: View) -> Items:
    """Return the memory clocks of the boards in P0, None for the others."""
    clocks = up_to(CLOCK_MEMORY_READING, CLOCK_MEMORY_MOST)(view)
    return only_where(view, clocks, "gpu.pstate", lambda state: state == "P0")


ENFORCED = "gpu.power.enforced_w"
REQUESTED = "gpu.power.requested_w"
OWNER = "gpu_settings"


def _declared(view: View) -> float | None:
    gpu = view.plan.hardware.hardware.gpu
    return None if gpu is None else gpu.power_limit_w


def _capped(view: View, board: str) -> str:
    """Say where less is enforced than the driver was asked for."""
    asked, enforced = (view.items(name).get(board) for name in (REQUESTED, ENFORCED))
    if not is_number(asked) or not is_number(enforced) or asked <= enforced:
        return ""
    return f"capped below the driver, which was asked for {watts(asked)}"


def _power_limit_roles(view: View, board: str) -> tuple[str, ...]:
    """Return who can set it: no deploy lifts a cap from below the driver."""
    return () if _capped(view, board) else (OWNER,)


LEAST, POWER_RANGE_MOST = "gpu.power.min_w", "gpu.power.max_w"


def _text(least: object, most: object) -> str:
    return f"{least:g} to {most:g} W"


def _power_range_items(view: View) -> Items:
    return both(view, LEAST, POWER_RANGE_MOST, _text)


def _of_model(view: View) -> str | None:
    model = view.plan.hardware.gpu_model
    return None if model is None else _text(*model.power_limits_w)


BITS = {0x20: "SW thermal slowdown", 0x40: "HW thermal slowdown", 0x80: "HW power brake"}
HOT = 0x20 | 0x40


def _slowdown_items(view: View) -> Items:
    return {
        board: ", ".join(name for bit, name in BITS.items() if reasons & bit)
        if isinstance(reasons, int)
        else reasons
        for board, reasons in view.items("gpu.slowdown.active").items()
    }


def _slowdown_tags(view: View, board: str) -> frozenset[str]:
    reasons = view.items("gpu.slowdown.active").get(board)
    bits = reasons if isinstance(reasons, int) else 0
    return frozenset({*([HEAT] if bits & HOT else []), *([BRAKE] if bits & ~HOT else [])})


LEAST_C = 5


RULES = (
    Rule(
        id="gpu.clock_idle",
        claim=(
            "The clock of a board that nobody uses is within its declared lock, or as low as "
            "its peers'."
        ),
        why=(
            "No driver tells the clocks that somebody locked (nvidia-smi -lgc); a board that "
            "is locked up stays there when nothing runs, hot and loud, or below what the "
            "others reach."
        ),
        blind=(
            "A lock that begins at the lowest clock: it shows under load only. Boards in use "
            "or divided (MIG). A class where most boards are locked alike and nothing is "
            "declared."
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
            "on {node}: systemctl restart lockstep-gpu-settings; and find what locked the clocks",
        ),
        applies=has_whole_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG),
    ),
    Rule(
        id="gpu.clock_max",
        claim="All boards of a hardware class can reach the same clock.",
        why="Other firmware or another variant of a board: the slowest board sets the pace.",
        blind=(
            "The clock that a board does reach: a cap by heat or power shows under load only. "
            "Locked clocks, which leave the maximum as it is."
        ),
        source="nvidia-smi --help-query-gpu, clocks.max.sm",
        reading="gpu.clocks.max_sm_mhz",
        look=Look(devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda value: f"{value} MHz"),
        repair=by_hand(
            peers=(
                "compare the firmware (gpu.vbios) and part number of the board in {node} with "
                "its peers"
            )
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.name", at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.clock_max_memory",
        claim="The memory of all boards of a hardware class can reach the same clock.",
        why="Other firmware or another variant of a board: the slowest board sets the pace.",
        blind="The clock that the memory does reach: gpu.clock_memory.",
        source="nvidia-smi --help-query-gpu, clocks.max.memory",
        reading="gpu.clocks.max_memory_mhz",
        look=Look(pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda value: f"{value} MHz"),
        repair=by_hand(
            peers=(
                "compare the firmware (gpu.vbios) and part number of the board in {node} with "
                "its peers"
            )
        ),
        applies=asks("gpu.clocks.max_memory_mhz"),
        explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.name", "gpu.clock_max")),
    ),
    Rule(
        id="gpu.clock_memory",
        claim="The memory of a board that is ready to work has its full clock.",
        why="Locked memory clocks (nvidia-smi -lmc) halve the bandwidth and show nowhere else.",
        blind="Boards in a lower state than P0, whose memory is slow while nothing runs.",
        source="nvidia-smi(1), --lock-memory-clocks; idle H200: P0, memory at its maximum",
        reading=CLOCK_MEMORY_READING,
        look=Look(
            _clock_memory_items,
            pick=lambda clock: Skip.SKIP if clock is None else supported(clock),
            devices=DEVICES,
        ),
        expected=default(CLOCK_MEMORY_MOST),
        text=Text(lambda value: f"{value} MHz"),
        repair=by_hand("on {node}: nvidia-smi -rmc; and find what locked the memory clock"),
        applies=asks(CLOCK_MEMORY_READING, CLOCK_MEMORY_MOST),
        explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.clock_max_memory")),
    ),
    Rule(
        id="gpu.power_brake",
        claim="No board was held back by its power supply since the last record.",
        why=(
            "The power brake halves clocks at once: a supply that fails, a cap in the BMC or "
            "the rack."
        ),
        blind="The first record of a boot; what the driver itself caps (gpu.power_limit).",
        source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.hw_power_brake_slowdown",
        reading="gpu.slowdown.power_brake_us",
        look=Look(pick=supported, devices=DEVICES),
        kind=Kind.GROWTH,
        text=Text(seconds),
        repair=by_hand(
            "drain {node}; its power supplies, their feeds, and a cap in the BMC or the rack"
        ),
        applies=asks("gpu.slowdown.power_brake_us"),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.slowdown", tag=BRAKE, at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.power_default",
        claim="Every board's own default power limit is the one of its model.",
        why="Other firmware, or a board of another variant: gpu.power_limit trusts this default.",
        blind="A limit that is equal to the catalogue and not reached.",
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
        repair=by_hand(
            "compare the firmware (gpu.vbios) and part number of the board in {node} with its peers"
        ),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.power_limit",
        claim="Every board may draw its full power.",
        why="A board left capped passes every other check and sets the pace of the whole job.",
        blind="What slows a board and lowers no limit: gpu.power_brake, gpu.thermal_hw.",
        source="nvidia-smi --help-query-gpu, enforced.power.limit",
        # The enforced limit is the least of all limits; power.limit is only what was asked for.
        reading=ENFORCED,
        look=Look(devices=DEVICES),
        expected=same(_declared, default="gpu.power.default_w"),
        peers=Peers.CLASS,
        text=Text(watts, detail=_capped),
        repair=by_role(
            OWNER,
            roles=_power_limit_roles,
            no_role=(
                "on {node}: lift the cap of {device} where it was set (BMC, power supplies, "
                "firmware)"
            ),
        ),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.power_default", at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.power_range",
        claim="Every board takes the power limits of its model.",
        why=(
            "Other firmware lowers the most that can be asked for: the planned limit is then "
            "refused."
        ),
        blind="A limit within the range that is too low.",
        source=(
            "lockstep/catalog/gpus; nvidia-smi --help-query-gpu, power.min_limit, power.max_limit"
        ),
        reading=POWER_RANGE_MOST,
        look=Look(_power_range_items, pick=supported, devices=DEVICES),
        expected=same(_of_model),
        peers=Peers.CLASS,
        repair=by_hand(
            "compare the firmware (gpu.vbios) and part number of the board in {node} with its peers"
        ),
        applies=asks(LEAST, POWER_RANGE_MOST),
        explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.power_default", "gpu.name")),
    ),
    Rule(
        id="gpu.slowdown",
        claim="No board is slowed down by heat or by its power supply right now.",
        why="A board that the hardware holds back computes at half its clock or less.",
        blind=(
            "Boards that slow down under load only, while they idle. The bit of any hardware "
            "slowdown (0x8), which a change of clocks sets as well. A cap by the power limit, "
            "which is how a board works at its limit."
        ),
        source="nvml.h, nvmlClocksEventReasons",
        reading="gpu.slowdown.active",
        look=Look(_slowdown_items, pick=supported, devices=DEVICES),
        expected=same(""),
        text=Text(words=lambda found, expected: (str(found), "no slowdown by the hardware")),
        repair=by_hand(
            "thermal: fans, filters, cold plate and inlet of {node}; power brake: its "
            "supplies, and a cap in the BMC or the rack"
        ),
        tags=_slowdown_tags,
        applies=asks("gpu.slowdown.active"),
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.temperature",
        claim="Every board is further from its limit of temperature than a few degrees.",
        why=(
            "At the limit clocks fall: a board that is nearly there loses them with the next "
            "warm day."
        ),
        blind=(
            "Boards that do nothing, which are cool behind any filter. The margin counts down: "
            "0 C is the limit."
        ),
        source="nvidia-smi --help-query-gpu, temperature.gpu.tlimit; H200 under full load: 35 C",
        reading="gpu.temperature.margin_c",
        look=Look(pick=supported, devices=DEVICES),
        kind=Kind.ABSOLUTE,
        expected=same(LEAST_C),
        text=Text(lambda value: f"{value} C below the limit"),
        severity=WARNING,
        repair=by_hand(
            "fans, filters, cold plate and inlet of {node}; compare with the same slot of its peers"
        ),
        applies=asks("gpu.temperature.margin_c"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_board("gpu.slowdown", "gpu.thermal_hw", "gpu.thermal_sw"),
        ),
    ),
    Rule(
        id="gpu.thermal_hw",
        claim="No board was too hot for its hardware since the last record.",
        why="The hardware halves the clocks of a board that is too hot; its job waits for it.",
        blind="The first record of a boot.",
        source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.hw_thermal_slowdown",
        reading="gpu.slowdown.thermal_hw_us",
        look=Look(pick=supported, devices=DEVICES),
        kind=Kind.GROWTH,
        text=Text(seconds),
        repair=by_hand(
            "fans, filters, cold plate and inlet of {node}; compare with the same slot of its peers"
        ),
        applies=asks("gpu.slowdown.thermal_hw_us"),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.slowdown", tag=HEAT, at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.thermal_sw",
        claim="No board was slowed down by its driver for heat since the last record.",
        why="Above its operating temperature the driver lowers a board's clocks step by step.",
        blind="The first record of a boot.",
        source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.sw_thermal_slowdown",
        reading="gpu.slowdown.thermal_sw_us",
        look=Look(pick=supported, devices=DEVICES),
        kind=Kind.GROWTH,
        text=Text(seconds),
        repair=by_hand(
            "fans, filters, cold plate and inlet of {node}; compare with the same slot of its peers"
        ),
        applies=asks("gpu.slowdown.thermal_sw_us"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("gpu.slowdown", tag=HEAT, at=SAME_DEVICE),
            *same_board("gpu.thermal_hw"),
        ),
    ),
)
