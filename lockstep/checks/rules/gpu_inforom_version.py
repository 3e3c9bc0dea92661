"""Boards of a hardware class have one version of their information store.

Why      The store decides what a board tells of its errors; mixed versions are mixed boards.
Blind    A class where all are old alike.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    asks,
    both,
    same_board,
    supported,
)
from lockstep.report import Severity


def _look(view: View) -> Items:
    return both(
        view, "gpu.inforom.image", "gpu.inforom.ecc", lambda image, ecc: f"{image}, ECC {ecc}"
    )


RULE = Rule(
    id="gpu.inforom_version",
    title="one version of the boards' information store",
    reading="gpu.inforom.image",
    look=_look,
    devices=DEVICES,
    pick=supported,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    applies=asks("gpu.inforom.image", "gpu.inforom.ecc"),
    repair_peers="ask the vendor for the firmware that the boards of {node}'s class should have",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.name", "gpu.vbios", "gpu.inforom_valid")),
    source="nvidia-smi --help-query-gpu, inforom.img, inforom.ecc",
)
