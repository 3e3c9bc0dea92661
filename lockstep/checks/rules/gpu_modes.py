"""Rules about the modes of GPUs: ECC, MIG, persistence, compute mode."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import (
    SAME_DEVICE,
    WARNING,
    Cause,
    Look,
    Peers,
    Pending,
    Repair,
    Rule,
    Text,
    as_text,
    by_hand,
    by_role,
    same,
)
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    after_reset,
    both,
    has_gpus,
    of_gpus,
    of_model,
    supported,
    told,
)
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.plan.nvidia import mig_missing
from lockstep.probe.record import Unread

SHOWN = {
    "default": "Default",
    "exclusive_process": "Exclusive_Process",
    "prohibited": "Prohibited",
}
"""Maps the compute modes in the description to their names in the output of nvidia-smi."""


def _shown(mode: object) -> str | None:
    """Return a mode as nvidia-smi prints it; None if nobody declared it."""
    return None if mode is None else "Enabled" if mode else "Disabled"


_ecc_wanted = of_gpus(lambda gpu: _shown(gpu.ecc_wanted))
_ecc_modes = both("gpu.ecc.current", "gpu.ecc.pending", after_reset)


def _ecc(view: View) -> Items:
    """Return the ECC mode of each GPU; a model without ECC counts as a GPU with ECC disabled."""
    modes = _ecc_modes(view).items()
    return {device: "Disabled" if one == NOT_SUPPORTED else one for device, one in modes}


_mig_wanted = of_gpus(lambda gpu: _shown(bool(gpu.mig)))
_mig_devices = of_gpus(lambda gpu: list[JsonValue](sorted(gpu.mig)))
_divisible = of_model(lambda model: model.mig_profiles != ())
_mig_known = of_model(lambda model: model.mig_profiles is not None)
_mig_modes = both("gpu.mig.current", "gpu.mig.pending", after_reset)


def _mig_items(view: View) -> Items:
    """Return the MIG mode of each GPU. A model of which it is not known may not support MIG."""
    unknown = not _mig_known(view)
    modes = _mig_modes(view).items()
    lacks = Unread(unread="nvidia-smi: mig.mode.current is N/A")
    return {
        device: one if one != NOT_SUPPORTED else "Disabled" if unknown else lacks
        for device, one in modes
    }


def _mode_repair(reading: str, wanted: Callable[[View], str | None]) -> Repair:
    """Return the repair for a mode whose new value takes effect at the next reset."""
    return by_role(
        "gpu_settings",
        pending=Pending(
            lambda view, device: view.items(reading).get(device) == wanted(view),
            "The declared mode is set and takes effect at the next GPU reset or reboot. If the "
            'declared mode is in force but a reset would change it, the status is "differs".',
        ),
    )


def _mig_layout_pending(view: View, device: str) -> bool:
    seen = view.items("gpu.mig.devices").get(device)
    return isinstance(seen, list) and (
        mig_missing(map(str, _mig_devices(view) or ()), map(str, seen)) is None
    )


RULES = (
    Rule(
        id="gpu.accounting",
        claim="All GPUs of a hardware class have the same accounting mode.",
        why=(
            "With accounting mode, the driver records the use of each process. It was set by hand, "
            "or by a tool that runs on some nodes only."
        ),
        blind="The same wrong mode on all nodes.",
        source="nvidia-smi --help-query-gpu, accounting.mode; nvidia-smi(1), --accounting-mode",
        reading="gpu.accounting",
        look=Look(pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda mode: f"accounting mode {mode}"),
        severity=WARNING,
        repair=by_hand(
            peers="on {node}: run nvidia-smi -am 0, or -am 1 if the other GPUs have it enabled"
        ),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.addressing",
        claim="All GPUs of a hardware class have the same addressing mode.",
        why=(
            "With HMM or ATS, a GPU can use any host pointer. A program that relies on this fails "
            "on a node without HMM or ATS."
        ),
        blind="The same wrong mode on all nodes.",
        source="nvidia-smi --help-query-gpu, addressing_mode",
        reading="gpu.addressing",
        look=Look(pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda mode: f"addressing mode {mode}"),
        severity=WARNING,
        repair=by_hand(
            peers=(
                "compare the kernel and the modules (driver.module_flavour) of {node} with those "
                "of its peers"
            )
        ),
        applies=has_gpus,
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
            "A GPU that was left in EXCLUSIVE_PROCESS mode rejects the second process of a job. In "
            "PROHIBITED mode it rejects every process."
        ),
        blind="Processes that are already running on the GPU.",
        source="nvidia-smi(1), compute mode",
        reading="gpu.compute_mode",
        look=Look(told("gpu.compute_mode"), pick=supported, devices=DEVICES),
        expected=same(of_gpus(lambda gpu: SHOWN[gpu.compute_mode])),
        repair=by_role("gpu_settings"),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.confidential",
        claim="Confidential computing has the same setting on all GPUs of a hardware class.",
        why=(
            "Confidential computing makes transfers several times slower, so one node that uses it "
            "slows down the whole job."
        ),
        blind="A hardware class in which confidential computing is on for all GPUs.",
        source="nvidia-smi --help-query-gpu, protected_memory.total; confidential computing guide",
        reading="gpu.memory.protected_mib",
        look=Look(pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda mib: f"{mib} MiB of protected memory"),
        repair=by_hand(
            peers=(
                "give {node} the same confidential computing mode as its peers; nvidia-smi "
                "conf-compute -f shows the mode"
            )
        ),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.ecc",
        claim=(
            "The ECC mode of every GPU is as declared, or as the model is delivered, now and after "
            "the next reset. If neither is known, all GPUs of a hardware class have the same mode."
        ),
        why="Without ECC, a flipped bit ends up in the model's weights unnoticed.",
        blind="Corrected errors, which gpu.ecc_corrected counts.",
        source="nvidia-smi --help-query-gpu, ecc.mode",
        reading="gpu.ecc.current",
        look=Look(_ecc, devices=DEVICES),
        expected=same(_ecc_wanted),
        peers=Peers.CLASS,
        repair=_mode_repair("gpu.ecc.pending", _ecc_wanted),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.mig",
        claim="The MIG mode of every GPU is as declared, now and after the next reset.",
        why=(
            "If a GPU is still partitioned with MIG after a test, a job gets an instance "
            "instead of a whole GPU."
        ),
        blind="The MIG devices of a GPU, which gpu.mig_layout checks.",
        source="nvidia-smi --help-query-gpu, mig.mode; MIG user guide",
        reading="gpu.mig.current",
        look=Look(_mig_items, devices=DEVICES),
        expected=same(_mig_wanted),
        text=Text(lambda value: f"MIG {value}"),
        repair=_mode_repair("gpu.mig.pending", _mig_wanted),
        applies=lambda view: bool(_divisible(view)),
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.mig_layout",
        claim="Every GPU has the declared MIG devices.",
        why=(
            "If a GPU lacks a declared 3g instance, jobs that request one wait forever, and jobs "
            "that request any MIG device may get less memory than on the node's peers."
        ),
        blind=(
            "The placement of instances on the GPU. Undeclared GPU instances without a compute "
            "instance, which have no MIG device."
        ),
        source="nvidia-smi(1), -L; MIG user guide, MIG device names",
        reading="gpu.mig.devices",
        look=Look(devices=DEVICES),
        expected=same(_mig_devices),
        text=Text(lambda value: as_text(value) if value else "no MIG device"),
        repair=by_role(
            "gpu_settings",
            pending=Pending(
                _mig_layout_pending,
                (
                    "The GPU has instances that are not declared. A deploy only adds missing "
                    "instances; a reboot removes the undeclared ones and creates the declared ones."
                ),
            ),
        ),
        applies=lambda view: bool(_divisible(view)),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.mig", at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.persistence",
        claim=(
            "Every GPU has the declared persistence mode. If none is declared and Lockstep does "
            "not install the driver, all GPUs of a hardware class have the same mode."
        ),
        why=(
            "Without persistence mode, a GPU loses its power limit and locked clocks between jobs, "
            "and each job starts slowly."
        ),
        blind="Whether nvidia-persistenced or the legacy persistence mode keeps the driver loaded.",
        source="NVIDIA driver persistence documentation",
        reading="gpu.persistence",
        look=Look(told("gpu.persistence"), pick=supported, devices=DEVICES),
        expected=same(lambda view: _shown(view.plan.gpu_persistence)),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_role("gpu_settings"),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
)
