"""Rules about NVLinks, NVSwitches and the topology."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import UNREAD, Cause
from lockstep.checks.context import Items, View, shared
from lockstep.checks.repair import (
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Severities,
    Text,
    same,
)
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._driver import FABRIC_MANAGER
from lockstep.checks.rules._gpu import (
    DEVICES,
    OF_NVLINK,
    RESET_TOGETHER,
    UNREAD_WITH_COUNT,
    both,
    has_all,
    has_gpus,
    has_whole_gpus,
    in_this_driver,
    same_gpu,
    supported,
)
from lockstep.node.check.judge import Judgement
from lockstep.plan import nvidia
from lockstep.report import Severity

STATE, STATUS = "gpu.fabric.state", "gpu.fabric.status"
JOINED = "Completed, Success"
SILENT = ("volta", "turing", "ampere")


def _fabric_items(view: View) -> Items:
    return both(view, STATE, STATUS, lambda state, status: f"{state}, {status}")


def _applies(view: View) -> bool:
    gpu, model = view.plan.hardware.hardware.gpu, view.plan.hardware.gpu_model
    if gpu is None or model is None or not gpu.nvswitch or model.architecture in SILENT:
        return False
    return in_this_driver(view, STATE) and in_this_driver(view, STATUS)


FATAL = "fatal error of a switch"


def _events(view: View, switch: str) -> list[str]:
    events = view.items("driver.sxid").get(switch)
    return [str(event) for event in events] if isinstance(events, list) else []


def _sxid_items(view: View) -> Items:
    return {
        switch: ", ".join(f"SXid {event}" for event in sorted({*_events(view, switch)}))
        if isinstance(events, list)
        else events
        for switch, events in view.items("driver.sxid").items()
    }


def _fatal(view: View, switch: str) -> bool:
    """Say whether an event was fatal; its line contains it."""
    return any(not event.endswith("Non-fatal") for event in _events(view, switch))


def _nvlink_items(view: View) -> Items:
    return {
        device: _text(links) if isinstance(links, dict) else links
        for device, links in view.items("gpu.nvlink.links").items()
    }


def _text(links: Mapping[str, object]) -> str:
    speeds = Counter(str(speed) for speed in links.values())
    return ", ".join(f"{speeds[speed]} x {speed}" for speed in sorted(speeds)) or "no link up"


def _of_model(view: View) -> str | None:
    gpu, model = view.plan.hardware.hardware.gpu, view.plan.hardware.gpu_model
    switched = gpu is not None and gpu.nvswitch
    return model.nvlinks or None if switched and model is not None else None


NAMED = 4


@shared("gpu.topology")
def _topology_items(view: View) -> Items:
    pairs = view.read("gpu.topology")
    if not isinstance(pairs, dict):
        return {"": pairs}
    # gpu.nvlink judges the number of links of a pair.
    ways: list[JsonValue] = [
        f"{pair}: {re.sub('^NV[0-9]+$', 'NV', str(pairs[pair]))}" for pair in sorted(pairs)
    ]
    return {"": ways}


def _matrix(pairs: object) -> str:
    """Return a name for a matrix: equal ones have equal names."""
    return f"matrix {hashlib.sha256(str(pairs).encode()).hexdigest()[:8]}"


def _topology_words(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    here = [str(pair) for pair in found] if isinstance(found, list) else []
    there = [str(pair) for pair in expected] if isinstance(expected, list) else []
    return _only(here, there), _only(there, here)


def _only(these: list[str], others: list[str]) -> str:
    """Return the pairs that only one side has; the first few by name."""
    own = [pair for pair in these if pair not in set(others)]
    more = f" and {len(own) - NAMED} more" if len(own) > NAMED else ""
    return ", ".join(own[:NAMED]) + more if own else "no other pair"


_counter = partial(
    Rule,
    blind="The first record of a boot. GPUs without this counter. Divided GPUs (MIG).",
    look=Look(pick=supported, devices=DEVICES),
    kind=Kind.GROWTH,
    repair=by_hand(RESET_TOGETHER),
    applies=has_whole_gpus,
)
"""Error counters of NVLinks."""

RULES = (
    Rule(
        id="gpu.fabric",
        claim="Every GPU has joined the NVLink fabric of its baseboard.",
        why="CUDA does not start (error 802) until the fabric manager has finished.",
        blind=(
            "Links that are up and have errors. GPUs before Hopper, which do not report their "
            "state."
        ),
        source="NVIDIA fabric manager user guide, nvidia-smi fabric state",
        reading=STATE,
        look=Look(_fabric_items, devices=DEVICES),
        expected=same(JOINED),
        repair=by_role(
            "nvidia_fabric_manager",
            (
                "on {node}: read journalctl -u nvidia-fabricmanager; when no job runs, restart "
                "the fabric manager and reset all GPUs together (nvidia-smi -r)"
            ),
        ),
        applies=_applies,
        on_node=OnNode(
            Local.JOBS, lambda view: [Judgement((STATE, STATUS), devices=DEVICES, expected=JOINED)]
        ),
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("unit.active", device=nvidia.FABRIC_MANAGER),
            Cause("package.version", tag=FABRIC_MANAGER),
            Cause("driver.module_version"),
        ),
    ),
    Rule(
        id="gpu.nvlink",
        claim="All NVLinks of a GPU are up at full speed.",
        why="A GPU with one link less still works, and every collective operation waits for it.",
        blind=(
            "Links that are up and repeat transfers: gpu.nvlink_replay judges those. Divided "
            "GPUs (MIG)."
        ),
        source="nvidia-smi nvlink -s; lockstep/catalog/gpus",
        reading="gpu.nvlink.links",
        look=Look(_nvlink_items, devices=DEVICES),
        expected=same(_of_model),
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: read journalctl -u nvidia-fabricmanager and -k -g SXid; when no "
            "job runs, reset all GPUs together (nvidia-smi -r); if the link stays down, "
            "reseat or replace {device}"
        ),
        applies=has_whole_gpus,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_gpu("gpu.name", "gpu.fabric"),
            Cause("gpu.sxid", tag=FATAL),
        ),
    ),
    _counter(
        id="gpu.nvlink_crc",
        claim="NVLinks had few CRC errors since the last record.",
        why="The link repeats a damaged transfer. Many of them precede a failure.",
        source="nvidia-smi nvlink -e; DCGM: any replay or recovery fails; tolerance of Lockstep",
        reading="gpu.nvlink.crc",
        tolerance=100.0,
        severity=WARNING,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_gpu("gpu.nvlink", "gpu.nvlink_recovery", "gpu.nvlink_replay"),
        ),
    ),
    _counter(
        id="gpu.nvlink_recovery",
        claim="NVLinks needed no recovery since the last record.",
        why="A link that trains again stops all traffic of its GPU meanwhile.",
        source="nvidia-smi nvlink -e; DCGM: any replay or recovery fails",
        reading="gpu.nvlink.recovery",
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_gpu("gpu.nvlink"),
        ),
    ),
    _counter(
        id="gpu.nvlink_replay",
        claim="NVLinks repeated no transfers since the last record.",
        why="Each repetition is a lost transfer. Such a link slows all collective operations.",
        source="nvidia-smi nvlink -e; DCGM: any replay or recovery fails",
        reading="gpu.nvlink.replay",
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_gpu("gpu.nvlink", "gpu.nvlink_recovery"),
        ),
    ),
    Rule(
        id="gpu.sxid",
        claim="No NVSwitch reported an error in this boot.",
        why="A fatal switch error takes down links of all GPUs and ends their jobs.",
        blind=(
            "Machines without a kernel of their own, which do not see its log. An error that a "
            "reset cured is reported until the next boot."
        ),
        source="NVIDIA fabric manager user guide, NVSwitch SXid errors",
        reading="driver.sxid",
        look=Look(_sxid_items),
        expected=same(""),
        text=Text(words=lambda found, expected: (str(found), "no error of the switch")),
        severity=Severities(
            of=lambda view, switch: Severity.ERROR if _fatal(view, switch) else Severity.WARNING
        ),
        repair=by_hand(
            "drain {node}; after a fatal error reset all GPUs together (nvidia-smi -r) or "
            "reboot; if it comes back, replace the switch at {device}"
        ),
        tags=lambda view, switch: frozenset({FATAL, OF_NVLINK} if _fatal(view, switch) else ()),
        applies=lambda view: has_gpus(view) and own_kernel(view),
    ),
    Rule(
        id="gpu.topology",
        claim="GPUs and adapters are connected in the same way on all nodes of a hardware class.",
        why=(
            "An adapter in another slot, or a differently set bridge, sends traffic through "
            "the CPUs."
        ),
        blind=(
            "The same wrong wiring on all nodes. Speed and number of NVLinks: gpu.nvlink "
            "judges those."
        ),
        source="nvidia-smi topo -m",
        reading="gpu.topology",
        look=Look(_topology_items),
        peers=Peers.CLASS,
        text=Text(_matrix, words=_topology_words),
        repair=by_hand(
            peers="compare nvidia-smi topo -m, slots and PCIe settings of {node} with a peer"
        ),
        applies=lambda view: has_whole_gpus(view) and has_all(view),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *(Cause(rule) for rule in ("gpu.count", "gpu.nvlink", "gpu.order", "gpu.fabric")),
            *(Cause(rule) for rule in ("rdma.count", "rdma.names", "gpu.sxid")),
            Cause("gpu.recovery_action", of=UNREAD),
        ),
    ),
)
