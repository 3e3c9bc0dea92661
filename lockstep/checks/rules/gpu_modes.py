"""Rules about the modes of GPUs: ECC, MIG, persistence, compute mode."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, Cause
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    Pending,
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Look,
    Peers,
    Rule,
    Text,
    same,
)
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    after_reset,
    asks,
    both,
    divisible,
    has_gpus,
    supported,
)
from lockstep.plan.nvidia import mig_missing

SHOWN = {
    "default": "Default",
    "exclusive_process": "Exclusive_Process",
    "prohibited": "Prohibited",
}
"""How nvidia-smi writes the modes of the description."""


def _compute_mode_wanted(view: View) -> str | None:
    gpu = view.plan.hardware.hardware.gpu
    return None if gpu is None else SHOWN[gpu.compute_mode]


def _ecc_items(view: View) -> Items:
    return both(view, "gpu.ecc.current", "gpu.ecc.pending", after_reset)


def _ecc_wanted(view: View) -> str:
    gpu = view.plan.hardware.hardware.gpu
    return "Enabled" if gpu is None or gpu.ecc else "Disabled"


def _ecc_pending(view: View, device: str) -> bool:
    return view.items("gpu.ecc.pending").get(device) == _ecc_wanted(view)


def _mig_items(view: View) -> Items:
    return both(view, "gpu.mig.current", "gpu.mig.pending", after_reset)


def _mig_wanted(view: View) -> str:
    gpu = view.plan.hardware.hardware.gpu
    return "Enabled" if gpu is not None and gpu.mig else "Disabled"


def _declared(view: View) -> list[str]:
    gpu = view.plan.hardware.hardware.gpu
    return sorted(gpu.mig) if gpu is not None else []


def _mig_layout_pending(view: View, device: str) -> bool:
    seen = view.items("gpu.mig.devices").get(device)
    return isinstance(seen, list) and mig_missing(_declared(view), map(str, seen)) is None


def _shown(value: JsonValue) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) and value else "no MIG device"


def _persistence_wanted(view: View) -> str:
    gpu = view.plan.hardware.hardware.gpu
    return "Enabled" if gpu is None or gpu.persistence else "Disabled"


RULES = (
    Rule(
        id="gpu.addressing",
        claim="All GPUs of a hardware class have the same addressing mode.",
        why=(
            "With HMM or ATS a GPU can use any pointer of the host. On a node without it the "
            "same program fails."
        ),
        blind="A wrong mode on all nodes.",
        source="nvidia-smi --help-query-gpu, addressing_mode",
        reading="gpu.addressing",
        look=Look(pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda mode: f"addressing mode {mode}"),
        severity=WARNING,
        repair=by_hand(
            peers="compare kernel and modules (driver.module_flavour) of {node} with its peers"
        ),
        applies=asks("gpu.addressing"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("driver.module_flavour"),
            Cause("driver.module_version"),
            Cause("kernel.release"),
        ),
    ),
    Rule(
        id="gpu.compute_mode",
        claim="Every GPU has the declared compute mode.",
        why=(
            "A GPU left in EXCLUSIVE_PROCESS or PROHIBITED refuses the second or the first "
            "process of a job, on one node only."
        ),
        blind="Programs that run on the GPU now.",
        source="nvidia-smi(1), compute mode",
        reading="gpu.compute_mode",
        look=Look(devices=DEVICES),
        expected=same(_compute_mode_wanted),
        repair=by_role("gpu_settings"),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.confidential",
        claim="Confidential computing is on or off on all GPUs of a hardware class.",
        why="Protected transfers are several times slower: one such node slows the whole job.",
        blind="A class where all GPUs have it on.",
        source="nvidia-smi --help-query-gpu, protected_memory.total; confidential computing guide",
        reading="gpu.memory.protected_mib",
        look=Look(pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda mib: f"{mib} MiB of protected memory"),
        repair=by_hand(
            peers="set the mode of the peers on {node}; nvidia-smi conf-compute -f shows it"
        ),
        applies=asks("gpu.memory.protected_mib"),
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.ecc",
        claim="ECC of the GPU memory is as declared, now and after the next reset.",
        why="Without ECC a flipped bit ends up in the model's weights without a sign.",
        blind="Corrected errors: gpu.ecc_corrected counts those.",
        source="nvidia-smi --help-query-gpu, ecc.mode",
        reading="gpu.ecc.current",
        look=Look(_ecc_items, devices=DEVICES),
        expected=same(_ecc_wanted),
        repair=by_role(
            "gpu_settings",
            pending=Pending(
                _ecc_pending,
                (
                    "The wanted mode is set and waits for a reset of the GPU or a reboot. If the "
                    'next reset would end the wanted mode, the status is "differs".'
                ),
            ),
        ),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.mig",
        claim="MIG is on or off as declared, now and after the next reset.",
        why="A GPU that is still divided after a test gives a job an instance in place of a GPU.",
        blind="How a GPU is divided: gpu.mig_layout judges that.",
        source="nvidia-smi --help-query-gpu, mig.mode; MIG user guide",
        reading="gpu.mig.current",
        look=Look(_mig_items, devices=DEVICES),
        expected=same(_mig_wanted),
        text=Text(lambda value: f"MIG {value}"),
        repair=by_role(
            "gpu_settings",
            pending=Pending(
                lambda view, device: view.items("gpu.mig.pending").get(device) == _mig_wanted(view),
                (
                    "The wanted mode is set and waits for a reset of the GPU or a reboot. If the "
                    'next reset would end the wanted mode, the status is "differs".'
                ),
            ),
        ),
        applies=divisible,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.mig_layout",
        claim="Every GPU has the declared MIG devices.",
        why=(
            "A job that asks for a 3g instance waits forever on a node that lost one, or gets "
            "less memory than its peers."
        ),
        blind=(
            "Where on the GPU an instance lies. GPU instances without a compute instance, "
            "except for the missing device."
        ),
        source="nvidia-smi(1), -L; MIG user guide, MIG device names",
        reading="gpu.mig.devices",
        look=Look(devices=DEVICES),
        expected=same(lambda view: list[JsonValue](_declared(view))),
        text=Text(_shown),
        repair=by_role(
            "gpu_settings",
            pending=Pending(
                _mig_layout_pending,
                (
                    "Other instances than declared exist. A deploy only adds missing ones; a "
                    "reboot removes the others and makes the declared ones."
                ),
            ),
        ),
        applies=divisible,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.mig", at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.persistence",
        claim="The driver stays loaded when no job runs.",
        why=(
            "Without persistence a GPU loses its power limit and clocks between jobs, and each "
            "job starts slowly."
        ),
        blind="Whether the daemon or the driver's old persistence mode keeps it loaded.",
        source="NVIDIA driver persistence documentation",
        reading="gpu.persistence",
        look=Look(devices=DEVICES),
        expected=same(_persistence_wanted),
        severity=WARNING,
        repair=by_role("gpu_settings"),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
)
