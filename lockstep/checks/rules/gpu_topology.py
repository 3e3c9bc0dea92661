"""Boards and adapters of a node reach each other as on its peers.

Why      An adapter in another slot, or a bridge set otherwise, sends traffic through the CPUs.
Blind    A class where all nodes are wired alike and wrong; how fast a way is, and over how many
         NVLinks: gpu.nvlink.
"""

import hashlib
import re

from pydantic import JsonValue

from lockstep.checks.context import Items, View, shared
from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_COUNT, has_all, has_whole_gpus

READING = "gpu.topology"
NAMED = 4


@shared(READING)
def _look(view: View) -> Items:
    pairs = view.read(READING)
    if not isinstance(pairs, dict):
        return {"": pairs}
    # How many links a pair has is gpu.nvlink's matter.
    ways: list[JsonValue] = [
        f"{pair}: {re.sub('^NV[0-9]+$', 'NV', str(pairs[pair]))}" for pair in sorted(pairs)
    ]
    return {"": ways}


def _matrix(pairs: object) -> str:
    """Return a name for a matrix: equal ones have equal names."""
    return f"matrix {hashlib.sha256(str(pairs).encode()).hexdigest()[:8]}"


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
    show=_matrix,
    applies=lambda view: has_whole_gpus(view) and has_all(view),
    repair_peers="nvidia-smi topo -m on {node} and on a peer; compare slots and PCIe settings",
    explained_by=(
        *UNREAD_WITH_COUNT,
        *(Cause(rule) for rule in ("gpu.count", "gpu.nvlink", "gpu.order", "gpu.fabric")),
        *(Cause(rule) for rule in ("rdma.count", "rdma.names", "gpu.sxid")),
        Cause("gpu.recovery_action", only_unread=True),
    ),
    source="nvidia-smi topo -m",
)
