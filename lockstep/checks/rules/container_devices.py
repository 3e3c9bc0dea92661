"""A container with all boards sees all boards, engine by engine.

Why      A set that is not complete cost a production cluster a tenth of its speed.
Blind    Containers that jobs start with other options; which board has which name
         (container.uuids).
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule, anything
from lockstep.checks.rules._container import (
    BY_HAND,
    OLD_SPECIFICATION,
    asked,
    boards,
    named,
    part,
    unlike_the_node,
)


def _look(view: View) -> Items:
    seen = part(view, "devices")
    return {engine: named(files, r"/dev/nvidia\d+") for engine, files in seen.items()}


def _words(seen: JsonValue, wanted: JsonValue) -> tuple[str, str]:
    """Return what is missing or too many in place of two lists to compare by eye."""
    return anything(unlike_the_node(seen, wanted)), anything(wanted)


RULE = Rule(
    id="container.devices",
    title="containers see every board",
    reading="containers",
    look=_look,
    expected=boards,
    words=_words,
    applies=asked,
    repair=BY_HAND,
    owner="container_runtime",
    explained_by=OLD_SPECIFICATION,
    source="measured: a report on 1,600 GPUs, device sets of containers",
)
