"""The memory modules have the same sizes and speeds.

Why      A module that was replaced by a slower one slows all channels of its socket.
Blind    Makers and part numbers, which differ among equal modules; which slot has which.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Kind, Peers, Rule, anything
from lockstep.checks.rules._rdma import counted


def _odd(view: View) -> str:
    """Return the slots whose module is not like most of the node's own."""
    modules = {slot: anything(value) for slot, value in view.items("memory.modules").items()}
    usual = max(modules.values(), key=list(modules.values()).count, default="")
    odd = sorted(slot for slot, module in modules.items() if module != usual)
    return ", ".join(f"{slot}: {modules[slot]}" for slot in odd[:4])


RULE = Rule(
    id="memory.modules",
    title="memory modules are alike in a hardware class",
    reading="memory.modules",
    kind=Kind.MULTISET,
    peers=Peers.CLASS,
    show=counted,
    detail=lambda view, device: _odd(view),
    repair="check {node}: dmidecode -t memory, the firmware's log; reseat or replace the module",
    explained_by=(Cause("platform.product"),),
    source="SMBIOS 7.18, memory device",
)
