"""Power limit and persistence mode of every GPU, as declared or as the board's own default.

Owns     what ``nvidia-smi -pl`` and ``-pm`` set on the running driver.
Unread   no answer from nvidia-smi: nothing is done, and the check names the node.
"""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import deploy, operation

from lockstep.facts.gpus import Gpus
from lockstep.plan import NodePlan


@operation()
def running_settings(power_limit_w: float | None, persistence: bool) -> Generator[str, None, None]:
    """Bring each GPU back to its power limit and persistence mode; nvidia-smi(1).

    Args:
        power_limit_w: watts; None: each board's own default.
        persistence: keep the driver loaded without clients.
    """
    gpus = host.get_fact(Gpus)
    if gpus is None:
        host.noop("nvidia-smi gave no answer: nothing done")
        return
    mode = "Enabled" if persistence else "Disabled"
    other_mode = [gpu for gpu in gpus if gpu.persistence not in (mode, "[N/A]")]
    # Persistence first: without it the driver unloads after each command and forgets the limit.
    for gpu in other_mode:
        yield f"nvidia-smi -i {gpu.uuid} -pm {int(persistence)}"
    right = not other_mode
    for gpu in gpus:
        wanted = gpu.default_limit_w if power_limit_w is None else power_limit_w
        if wanted is not None and gpu.enforced_limit_w not in (None, wanted):
            right = False
            yield f"nvidia-smi -i {gpu.uuid} -pl {wanted:g}"
    if right:
        host.noop("every GPU runs with its settings")


@deploy("GPU settings")
def apply(plan: NodePlan) -> None:
    """Set what differs, where the plan has GPUs."""
    gpu = plan.hardware.hardware.gpu
    if gpu is None:
        return
    running_settings(
        name="Power limit and persistence",
        power_limit_w=gpu.power_limit_w,
        persistence=gpu.persistence,
    )
