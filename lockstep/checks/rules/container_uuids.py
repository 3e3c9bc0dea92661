"""The boards in a container are the node's boards, by UUID.

Why      A file of the right name with another board's number gives one board twice and hides one.
Blind    Boards that the kernel module does not know: gpu.count.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._container import (
    BY_HAND,
    OLD_SPECIFICATION,
    asked,
    difference,
    numbered,
    part,
    unlike_the_node,
)
from lockstep.probe.record import Unread


def _uuids(files: Value, boards: Items) -> Value:
    entries = numbered(files, r"/dev/nvidia\d+")
    if not isinstance(entries, list):
        return entries
    uuids: list[JsonValue] = []
    for entry in map(str, entries):
        uuid = boards.get(entry.split()[1], f"no board at {entry}")
        if isinstance(uuid, Unread):
            return uuid
        uuids.append(uuid)
    return uuids


def _look(view: View) -> Items:
    boards = view.items("driver.boards")
    if isinstance(unread := boards.get(""), Unread):
        return {"": unread}
    own: Value = [uuid for uuid in boards.values() if isinstance(uuid, str)]
    seen = part(view, "devices")
    return {engine: unlike_the_node(_uuids(files, boards), own) for engine, files in seen.items()}


RULE = Rule(
    id="container.uuids",
    title="containers see the node's boards by UUID",
    reading="containers",
    look=_look,
    expected=lambda view: [],
    show=difference,
    applies=asked,
    repair=BY_HAND,
    owner="container_runtime",
    explained_by=(
        *OLD_SPECIFICATION,
        Cause("container.devices", same_device=True),
        Cause("driver.*", only_unread=True),
        Cause("gpu.count_driver"),
    ),
    source="Linux, Documentation/admin-guide/devices.txt; /proc/driver/nvidia/gpus/*/information",
)
