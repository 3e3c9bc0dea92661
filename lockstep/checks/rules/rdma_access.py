"""Every user of the node may open the RDMA devices.

Why      A job whose user may not open them falls back to TCP, or ends, on this node only.
Blind    Access lists, and device files inside of containers.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._rdma import UNREAD_WITH_COUNT, has_rdma
from lockstep.probe.record import Unread

READING = "rdma.device_files"
FOLDER = "/dev/infiniband/"
MANAGER, VERBS = FOLDER + "rdma_cm", FOLDER + "uverbs"
ABSENT = "absent"


def _look(view: View) -> Items:
    found = view.items(READING)
    if isinstance(whole := found.get(""), Unread):
        return {"": whole}
    # Others, such as umad0, let their user speak for the whole fabric: not for everybody.
    items: Items = {path: mode for path, mode in found.items() if path.startswith(VERBS)}
    items = items or {VERBS + "0": ABSENT}
    return {**items, MANAGER: found.get(MANAGER, ABSENT)}


def _expected(view: View) -> dict[str, JsonValue]:
    return {path: "666" for path in _look(view) if path}


RULE = Rule(
    id="rdma.access",
    title="jobs may open the RDMA devices",
    reading=READING,
    look=_look,
    expected_each=_expected,
    show=lambda value: ABSENT if value == ABSENT else f"mode {value}",
    applies=has_rdma,
    owner="rdma",
    explained_by=(*UNREAD_WITH_COUNT, Cause("rdma.count", says=ABSENT)),
    source="Linux, drivers/infiniband/core: uverbs_main.c and ucma.c give mode 0666",
)
