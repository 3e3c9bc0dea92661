"""The driver reported no error of a board in this boot that is the board's own.

Why      An Xid is the first sign of a board that fails, hours before a job does.
Blind    Errors that a program causes (13, 31, 43): they are its own; how often an error came;
         what a reset has cured since: it stays until the next boot. Machines whose kernel is not
         their own: they do not see its log.
Site     monitoring.xid of the description says what it makes of a number.
"""

from collections import Counter
from collections.abc import Iterator

from lockstep.catalog.nvidia.xid import MEMORY, NVLINKS, OFF_THE_BUS, UNLISTED, XIDS
from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Local, Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._gpu import LOST, OF_MEMORY, OF_NVLINK, has_gpus, same_board
from lockstep.node.check.judge import Judgement
from lockstep.probe.record import Unread
from lockstep.report import Severity

READING = "driver.xid"


def _severity(view: View, number: int) -> str:
    site = view.plan.spec.monitoring.xid.get(number)
    if site is not None:
        return "none" if site == "ignore" else site
    return XIDS.get(number, UNLISTED).severity


def _numbers(view: View) -> dict[str, Counter[int]]:
    """Return board -> number -> how often; boards that nvidia-smi no longer lists by address."""
    slots = {
        str(address)[-12:].rpartition(".")[0].lower(): board
        for board, address in view.items("gpu.pci_bus_id").items()
        if not isinstance(address, Unread)
    }
    return {
        slots.get(address, address): Counter(
            number
            for number in numbers
            if isinstance(number, int) and _severity(view, number) != "none"
        )
        for address, numbers in view.items(READING).items()
        if isinstance(numbers, list)
    }


def _look(view: View) -> Items:
    found = view.read(READING)
    if isinstance(found, Unread):
        return {"": found}
    return {board: ", ".join(map(_text, sorted(seen))) for board, seen in _numbers(view).items()}


def _text(number: int) -> str:
    return f"Xid {number} ({XIDS.get(number, UNLISTED).name})"


def _detail(view: View, board: str) -> str:
    return ", ".join(
        f"Xid {number} ({times}x): {XIDS.get(number, UNLISTED).action.value}"
        for number, times in sorted(_numbers(view)[board].items())
    )


def _worst(view: View, board: str) -> Severity:
    levels = {_severity(view, number) for number in _numbers(view)[board]}
    return Severity.WARNING if levels == {"warning"} else Severity.ERROR


def _grounds(view: View, board: str) -> frozenset[str]:
    numbers = set(_numbers(view)[board])
    lost = {LOST} if OFF_THE_BUS in numbers else set()
    of_memory = {OF_MEMORY} if numbers <= MEMORY else set()
    return frozenset(lost | of_memory | ({OF_NVLINK} if numbers <= NVLINKS else set()))


def _on_node(view: View) -> Iterator[Judgement]:
    """Yield the numbers with which no job may start; others are a matter of the check."""
    critical = tuple(number for number in XIDS if _severity(view, number) == "critical")
    yield Judgement((READING,), none_of=critical, slots="gpu.pci_bus_id", shown="Xid {}")


RULE = Rule(
    id="gpu.xid",
    title="no error of a board in this boot",
    reading=READING,
    look=_look,
    expected=lambda view: "",
    words=lambda found, expected: (str(found), "no error of the board"),
    detail=_detail,
    severity_of=_worst,
    grounds=_grounds,
    applies=lambda view: has_gpus(view) and own_kernel(view),
    local=Local.HEALTH,
    on_node=_on_node,
    repair="drain {node}, then do what the detail says; a board whose error comes back is replaced",
    explained_by=(
        *same_board("gpu.ecc_uncorrected", "gpu.row_remap", grounds=OF_MEMORY),
        *same_board("gpu.nvlink", grounds=OF_NVLINK),
        Cause("gpu.sxid", grounds=OF_NVLINK),
    ),
    source="NVIDIA Xid catalogue, lockstep/catalog/nvidia/xid.py",
)
