"""Operations of the role gpu_settings."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.facts.gpus import GpuSettings, gpu_states
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import MIG_MADE, mig_missing
from lockstep.roles.operations.operation import CommandsOrReason, ask, operation
from lockstep.spec.hardware import Gpu

COMPUTE_MODES = {"default": "Default", "exclusive_process": "Exclusive_Process"}
"""Compute mode in the description -> its name in nvidia-smi; "Prohibited" if not listed here."""


@operation()
def running_settings(
    gpu: Gpu,
    default_w: float | None,
    persistence: bool | None = True,
    shares_power: bool = False,
) -> CommandsOrReason:
    """Use nvidia-smi(1) to change the settings of each GPU that differ from the plan.

    Args:
        gpu: the declared settings. Locked clocks cannot be read back, so only the role's
            systemd unit sets them.
        default_w: the default power limit of the GPU model, in watts; None: not known. If no limit
            is declared, a GPU with a lower default keeps its limit; the check reports the
            difference. Otherwise, each GPU gets its own default.
        persistence: the wanted persistence mode; None: unchanged.
        shares_power: whether the module of the GPU can hold its limit below the one that was set;
            then the limit in force says nothing, and changes only if one is declared.
    """
    gpus = ask(gpu_states())
    if not gpus.answered:
        return "nvidia-smi failed, or reported a lost GPU, so nothing was changed"
    # Persistence mode first: without it the driver shuts down an idle GPU, and its limit is lost.
    for board in gpus.every:
        for words in (
            *_at_once(gpu, board, default_w, persistence, shares_power),
            *(_when_free(gpu, board) if not board.busy else ()),
        ):
            yield f"nvidia-smi -i {board.uuid} {words}"
        if missing := _missing(gpu, board):
            yield _divide(board.uuid, missing)
    return "every GPU has the planned settings"


def _at_once(
    gpu: Gpu,
    board: GpuSettings,
    default_w: float | None,
    persistence: bool | None,
    shares_power: bool,
) -> Iterator[str]:
    """Yield nvidia-smi options for the changes that do not disturb a job on the GPU."""
    mode = "Enabled" if persistence else "Disabled"
    if persistence is not None and board.persistence not in (mode, None):
        yield f"-pm {int(persistence)}"
    own_w = board.default_limit_w
    limit_w = gpu.power_limit_w if gpu.power_limit_w is not None else own_w
    usual = not shares_power and (default_w is None or (own_w or 0) >= default_w)
    wanted = usual or gpu.power_limit_w is not None
    if wanted and limit_w is not None and board.enforced_limit_w not in (None, limit_w):
        yield f"-pl {limit_w:g}"


def _when_free(gpu: Gpu, board: GpuSettings) -> Iterator[str]:
    """Yield nvidia-smi options for the changes that must wait until no process is using the GPU."""
    compute_mode = COMPUTE_MODES.get(gpu.compute_mode, "Prohibited")
    if board.compute_mode not in (compute_mode, None):
        yield f"-c {compute_mode.upper()}"
    ecc = gpu.ecc_wanted
    if ecc is not None and board.ecc_pending not in ("Enabled" if ecc else "Disabled", None):
        yield f"-e {int(ecc)}"
    if board.mig_pending not in ("Enabled" if gpu.mig else "Disabled", None):
        yield f"-mig {int(bool(gpu.mig))}"


def _missing(gpu: Gpu, board: GpuSettings) -> tuple[str, ...]:
    """Return the MIG devices to add; none if MIG mode is off and is not being switched on.

    A MIG device that is not declared stays, because a job may be using it. The rollout removes it.
    """
    switched_on = board.mig_pending == "Disabled" and not board.busy
    if board.mig != "Enabled" and not switched_on:
        return ()
    return mig_missing(gpu.mig, board.mig_devices) or ()


def _divide(uuid: str, profiles: tuple[str, ...]) -> str:
    """Return a command that adds MIG devices if MIG mode is already in effect.

    On GPUs before Hopper, MIG mode takes effect only after a reset; the role's systemd unit adds
    the devices at the next boot.
    """
    return (
        f'if [ "$(nvidia-smi -i {uuid} --query-gpu=mig.mode.current --format=csv,noheader)" '
        f"= Enabled ]; then nvidia-smi mig -i {uuid} -cgi {','.join(profiles)} -C "
        f"&& mkdir -p {MIG_MADE.rpartition('/')[0]} && touch {MIG_MADE}; fi"
    )


def afterwards(plan: NodePlan) -> None:
    """Change the settings that differ from the plan."""
    model = plan.hardware.gpu_model
    assert plan.gpu is not None  # only nodes with GPUs have this role
    assert model is not None  # a class with GPUs has a GPU model
    running_settings(
        name="Running settings",
        gpu=plan.gpu,
        default_w=model.default_power_limit_w,
        persistence=plan.gpu_persistence,
        shares_power=model.shares_power,
    )
