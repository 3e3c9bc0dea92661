"""Rules about power and temperature of GPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydantic import JsonValue

from lockstep.catalog.gpus import GpuModel
from lockstep.checks.compare import is_number
from lockstep.checks.context import Items, View
from lockstep.checks.rule import (
    SAME_DEVICE,
    WARNING,
    Cause,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Skip,
    Text,
    by_hand,
    by_role,
    same,
    same_device,
    some,
)
from lockstep.checks.rules._gpu import (
    BRAKE,
    COMPARE_VARIANT,
    DEVICES,
    HEAT,
    UNREAD_WITH_COUNT,
    has_gpus,
    of_gpus,
    of_model,
    supported,
    told,
    watts,
)
from lockstep.node.check.judge import Judgement

ENFORCED = "gpu.power.enforced_w"


def _capped(view: View, device: str) -> str:
    """Return a note if the enforced limit is below the requested one, else ""."""
    asked, enforced = (view.items(name).get(device) for name in ("gpu.power.requested_w", ENFORCED))
    if not is_number(asked) or not is_number(enforced) or asked <= enforced:
        return ""
    return f"capped outside the driver, which requests {watts(asked)}"


def _lower(
    reading: str, of: Callable[[GpuModel], float | None]
) -> Callable[[View], dict[str, JsonValue]]:
    """Return a function that expects the model's value of the GPUs that have a lower one.

    Vendors of machines raise the limits of a model (recorded: an A100 with 500 W, not 400 W). Such
    GPUs are compared with their peers.
    """
    usual = of_model(of)

    def expected(view: View) -> dict[str, JsonValue]:
        wanted = usual(view)
        return {
            device: wanted
            for device, watt in view.items(reading).items()
            if wanted is not None and is_number(watt) and watt < wanted
        }

    return expected


_shares = of_model(lambda model: model.shares_power)
_limit = of_gpus(lambda gpu: gpu.power_limit_w)


def _by_module(view: View) -> set[str]:
    """Return the GPUs whose module holds their limit below the one that was set."""
    if not _shares(view) or _limit(view) is not None:
        return set()
    enforced, asked = view.items(ENFORCED), view.items("gpu.power.requested_w")
    return {
        device
        for device, watt in enforced.items()
        if is_number(watt) and is_number(limit := asked.get(device)) and watt < limit
    }


_all_limits = told(ENFORCED)


def _limits(view: View) -> Items:
    """Return the limits in force, without those that a module holds down."""
    held = _by_module(view)
    items = _all_limits(view)
    return {**items, **dict.fromkeys(held, None)} if held else items


def _shared_limits(view: View) -> Items:
    """Return the limits that a module holds down."""
    held = _by_module(view)
    return {device: watt if device in held else None for device, watt in _all_limits(view).items()}


def _given(value: JsonValue) -> JsonValue | Skip:
    return Skip.SKIP if value is None else supported(value)


def _limit_judged(view: View) -> list[Judgement]:
    limit = _limit(view)
    if limit is None and _shares(view):
        return []
    return [
        Judgement(
            (ENFORCED,),
            devices=DEVICES,
            expected=limit,
            reference="gpu.power.default_w",
            shown="{} W",
        )
    ]


BITS = {0x20: "SW thermal slowdown", 0x40: "HW thermal slowdown", 0x80: "HW power brake"}
HOT = 0x20 | 0x40


def _slowdowns(reasons: JsonValue) -> JsonValue | Skip:
    if not isinstance(reasons, int):
        return supported(reasons)
    return ", ".join(name for bit, name in BITS.items() if reasons & bit)


def _slowdown_tags(view: View, device: str) -> frozenset[str]:
    reasons = view.items("gpu.slowdown.active").get(device)
    bits = reasons if isinstance(reasons, int) else 0
    return frozenset({*([HEAT] if bits & HOT else []), *([BRAKE] if bits & ~HOT else [])})


CHECK_COOLING = (
    "check the fans, filters, cold plate and air inlet of {node}; compare the GPU's "
    "temperature with that of the GPU in the same PCI slot of its peers"
)


_held_back = partial(
    Rule,
    look=Look(pick=supported, devices=DEVICES),
    kind=Kind.GROWTH,
    text=Text(lambda us: f"{us / 1e6:g} s" if isinstance(us, int | float) else str(us)),
)
"""A rule about how long a GPU was slowed down, as counted by the driver."""


RULES = (
    _held_back(
        id="gpu.power_brake",
        claim="No GPU has had a power brake slowdown since the last record.",
        why=(
            "A failing power supply, or a power cap in the BMC or the rack, triggers the power "
            "brake, which halves the clocks."
        ),
        blind=(
            "Slowdowns before the first record after a boot. The driver's power limit, which "
            "gpu.power_limit checks."
        ),
        source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.hw_power_brake_slowdown",
        reading="gpu.slowdown.power_brake_us",
        repair=by_hand(
            "drain {node}; check its power supplies, their feeds, and any power caps in the BMC or "
            "the rack"
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.slowdown", tag=BRAKE, at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.power_default",
        claim=(
            "Every GPU has at least the default power limit of its model, and the same one as its "
            "peers."
        ),
        why=(
            "gpu.power_limit relies on this default. A GPU with different firmware, or of a "
            "different variant, can have a different default."
        ),
        blind="The power limit in force, which gpu.power_limit checks.",
        source="lockstep/catalog/gpus",
        reading="gpu.power.default_w",
        look=Look(told("gpu.power.default_w"), pick=supported, devices=DEVICES),
        expected=some(_lower("gpu.power.default_w", lambda model: model.default_power_limit_w)),
        peers=Peers.CLASS,
        text=Text(watts),
        repair=by_hand(COMPARE_VARIANT),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.power_limit",
        claim="Every GPU has its declared power limit, or its default limit if none is declared.",
        why="A GPU with a lower limit passes every other check and slows down the whole job.",
        blind="Slowdowns that leave the limit unchanged (see gpu.power_brake and gpu.thermal_hw).",
        source="nvidia-smi --help-query-gpu, enforced.power.limit",
        # The enforced limit is the lowest of all limits; power.limit is only the requested one.
        reading=ENFORCED,
        look=Look(_limits, pick=_given, devices=DEVICES),
        expected=same(_limit, default="gpu.power.default_w"),
        peers=Peers.CLASS,
        text=Text(watts, detail=_capped),
        repair=by_role(
            "gpu_settings",
            # No deploy removes a cap that comes from outside the driver.
            roles=lambda view, device: () if _capped(view, device) else ("gpu_settings",),
            no_role=(
                "on {node}: remove the power cap on {device} at its source (BMC, power supplies, "
                "firmware)"
            ),
        ),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS, _limit_judged),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.power_default", at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.power_module",
        claim="Modules hold the power limits of their GPUs down alike in a hardware class.",
        why="A GPU with a lower limit than its peers slows down the whole job.",
        blind=(
            "The same low limit on all nodes. GPUs of other models, and GPUs with a declared "
            "limit, which gpu.power_limit checks."
        ),
        source=(
            "nvidia-smi -q of a GH200, driver 550.127.05: 700 W in force, 900 W set, in a module "
            "with 1000 W"
        ),
        reading=ENFORCED,
        look=Look(_shared_limits, pick=_given, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(watts, detail=_capped),
        repair=by_hand(
            peers=(
                "compare the power settings of {node} (BMC, firmware, nvidia-smi -q: Module Power "
                "Readings) with those of its peers"
            )
        ),
        applies=lambda view: bool(_shares(view)),
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.power_default", "gpu.power_limit")),
    ),
    Rule(
        id="gpu.power_range",
        claim=(
            "The highest power limit of every GPU is at least that of its model, and the same as "
            "that of its peers."
        ),
        why=(
            "Different firmware can lower the maximum limit. The driver then rejects a planned "
            "limit above it."
        ),
        blind="A limit that is within the range but too low, which gpu.power_limit finds.",
        source="lockstep/catalog/gpus; nvidia-smi --help-query-gpu, power.max_limit",
        reading="gpu.power.max_w",
        look=Look(pick=supported, devices=DEVICES),
        expected=some(
            _lower("gpu.power.max_w", lambda model: (model.power_limits_w or (None, None))[1])
        ),
        peers=Peers.CLASS,
        text=Text(watts),
        repair=by_hand(COMPARE_VARIANT),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.power_default", "gpu.name")),
    ),
    Rule(
        id="gpu.slowdown",
        claim="No GPU is currently slowed down by heat or by the power brake.",
        why="A slowdown can halve the clocks of a GPU, or lower them even further.",
        blind=(
            "Idle GPUs that would slow down only under load. The general hardware slowdown bit "
            "(0x8), which clock changes also set. Slowdowns that the power limit causes, which are "
            "normal under load."
        ),
        source="nvml.h, nvmlClocksEventReasons",
        reading="gpu.slowdown.active",
        look=Look(pick=_slowdowns, devices=DEVICES),
        expected=same(""),
        text=Text(words=lambda found, expected: (str(found), "no thermal or power brake slowdown")),
        repair=by_hand(
            "after a thermal slowdown, check the fans, filters, cold plate and air inlet of "
            "{node}; after a power brake, check its power supplies, and any power caps in the BMC "
            "or the rack"
        ),
        tags=_slowdown_tags,
        applies=has_gpus,
        # Only idle nodes are drained for it: a GPU is still hot when a job ends.
        on_node=OnNode(
            Local.HEALTH,
            lambda view: [
                Judgement(
                    ("gpu.slowdown.active",),
                    devices=DEVICES,
                    bits=tuple(BITS),
                    bit_names=tuple(BITS.values()),
                )
            ],
        ),
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.temperature",
        claim="Every GPU is at least five degrees below its temperature limit.",
        why=(
            "At the limit, the driver lowers the clocks. A GPU that is close to its limit reaches "
            "it on the next warm day. The reading is the margin to the limit (T.Limit), not a "
            "temperature: 0 C means that the limit is reached."
        ),
        blind="Idle GPUs, which stay cool even behind a clogged filter.",
        source=(
            "nvidia-smi --help-query-gpu, temperature.gpu.tlimit; H200 under full load: margin of "
            "35 C"
        ),
        reading="gpu.temperature.margin_c",
        look=Look(pick=supported, devices=DEVICES),
        kind=Kind.ABSOLUTE,
        expected=same(5),
        text=Text(lambda value: f"{value} C below the limit"),
        severity=WARNING,
        repair=by_hand(CHECK_COOLING),
        applies=has_gpus,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.slowdown", "gpu.thermal_hw", "gpu.thermal_sw"),
        ),
    ),
    _held_back(
        id="gpu.thermal_hw",
        claim="No GPU has had a hardware thermal slowdown since the last record.",
        why="The hardware halves the clocks of a GPU that is too hot, and the job waits for it.",
        blind="Slowdowns before the first record after a boot.",
        source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.hw_thermal_slowdown",
        reading="gpu.slowdown.thermal_hw_us",
        repair=by_hand(CHECK_COOLING),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.slowdown", tag=HEAT, at=SAME_DEVICE)),
    ),
    _held_back(
        id="gpu.thermal_sw",
        claim="No GPU has had a software thermal slowdown since the last record.",
        why=(
            "The driver gradually lowers the clocks of a GPU that is above its maximum operating "
            "temperature."
        ),
        blind="Slowdowns before the first record after a boot.",
        source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.sw_thermal_slowdown",
        reading="gpu.slowdown.thermal_sw_us",
        repair=by_hand(CHECK_COOLING),
        applies=has_gpus,
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("gpu.slowdown", tag=HEAT, at=SAME_DEVICE),
            *same_device("gpu.thermal_hw"),
        ),
    ),
)
