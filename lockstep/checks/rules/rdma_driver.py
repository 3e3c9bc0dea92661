"""The RDMA driver stack is the same.

Why      The vendor's modules and those of the kernel behave differently under load.
Blind    Two builds that give themselves the same version, and modules that give none.
"""

from pydantic import JsonValue

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, joined
from lockstep.checks.rules._rdma import FOLLOWS_COUNT, has_rdma
from lockstep.report import Severity

READING = "kernel.modules"
NAMES = (
    *("mlx5_core", "mlx5_ib", "mlx4_core", "bnxt_re", "irdma", "efa"),
    *("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm", "rdma_ucm"),
)


def _words(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return the modules in which they differ."""
    here, there = str(found).split(", "), str(expected).split(", ")
    odd = [place for place, name in enumerate(NAMES) if here[place] != there[place]]
    return (
        ", ".join(f"{NAMES[place]} {here[place]}" for place in odd),
        ", ".join(f"{NAMES[place]} {there[place]}" for place in odd),
    )


RULE = Rule(
    id="rdma.driver",
    title="one RDMA driver per hardware class",
    reading=READING,
    look=joined(READING, *NAMES),
    peers=Peers.CLASS,
    words=_words,
    severity=Severity.WARNING,
    applies=has_rdma,
    repair="on {node}: install the RDMA packages of its peers, then reboot it when it is idle",
    explained_by=(*OTHER_KERNEL, *FOLLOWS_COUNT),
    source="kernel documentation, ABI/testing/sysfs-module (version, srcversion)",
)
