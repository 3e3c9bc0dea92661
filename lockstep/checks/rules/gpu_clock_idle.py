"""The clock of a board that nobody uses is within its declared lock, or as low as its peers'.

Why      No driver tells the clocks that somebody locked (nvidia-smi -lgc); a board that is locked
         up stays there when nothing runs, hot and loud, or below what the others reach.
Blind    A lock that begins at the lowest clock: it shows under load only. Boards in use or
         divided (MIG). A class where most boards are locked alike and nothing is declared.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Bound, Kind, Peers, Rule, Skip
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, UNREAD_WITH_MIG, has_whole_gpus
from lockstep.probe.record import MISSING, Unread
from lockstep.report import Severity

READING = "gpu.clocks.sm_mhz"
UNUSED_MIB = 256
"""A program that waits holds more (its CUDA context alone), and keeps the clock up."""


def _look(view: View) -> Items:
    """Return the clocks of the boards that nobody uses, None for the others."""
    clocks, loads = view.items(READING), view.items("gpu.utilization")
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
        for board, clock in view.items(READING).items()
        if isinstance(clock, int)
    }


def _words(clock: JsonValue, limit: JsonValue) -> tuple[str, str]:
    below = isinstance(clock, int) and isinstance(limit, int | float) and clock < limit
    return f"{clock} MHz idle", f"at {'least' if below else 'most'} {limit:g} MHz"


RULE = Rule(
    id="gpu.clock_idle",
    title="idle boards show no lock of their clocks",
    reading=READING,
    kind=Kind.WITHIN,
    look=_look,
    devices=DEVICES,
    pick=lambda clock: Skip.SKIP if clock is None else clock,
    expected_some=_within,
    peers=Peers.CLASS,
    bound=Bound.AT_MOST,
    tolerance=0.5,
    words=_words,
    severity=Severity.WARNING,
    applies=has_whole_gpus,
    repair="on {node}: systemctl restart lockstep-gpu-settings; and find what locked the clocks",
    owner="gpu_settings",
    explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG),
    source="nvidia-smi(1), --lock-gpu-clocks; idle H100 and H200: 345 MHz",
)
