"""A container with all boards sees all boards, engine by engine.

Why      A set that is not complete cost a production cluster a tenth of its speed.
Blind    Containers that jobs start with other options; which board has which name
         (container.uuids).
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._container import BY_HAND, OLD_SPECIFICATION, asked, boards, named, part


def _look(view: View) -> Items:
    seen = part(view, "devices")
    return {engine: named(files, r"/dev/nvidia\d+") for engine, files in seen.items()}


RULE = Rule(
    id="container.devices",
    title="containers see every board",
    reading="containers",
    look=_look,
    expected=boards,
    applies=asked,
    repair=BY_HAND,
    owner="container_runtime",
    explained_by=OLD_SPECIFICATION,
    source="measured: a report on 1,600 GPUs, device sets of containers",
)
