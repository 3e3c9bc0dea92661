"""Boards and adapters of a node reach each other as on its peers.

Why      An adapter in another slot, or a bridge set otherwise, sends traffic through the CPUs.
Blind    A class where all nodes are wired alike and wrong; how fast a way is.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_COUNT, has_whole_gpus

READING = "gpu.topology"
NAMED = 4


def _look(view: View) -> Items:
    pairs = view.read(READING)
    if not isinstance(pairs, dict):
        return {"": pairs}
    ways: list[JsonValue] = [f"{pair}: {pairs[pair]}" for pair in sorted(pairs)]
    return {"": ways}


def _words(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    here = [str(pair) for pair in found] if isinstance(found, list) else []
    there = [str(pair) for pair in expected] if isinstance(expected, list) else []
    return _only(here, there), _only(there, here)


def _only(these: list[str], others: list[str]) -> str:
    """Return the pairs that only one side has; the first few by name."""
    own = [pair for pair in these if pair not in set(others)]
    more = f" and {len(own) - NAMED} more" if len(own) > NAMED else ""
    return ", ".join(own[:NAMED]) + more if own else "no other pair"


RULE = Rule(
    id="gpu.topology",
    title="boards and adapters are connected alike in a class",
    reading=READING,
    look=_look,
    peers=Peers.CLASS,
    words=_words,
    show=lambda pairs: f"{len(pairs) if isinstance(pairs, list) else 0} pairs",
    applies=has_whole_gpus,
    repair_peers="nvidia-smi topo -m on {node} and on a peer; compare slots and PCIe settings",
    explained_by=(
        *UNREAD_WITH_COUNT,
        *(Cause(rule) for rule in ("gpu.count", "gpu.nvlink", "gpu.order", "gpu.fabric")),
        *(Cause(rule) for rule in ("rdma.count", "rdma.names", "gpu.sxid")),
        Cause("gpu.recovery_action", only_unread=True),
    ),
    source="nvidia-smi topo -m",
)
