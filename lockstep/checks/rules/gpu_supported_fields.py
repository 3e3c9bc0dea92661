"""Boards of a hardware class say as much of themselves as their peers do.

Why      A board that has no value for what its peers tell (no error counters, no temperature) is
         not healthy in that: it cannot be judged there.
Blind    What no board of the class tells; fields that the driver does not have at all.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    has_gpus,
    in_this_driver,
    same_board,
)
from lockstep.node.readers.gpu import GPU_OPTIONAL_FIELDS
from lockstep.node.readers.gpu_links import NVLINK_ERRORS
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import MISSING, Unread

FIELDS = (
    *((name, field) for name, field, _ in GPU_OPTIONAL_FIELDS),
    *((f"gpu.nvlink.{kind}", f"NVLink errors ({kind})") for kind in NVLINK_ERRORS),
)


def _look(view: View) -> Items:
    """Return the fields that each board lacks; unread where one of them was not read."""
    boards = [*view.items(DEVICES)]
    lacking: dict[str, list[str]] = {board: [] for board in boards}
    unread: Items = {}
    for name, field in FIELDS:
        values = view.items(name) if in_this_driver(view, name) else {}
        whole = values.get("", MISSING)
        for board in boards if values else []:
            value = values.get(board, whole)
            if isinstance(value, Unread):
                unread.setdefault("" if value is values.get("") else board, value)
            elif value == NOT_SUPPORTED:
                lacking[board].append(field)
    if "" in unread:
        return {"": unread[""]}
    return {**{board: ", ".join(fields) for board, fields in lacking.items()}, **unread}


RULE = Rule(
    id="gpu.supported_fields",
    title="boards of a class support the same fields",
    reading=DEVICES,
    look=_look,
    devices=DEVICES,
    peers=Peers.CLASS,
    show=lambda fields: f"not supported: {fields or 'nothing'}",
    applies=has_gpus,
    repair="compare mode (MIG, ECC) and firmware (gpu.vbios) of the board in {node} with its "
    "peers, then reset it",
    explained_by=(
        *UNREAD_WITH_COUNT,
        # A field that was not read is a finding of the rule that judges it, if there is one.
        Cause("gpu.*", same_device=True, only_unread=True),
        *same_board(
            "gpu.nvlink", "gpu.name", "gpu.mig", "gpu.ecc", "gpu.vbios", "gpu.recovery_action"
        ),
    ),
    source="nvidia-smi(1): N/A is what a device does not support",
)
