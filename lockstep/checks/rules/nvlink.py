"""Rules about NVLinks, NVSwitches and the topology."""

from __future__ import annotations

import hashlib
import re
from functools import partial

from pydantic import JsonValue

from lockstep.checks.context import Items, View, shared
from lockstep.checks.looks import of_map
from lockstep.checks.rule import (
    UNREAD,
    WARNING,
    Cause,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Severities,
    Text,
    by_hand,
    same,
    same_device,
)
from lockstep.checks.rules._gpu import (
    DEVICES,
    OF_NVLINK,
    RESET_TOGETHER,
    UNREAD_WITH_COUNT,
    has_all,
    has_gpus,
    has_whole_gpus,
    of_model,
    supported,
    switched,
)
from lockstep.checks.rules.boot import own_kernel
from lockstep.node.check.judge import Judgement, tally
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import MISSING
from lockstep.report import Severity

LINKS = "gpu.nvlink.links"


_nvlinks = of_model(lambda model: model.nvlinks or None)

FATAL = "fatal error of a switch"


def _events(view: View, switch: str) -> list[str]:
    events = view.items("driver.sxid").get(switch)
    return [str(event) for event in events] if isinstance(events, list) else []


def _fatal(view: View, switch: str) -> bool:
    """Return whether a switch reported a fatal event; all other events end with "Non-fatal"."""
    return any(not event.endswith("Non-fatal") for event in _events(view, switch))


def _text(links: dict[str, JsonValue]) -> str:
    return tally(links) if links else "no link up"


NAMED = 4


def _topology_items(view: View) -> Items:
    pairs = view.items("gpu.topology")
    # gpu.nvlink checks the number of links.
    ways = (f"{pair}: {re.sub('^NV[0-9]+$', 'NV', str(pairs[pair]))}" for pair in sorted(pairs))
    return pairs if "" in pairs else {"": [*ways]}


def _topology_words(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    here = [str(pair) for pair in found] if isinstance(found, list) else []
    there = [str(pair) for pair in expected] if isinstance(expected, list) else []
    return _only(here, there), _only(there, here)


def _only(these: list[str], others: list[str]) -> str:
    """Name the first pairs that are not in ``others``, and count the rest."""
    own = [pair for pair in these if pair not in set(others)]
    more = f" and {len(own) - NAMED} more" if len(own) > NAMED else ""
    return ", ".join(own[:NAMED]) + more if own else "no other pair"


_counter = partial(
    Rule,
    blind=(
        "Errors before the first record after a boot. GPUs that lack this counter or are "
        "partitioned with MIG."
    ),
    kind=Kind.GROWTH,
    repair=by_hand(RESET_TOGETHER),
    applies=has_whole_gpus,
)
"""A rule about an NVLink error counter."""


def _links(view: View) -> Items:
    """Return the links of each GPU. nvidia-smi may leave out a GPU without any link."""
    items = view.items(LINKS)
    listed = () if "" in items else view.items(DEVICES)
    return {**{device: {} for device in listed if device}, **items}


def _of_links(reading: str) -> Look:
    """Return a ``Look`` at an error counter of the GPUs that have links."""

    def look(view: View) -> Items:
        links, errors = _links(view), view.items(reading)
        linked = [device for device, one in links.items() if one != {}]
        if "" in errors:
            return errors if linked else {}
        # Without a link, there is nothing to count.
        return {
            device: errors.get(device, MISSING if device in linked else NOT_SUPPORTED)
            for device in links
            if device
        }

    return Look(look, pick=supported, devices=LINKS)


RULES = (
    Rule(
        id="gpu.nvlink",
        claim="All NVLinks of a GPU are up at full speed.",
        why="A GPU that has lost a link still works, but every collective operation waits for it.",
        blind=(
            "Repeated transfers, which gpu.nvlink_replay checks. GPUs that are partitioned with "
            "MIG."
        ),
        source="nvidia-smi nvlink -s; lockstep/catalog/gpus",
        reading=LINKS,
        look=Look(_links, pick=of_map(_text), devices=DEVICES),
        expected=same(lambda view: _nvlinks(view) if switched(view) else None),
        peers=Peers.CLASS,
        on_node=OnNode(
            Local.HEALTH,
            lambda view: (
                [Judgement((LINKS,), devices=DEVICES, expected=_nvlinks(view), tally=True)]
                if switched(view) and _nvlinks(view)
                else []
            ),
        ),
        repair=by_hand(
            "on {node}: read journalctl -u nvidia-fabricmanager and journalctl -k -g SXid; when no "
            "jobs are running, reset all GPUs together (nvidia-smi -r); if the link stays down, "
            "reseat or replace {device}"
        ),
        applies=has_whole_gpus,
        explained_by=(
            *UNREAD_WITH_COUNT,
            # The links of a GPU that needs a reset are down.
            *same_device("gpu.name", "gpu.fabric", "gpu.recovery_action"),
            Cause("gpu.sxid", tag=FATAL),
        ),
    ),
    _counter(
        id="gpu.nvlink_crc",
        claim="NVLinks have had few CRC errors since the last record.",
        why="The link replays each corrupted packet. A link with many CRC errors often fails soon.",
        source=(
            "nvidia-smi nvlink -e; DCGM, which fails a node after any replay or recovery; Lockstep "
            "chose the tolerance"
        ),
        reading="gpu.nvlink.crc",
        look=_of_links("gpu.nvlink.crc"),
        tolerance=100.0,
        severity=WARNING,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.nvlink", "gpu.nvlink_recovery", "gpu.nvlink_replay"),
        ),
    ),
    _counter(
        id="gpu.nvlink_packets",
        claim="No NVLink has discarded or damaged a packet since the last record.",
        why=(
            "A link that loses packets repeats them or fails. All these counters stay at 0 on a "
            "healthy link."
        ),
        source=(
            "nvidia-smi nvlink -e on a B300, driver 595.91.07: malformed packets, buffer overruns, "
            "Rx errors, link integrity errors, Tx discards"
        ),
        reading="gpu.nvlink.packet",
        look=_of_links("gpu.nvlink.packet"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.nvlink", "gpu.nvlink_recovery"),
        ),
    ),
    _counter(
        id="gpu.nvlink_recovery",
        claim="No NVLink has needed recovery since the last record.",
        why="While a link retrains, it carries no data, and all collective operations wait for it.",
        source=(
            "nvidia-smi nvlink -e; DCGM, which fails a node after any replay or recovery, and "
            "warns of a successful recovery on Blackwell"
        ),
        reading="gpu.nvlink.recovery",
        look=_of_links("gpu.nvlink.recovery"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.nvlink"),
        ),
    ),
    _counter(
        id="gpu.nvlink_replay",
        claim="No NVLink has repeated a transfer since the last record.",
        why="The link repeats each lost transfer, which slows down all collective operations.",
        source="nvidia-smi nvlink -e; DCGM, which fails a node after any replay or recovery",
        reading="gpu.nvlink.replay",
        look=_of_links("gpu.nvlink.replay"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.nvlink", "gpu.nvlink_recovery"),
        ),
    ),
    _counter(
        id="gpu.nvlink_symbols",
        claim="NVLinks have had few errors that their error correction left over.",
        why=(
            "From Blackwell on, forward error correction (FEC) corrects most errors. A link with "
            "many errors that it cannot correct often fails soon."
        ),
        source=(
            "nvidia-smi nvlink -e on a B300, driver 595.91.07: effective errors and symbol errors, "
            "0 on healthy links; Lockstep chose the tolerance"
        ),
        reading="gpu.nvlink.symbol",
        look=_of_links("gpu.nvlink.symbol"),
        tolerance=100.0,
        severity=WARNING,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.nvlink", "gpu.nvlink_recovery", "gpu.nvlink_packets"),
        ),
    ),
    Rule(
        id="gpu.sxid",
        claim="No NVSwitch has reported an error since boot.",
        why=(
            "A fatal NVSwitch error takes down NVLinks on all GPUs and kills the jobs on them. An "
            "error is reported until the next boot, even after a reset has cleared it."
        ),
        blind="Nodes that are containers, which cannot read the kernel log.",
        source="NVIDIA fabric manager user guide, NVSwitch SXid errors",
        reading="driver.sxid",
        look=Look(
            lambda view: {
                switch: ", ".join(f"SXid {event}" for event in sorted({*_events(view, switch)}))
                if isinstance(events, list)
                else events
                for switch, events in view.items("driver.sxid").items()
            }
        ),
        expected=same(""),
        text=Text(words=lambda found, expected: (str(found), "no NVSwitch errors")),
        severity=Severities(
            of=lambda view, switch: Severity.ERROR if _fatal(view, switch) else Severity.WARNING
        ),
        repair=by_hand(
            "drain {node}; after a fatal error, reset all GPUs together (nvidia-smi -r) or "
            "reboot the node; if the error comes back, replace the NVSwitch at {device}"
        ),
        tags=lambda view, switch: frozenset({FATAL, OF_NVLINK} if _fatal(view, switch) else ()),
        applies=lambda view: has_gpus(view) and own_kernel(view),
    ),
    Rule(
        id="gpu.topology",
        claim="GPUs and adapters are connected in the same way on all nodes of a hardware class.",
        why=(
            "If an adapter is in a different PCI slot, or a bridge is configured differently, "
            "traffic may pass through the CPUs."
        ),
        blind=(
            "The same wrong wiring on all nodes. The speed and number of NVLinks, which gpu.nvlink "
            "checks."
        ),
        source="nvidia-smi topo -m",
        reading="gpu.topology",
        look=Look(shared(_topology_items, "gpu.topology")),
        peers=Peers.CLASS,
        text=Text(
            # A hash is short, and equal matrices have equal hashes.
            lambda pairs: f"matrix {hashlib.sha256(str(pairs).encode()).hexdigest()[:8]}",
            words=_topology_words,
        ),
        repair=by_hand(
            peers=(
                "compare the output of nvidia-smi topo -m, the PCI slots and the PCIe settings of "
                "{node} with those of a peer"
            )
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
