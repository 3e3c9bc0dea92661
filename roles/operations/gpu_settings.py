"""Operations of the role gpu_settings."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from pyinfra import host

from lockstep.facts.gpus import Gpus, GpuSettings
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import MIG_MADE, mig_missing
from lockstep.roles.operations.declared import files_and_units
from lockstep.roles.operations.operation import operation
from lockstep.spec.hardware import Gpu

COMPUTE_MODES = {"default": "Default", "exclusive_process": "Exclusive_Process"}
"""As nvidia-smi prints them; prohibited is Prohibited."""


@operation()
def running_settings(gpu: Gpu, default_w: float) -> Generator[str, None, None]:
    """Bring GPUs that left their settings back to them; nvidia-smi(1).

    Args:
        gpu: the settings as declared. Locked clocks cannot be read back: the unit sets them.
        default_w: the model's own power limit. A board with another one is left alone: somebody
            has to find out why, and the check names it.
    """
    boards = host.get_fact(Gpus)
    if not boards.answered:
        host.noop("nvidia-smi gave no answer: nothing done")
        return
    wrong = False
    # Persistence first: without it the driver unloads after each command and forgets the limit.
    for board in boards.every:
        for words in (
            *_at_once(gpu, board, default_w),
            *(_when_free(gpu, board) if not board.busy else ()),
        ):
            wrong = True
            yield f"nvidia-smi -i {board.uuid} {words}"
        if missing := _missing(gpu, board):
            wrong = True
            yield _divide(board.uuid, missing)
    if not wrong:
        host.noop("every GPU runs with its settings")


def _at_once(gpu: Gpu, board: GpuSettings, default_w: float) -> Iterator[str]:
    """Yield what a job on the board does not notice."""
    mode = "Enabled" if gpu.persistence else "Disabled"
    if board.persistence not in (mode, None):
        yield f"-pm {int(gpu.persistence)}"
    limit_w = default_w if gpu.power_limit_w is None else gpu.power_limit_w
    usual = gpu.power_limit_w is not None or board.default_limit_w == default_w
    if usual and board.enforced_limit_w not in (None, limit_w):
        yield f"-pl {limit_w:g}"


def _when_free(gpu: Gpu, board: GpuSettings) -> Iterator[str]:
    """Yield what ends or disturbs processes on the board."""
    compute_mode = COMPUTE_MODES.get(gpu.compute_mode, "Prohibited")
    if board.compute_mode not in (compute_mode, None):
        yield f"-c {compute_mode.upper()}"
    if board.ecc_pending not in ("Enabled" if gpu.ecc else "Disabled", None):
        yield f"-e {int(gpu.ecc)}"
    if board.mig_pending not in ("Enabled" if gpu.mig else "Disabled", None):
        yield f"-mig {int(bool(gpu.mig))}"


def _missing(gpu: Gpu, board: GpuSettings) -> tuple[str, ...]:
    """Return the MIG devices to add; none where the board's mode does not allow it.

    Something else than declared stays: a job may count on it. The rollout takes it away.
    """
    switched_on = board.mig_pending == "Disabled" and not board.busy
    if board.mig != "Enabled" and not switched_on:
        return ()
    return mig_missing(gpu.mig, board.mig_devices) or ()


def _divide(uuid: str, profiles: tuple[str, ...]) -> str:
    """Return a command that adds MIG devices, where the mode is in force by now.

    Before Hopper it waits for a reset of the board; what is there at boot makes the devices then.
    """
    return (
        f'if [ "$(nvidia-smi -i {uuid} --query-gpu=mig.mode.current --format=csv,noheader)" '
        f"= Enabled ]; then nvidia-smi mig -i {uuid} -cgi {','.join(profiles)} -C "
        f"&& mkdir -p {MIG_MADE.rpartition('/')[0]} && touch {MIG_MADE}; fi"
    )


def apply(plan: NodePlan) -> None:
    """Set what differs."""
    files_and_units(plan, "gpu_settings")
    model = plan.hardware.gpu_model
    assert plan.gpu is not None  # the role is for nodes with GPUs
    assert model is not None  # a class with GPUs has one
    running_settings(name="Running settings", gpu=plan.gpu, default_w=model.default_power_limit_w)
