"""All NVLinks of a board are up, at full speed.

Why      A board with a link less still works, and every collective waits for it.
Blind    Links that are up and repeat transfers: gpu.nvlink_replay. Divided boards (MIG).
"""

from collections import Counter
from collections.abc import Mapping

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_whole_gpus, same_board
from lockstep.checks.rules.gpu_sxid import FATAL

READING = "gpu.nvlink.links"


def _look(view: View) -> Items:
    return {
        board: _text(links) if isinstance(links, dict) else links
        for board, links in view.items(READING).items()
    }


def _text(links: Mapping[str, object]) -> str:
    speeds = Counter(str(speed) for speed in links.values())
    return ", ".join(f"{speeds[speed]} x {speed}" for speed in sorted(speeds)) or "no link up"


def _of_model(view: View) -> str | None:
    gpu, model = view.plan.hardware.hardware.gpu, view.plan.hardware.gpu_model
    switched = gpu is not None and gpu.nvswitch
    return model.nvlinks or None if switched and model is not None else None


RULE = Rule(
    id="gpu.nvlink",
    title="all NVLinks of the boards are up",
    reading=READING,
    look=_look,
    devices=DEVICES,
    expected=_of_model,
    peers=Peers.CLASS,
    applies=has_whole_gpus,
    repair="on {node}: journalctl -u nvidia-fabricmanager and -k -g SXid; when no job runs, reset "
    "all boards together (nvidia-smi -r); a link that stays away: reseat or replace {device}",
    explained_by=(
        *UNREAD_WITH_COUNT,
        *same_board("gpu.name", "gpu.fabric"),
        Cause("gpu.sxid", with_grounds=FATAL),
    ),
    source="nvidia-smi nvlink -s; lockstep/catalog/gpus",
)
