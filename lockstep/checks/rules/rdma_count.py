"""Every node has the RDMA devices of its hardware class.

Why      A job that finds one adapter less runs with less bandwidth, or over TCP without a word.
Blind    A device that is listed and does not work.
"""

from collections.abc import Iterator

from lockstep.checks.context import Items, View
from lockstep.checks.rule import DEPLOY, Local, Rule
from lockstep.checks.rules._rdma import has_rdma
from lockstep.node.check.judge import Judgement
from lockstep.spec.names import expand


def _missing(view: View, device: str) -> str:
    named = view.plan.hardware.hardware.nics.rdma_devices
    found = view.read("rdma.names")
    if not named or not isinstance(found, list):
        return ""
    missing = [name for name in expand(named) if name not in found]
    return f"missing: {', '.join(missing)}" if missing else ""


def _look(view: View) -> Items:
    found, nics = view.read("rdma.count"), view.plan.hardware.hardware.nics
    if nics.rdma_devices and isinstance(found, int):
        # Which of them are the fabric's, rdma.names says: further ones (storage) are none of it.
        return {"": min(found, nics.count)}
    return {"": found}


def _on_node(view: View) -> Iterator[Judgement]:
    wanted = view.plan.hardware.hardware.nics.count
    yield Judgement(("rdma.count",), expected=wanted, bound="at least", shown="{} RDMA devices")


RULE = Rule(
    id="rdma.count",
    title="all RDMA devices of the hardware class are there",
    reading="rdma.count",
    look=_look,
    expected=lambda view: view.plan.hardware.hardware.nics.count,
    show=lambda value: f"{value} RDMA devices" if value != 1 else "1 RDMA device",
    detail=_missing,
    applies=has_rdma,
    local=Local.JOBS,
    on_node=_on_node,
    owner="rdma",
    repair=f"{DEPLOY}; a device that stays away: "
    "lspci, journalctl -k -g 'mlx|rdma|infiniband', then reseat or replace the adapter",
    source="kernel documentation, ABI/stable/sysfs-class-infiniband",
)
