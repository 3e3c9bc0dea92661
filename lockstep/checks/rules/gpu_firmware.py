"""Rules about the driver, the firmware and the answers of GPUs."""

from __future__ import annotations

from functools import partial

from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    REBOOT_BY_SLURM,
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    AT_MOST_PEERS,
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    default,
    same,
)
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    asks,
    both,
    has_gpus,
    in_this_driver,
    same_gpu,
    supported,
    up_to,
)
from lockstep.node.readers.gpu import GPU_OPTIONAL_FIELDS
from lockstep.node.readers.gpu_links import NVLINK_ERRORS
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import MISSING, Unread

TIMES, SLOW_S = 3, 2.0


def _answer_time_items(view: View) -> Items:
    """Return the seconds; short times count as equal because they are noise."""
    seconds = view.read("gpu.answered_in_s")
    if not isinstance(seconds, int | float):
        return {"": seconds}
    return {"": max(float(seconds), SLOW_S / TIMES)}


def _inforom_version_items(view: View) -> Items:
    return both(
        view, "gpu.inforom.image", "gpu.inforom.ecc", lambda image, ecc: f"{image}, ECC {ecc}"
    )


FIELDS = (
    *((name, field) for name, field, _ in GPU_OPTIONAL_FIELDS),
    *((f"gpu.nvlink.{kind}", f"NVLink errors ({kind})") for kind in NVLINK_ERRORS),
)


def _supported_fields_items(view: View) -> Items:
    """Return the fields that each GPU lacks; unread if one of them is."""
    listed = [*view.items(DEVICES)]
    lacking: dict[str, list[str]] = {device: [] for device in listed}
    unread: Items = {}
    for name, field in FIELDS:
        values = view.items(name) if in_this_driver(view, name) else {}
        whole = values.get("", MISSING)
        for device in listed if values else []:
            value = values.get(device, whole)
            if isinstance(value, Unread):
                unread.setdefault("" if value is values.get("") else device, value)
            elif value == NOT_SUPPORTED:
                lacking[device].append(field)
    if "" in unread:
        return {"": unread[""]}
    return {**{device: ", ".join(fields) for device, fields in lacking.items()}, **unread}


_alike = partial(Rule, look=Look(devices=DEVICES), peers=Peers.CLASS, applies=has_gpus)
"""Values that all GPUs of a class have in common."""

RULES = (
    Rule(
        id="gpu.answer_time",
        claim="nvidia-smi answers as fast as on the node's peers.",
        why="A driver that needs seconds to answer waits for a GPU. Often that GPU fails soon.",
        blind="Answers below two seconds. A class whose nodes are all slow.",
        source="three times the median of the class and more than 2 s: limit of Lockstep",
        reading="gpu.answered_in_s",
        look=Look(_answer_time_items),
        kind=Kind.WITHIN,
        expected=AT_MOST_PEERS,
        peers=Peers.CLASS,
        tolerance=TIMES - 1,
        text=Text(
            lambda seconds: f"{seconds:.1f} s" if isinstance(seconds, int | float) else str(seconds)
        ),
        severity=WARNING,
        repair=by_hand("on {node}: check gpu.persistence, look for Xid errors, then reboot"),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.persistence"), Cause("unit.active")),
    ),
    _alike(
        id="gpu.driver_version",
        claim="All nodes of a hardware class run the same GPU driver.",
        why=(
            "The fabric manager and the libraries in containers must match the driver on every "
            "node."
        ),
        blind=(
            "An old driver that runs everywhere while a new one is installed everywhere, "
            "unless software.nvidia declares the version (driver.module_version)."
        ),
        source="nvidia-smi --help-query-gpu, driver_version",
        reading="gpu.driver_version",
        text=Text(lambda value: f"driver {value}"),
        repair=by_hand(peers="install {expected} on {node} and reboot it when it is idle"),
        explained_by=(*UNREAD_WITH_COUNT, Cause("driver.module_version")),
    ),
    Rule(
        id="gpu.gsp",
        claim="GPUs run GSP firmware where that is their default.",
        why=(
            "Without it (NVreg_EnableGpuFirmware=0) the driver behaves differently, and the "
            "open modules do not work."
        ),
        blind="The version of the firmware, which comes with the driver's packages.",
        source="NVIDIA driver README, GSP firmware; gsp.mode.default",
        reading="gpu.gsp.current",
        look=Look(up_to("gpu.gsp.current", "gpu.gsp.default"), pick=supported, devices=DEVICES),
        expected=default("gpu.gsp.default"),
        text=Text(lambda mode: f"GSP {mode}"),
        severity=WARNING,
        repair=by_role(
            "nvidia_driver",
            (
                "look for NVreg_EnableGpuFirmware in /etc/modprobe.d and the kernel's command "
                f"line of {{node}}, take it out, then {REBOOT_BY_SLURM}"
            ),
        ),
        applies=asks("gpu.gsp.current", "gpu.gsp.default"),
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.inforom_valid",
        claim="The infoROM of every GPU is valid.",
        why="A corrupt infoROM has lost its record of errors: replace the GPU.",
        blind="A valid infoROM with wrong content.",
        source="nvidia-smi --help-query-gpu, inforom.checksum_validation",
        reading="gpu.inforom.checksum",
        look=Look(pick=supported, devices=DEVICES),
        expected=same("valid"),
        repair=by_hand("drain {node}, ask the vendor for new firmware, or replace {device}"),
        applies=asks("gpu.inforom.checksum"),
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.inforom_version",
        claim="All GPUs of a hardware class have the same infoROM version.",
        why="The infoROM decides which errors a GPU reports. Mixed versions mean mixed GPUs.",
        blind="An old version on all nodes.",
        source="nvidia-smi --help-query-gpu, inforom.img, inforom.ecc",
        reading="gpu.inforom.image",
        look=Look(_inforom_version_items, pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(peers="ask the vendor for the right firmware for the GPUs of {node}"),
        applies=asks("gpu.inforom.image", "gpu.inforom.ecc"),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_gpu("gpu.name", "gpu.vbios", "gpu.inforom_valid"),
        ),
    ),
    Rule(
        id="gpu.supported_fields",
        claim="The GPUs of a hardware class report the same fields.",
        why=(
            "A GPU that lacks a field of its peers (error counters, temperature) cannot be "
            "judged there."
        ),
        blind="Fields that no GPU of the class reports, or that the driver does not have.",
        source="nvidia-smi(1): N/A is what a device does not support",
        reading=DEVICES,
        look=Look(_supported_fields_items, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda fields: f"not supported: {fields or 'nothing'}"),
        repair=by_hand(
            "compare mode (MIG, ECC) and VBIOS (gpu.vbios) of the GPU in {node} with its "
            "peers, then reset it"
        ),
        applies=has_gpus,
        explained_by=(
            *UNREAD_WITH_COUNT,
            # An unread field is a finding of the rule that judges it, if there is one.
            Cause("gpu.*", at=SAME_DEVICE, of=UNREAD),
            *same_gpu(
                "gpu.nvlink", "gpu.name", "gpu.mig", "gpu.ecc", "gpu.vbios", "gpu.recovery_action"
            ),
        ),
    ),
    _alike(
        id="gpu.vbios",
        claim="All GPUs of a hardware class have the same VBIOS.",
        why="The VBIOS decides power and clocks; a replacement GPU often has another one.",
        blind="A VBIOS that is equally old everywhere.",
        source="nvidia-smi --help-query-gpu, vbios_version",
        reading="gpu.vbios",
        severity=WARNING,
        repair=by_hand(peers="flash the VBIOS of the GPU on {node} to {expected}"),
        explained_by=UNREAD_WITH_COUNT,
    ),
)
