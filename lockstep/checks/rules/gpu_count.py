"""Every node has the GPUs of its hardware class.

Why      A node that lost a board still takes jobs for eight, or runs them on seven.
Blind    A board that is listed and does not work.
"""

from collections.abc import Callable, Iterator

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Local, Rule
from lockstep.checks.rules._driver import DRIVER
from lockstep.checks.rules._gpu import LOST, has_gpus
from lockstep.node.check.judge import Judgement


def _lost(view: View, device: str) -> str:
    """Return what nvidia-smi says in place of the boards that it lost."""
    lost = view.read("gpu.lost")
    return (
        ", ".join(f"{where}: {said}" for where, said in lost.items())
        if isinstance(lost, dict)
        else ""
    )


def number_of(reading: str) -> Callable[[View], Items]:
    """Return a look at how many boards a reading lists."""

    def look(view: View) -> Items:
        listed = view.read(reading)
        return {"": len(listed) if isinstance(listed, dict) else listed}

    return look


def planned(view: View) -> int | None:
    """Return the GPUs of the hardware class."""
    gpu = view.plan.hardware.hardware.gpu
    return None if gpu is None else gpu.count


def boards(value: object) -> str:
    """Return a number of GPUs as text."""
    return f"{value} GPUs" if value != 1 else "1 GPU"


REFUSALS = tuple(f"nvidia-smi: exit {status}:" for status in (9, 12, 15, 18))
"""nvidia-smi(1), return value: no driver, no library, a board off the bus; 18 was seen with a
library of another version than the module. An answer, where silence would be none."""


def _on_node(view: View) -> Iterator[Judgement]:
    yield Judgement(("gpu.count",), expected=planned(view), shown="{} GPUs", refusals=REFUSALS)


RULE = Rule(
    id="gpu.count",
    title="all GPUs of the hardware class answer",
    reading="gpu.count",
    expected=planned,
    show=boards,
    detail=_lost,
    applies=has_gpus,
    local=Local.JOBS,
    on_node=_on_node,
    repair="drain {node}, look for Xid errors (journalctl -k -g Xid), power-cycle it; "
    "a board that stays away is reseated or replaced",
    explained_by=(
        Cause("gpu.xid", with_grounds=LOST),
        # Without a driver that fits together nvidia-smi says nothing at all.
        Cause("driver.module_version", only_unread=True),
        Cause("driver.library_version", only_unread=True),
        Cause("package.present", with_grounds=DRIVER, only_unread=True),
    ),
    source="nvidia-smi(1); Xid 79: the GPU has fallen off the bus",
)
