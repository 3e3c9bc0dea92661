"""Rules about the clocks of GPUs."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.compare import is_number
from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import (
    WARNING,
    Bound,
    Cause,
    Expected,
    Kind,
    Look,
    Peers,
    Rule,
    Skip,
    Text,
    by_hand,
    by_role,
    same_device,
    some,
)
from lockstep.checks.rules._gpu import (
    COMPARE_VARIANT,
    DEVICES,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    both,
    has_gpus,
    has_whole_gpus,
    only_where,
    supported,
    told,
)

CLOCK = "gpu.clocks.sm_mhz"
UNUSED_MIB = 256
"""An idle GPU has less than this much memory in use, in MiB. Even an idle CUDA context uses more
and keeps the clock high."""


def _within(view: View) -> dict[str, JsonValue]:
    """Return the clock of each GPU, limited to the declared range."""
    gpu = view.plan.hardware.hardware.nvidia_gpu
    if gpu is None or gpu.clocks_mhz is None:
        return {}
    low, high = gpu.clocks_mhz
    return {
        device: min(max(clock, low), high)
        for device, clock in view.items(CLOCK).items()
        if isinstance(clock, int)
    }


def _clock_idle_words(clock: JsonValue, limit: JsonValue) -> tuple[str, str]:
    below = isinstance(clock, int) and isinstance(limit, int | float) and clock < limit
    return f"{clock} MHz idle", f"at {'least' if below else 'most'} {limit:g} MHz"


ROUNDED = 0.001
"""A clock is at its maximum if it is lower by less than this part: recorded are a T4 with 5000 of
5001 MHz and an H200 with 3199 of 3201 MHz."""
CALM = 0.5
"""An idle GPU that has just woken up, or worked a moment ago, may have up to this part of its
maximum clock, or half as much more (recorded: an idle A100 with 930 of 1410 MHz)."""


def _idle_clocks(view: View) -> Items:
    """Return the clock of each GPU. Without a declared range, all calm clocks count as equal."""
    items = view.items(CLOCK)
    gpu = view.plan.hardware.hardware.nvidia_gpu
    if gpu is None or gpu.clocks_mhz is not None:
        return items
    most = view.items("gpu.clocks.max_sm_mhz")

    def calm(device: str, clock: Value) -> Value:
        limit = most.get(device)
        if not isinstance(clock, int) or not isinstance(limit, int):
            return clock
        return max(clock, int(limit * CALM))

    return {device: calm(device, clock) for device, clock in items.items()}


def _full_clock(clock: JsonValue, most: JsonValue) -> JsonValue:
    """Return the maximum for a clock that is as good as full."""
    full = is_number(clock) and is_number(most) and most * (1 - ROUNDED) <= clock <= most
    return most if full else clock


def _application_clock(id: str, which: str, field: str, now: str, default: str) -> Rule:
    """Return a rule about an application clock, which jobs of Slurm may set while they run."""
    return Rule(
        id=id,
        claim=f"The application clock of the {which} of an idle GPU is its default.",
        why=(
            "A GPU with a lower application clock (nvidia-smi -ac) stays below its full clock in "
            "every job, and all other GPUs wait for it."
        ),
        blind=(
            "GPUs in use: srun --gpu-freq sets these clocks for a job. Drivers that no longer have "
            "application clocks (590)."
        ),
        source=f"nvidia-smi --help-query-gpu, {field}; nvidia-smi(1), --applications-clocks",
        reading=now,
        look=Look(
            only_where(
                both(now, default, lambda clock, usual: clock),
                "gpu.memory.used_mib",
                lambda mib: isinstance(mib, int) and mib < UNUSED_MIB,
            ),
            pick=lambda clock: Skip.SKIP if clock is None else supported(clock),
            devices=DEVICES,
        ),
        expected=Expected(default=default),
        text=Text(lambda value: f"{value} MHz"),
        severity=WARNING,
        repair=by_hand("on {node}: run nvidia-smi -rac, and find out what set application clocks"),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    )


def _clock_max(
    id: str, which: str, reading: str, field: str, blind: str, *causes: Cause, look: Look
) -> Rule:
    """Return a rule about a maximum clock of GPUs."""
    return Rule(
        id=id,
        claim=f"All GPUs of a hardware class have the same maximum {which}.",
        why=(
            "A GPU with different firmware, or of a different variant, can have a lower maximum "
            f"{which}, and all other GPUs wait for it."
        ),
        blind=blind,
        source=f"nvidia-smi --help-query-gpu, {field}",
        reading=reading,
        look=look,
        peers=Peers.CLASS,
        text=Text(lambda value: f"{value} MHz"),
        repair=by_hand(peers=COMPARE_VARIANT),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *causes),
    )


RULES = (
    _application_clock(
        "gpu.clock_application",
        "cores",
        "clocks.applications.graphics",
        "gpu.clocks.application_sm_mhz",
        "gpu.clocks.default_sm_mhz",
    ),
    _application_clock(
        "gpu.clock_application_memory",
        "memory",
        "clocks.applications.memory",
        "gpu.clocks.application_memory_mhz",
        "gpu.clocks.default_memory_mhz",
    ),
    Rule(
        id="gpu.clock_idle",
        claim=(
            "The clock of an idle GPU is within the declared range. If no range is declared, the "
            "clock is as low as on its peers."
        ),
        why=(
            "The driver does not report locked clocks (nvidia-smi -lgc). A GPU that is locked to a "
            "high clock stays hot while idle. A GPU that is locked to a low clock stays slow."
        ),
        blind=(
            "A lock that allows the lowest clock and so shows up only under load. Clocks up to "
            "three quarters of the maximum. GPUs that are in use or partitioned with MIG. A "
            "hardware class in which no range is declared and most GPUs are locked."
        ),
        source="nvidia-smi(1), --lock-gpu-clocks; idle H100 and H200: 345 MHz",
        reading=CLOCK,
        look=Look(
            only_where(
                only_where(_idle_clocks, "gpu.utilization", lambda load: load == 0),
                "gpu.memory.used_mib",
                lambda mib: isinstance(mib, int) and mib < UNUSED_MIB,
            ),
            pick=lambda clock: Skip.SKIP if clock is None else supported(clock),
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
            "on {node}: systemctl restart lockstep-gpu-settings; find out what locked the clocks",
        ),
        applies=has_whole_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG),
    ),
    _clock_max(
        "gpu.clock_max",
        "clock",
        "gpu.clocks.max_sm_mhz",
        "clocks.max.sm",
        "The clock that a GPU reaches under load, where heat and power caps limit it. Locked "
        "clocks, which do not change the maximum.",
        *same_device("gpu.name"),
        look=Look(told("gpu.clocks.max_sm_mhz"), pick=supported, devices=DEVICES),
    ),
    _clock_max(
        "gpu.clock_max_memory",
        "memory clock",
        "gpu.clocks.max_memory_mhz",
        "clocks.max.memory",
        "The current memory clock, which gpu.clock_memory checks.",
        *same_device("gpu.name", "gpu.clock_max"),
        look=Look(pick=supported, devices=DEVICES),
    ),
    Rule(
        id="gpu.clock_memory",
        claim="The memory of a GPU in state P0 runs at its full clock.",
        why=(
            "Locked memory clocks (nvidia-smi -lmc) can halve the bandwidth. No other rule finds "
            "them."
        ),
        blind="GPUs in other performance states, whose memory has a low clock.",
        source="nvidia-smi(1), --lock-memory-clocks; idle H200: P0, memory at its maximum",
        reading="gpu.clocks.memory_mhz",
        look=Look(
            only_where(
                both("gpu.clocks.memory_mhz", "gpu.clocks.max_memory_mhz", _full_clock),
                "gpu.pstate",
                lambda state: state == "P0",
            ),
            pick=lambda clock: Skip.SKIP if clock is None else supported(clock),
            devices=DEVICES,
        ),
        expected=Expected(default="gpu.clocks.max_memory_mhz"),
        text=Text(lambda value: f"{value} MHz"),
        repair=by_hand("on {node}: run nvidia-smi -rmc, and find out what locked the memory clock"),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.clock_max_memory")),
    ),
)
