"""A container with all boards sees all boards, engine by engine.

Why      A set that is not complete cost a production cluster a tenth of its speed.
Blind    Containers that jobs start with other options.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._container import OLD_SPECIFICATION, asked, boards, part


def _look(view: View) -> Items:
    return part(view, "boards")


RULE = Rule(
    id="container.devices",
    title="containers see every board",
    reading="containers",
    look=_look,
    expected=boards,
    applies=asked,
    repair="on {node}: start one by hand with {device}; see its log (journalctl -u {device})",
    owner="container_runtime",
    explained_by=OLD_SPECIFICATION,
    source="measured: a report on 1,600 GPUs, device sets of containers",
)
