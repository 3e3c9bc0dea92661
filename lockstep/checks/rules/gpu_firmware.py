"""Rules about GPU drivers and firmware, and about what nvidia-smi answers for a GPU."""

from __future__ import annotations

from functools import partial

from lockstep.checks.context import Items, View
from lockstep.checks.rule import (
    REBOOT_BY_SLURM,
    SAME_DEVICE,
    UNREAD,
    WARNING,
    Bound,
    Cause,
    Expected,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Pending,
    Rule,
    Text,
    by_hand,
    by_role,
    same,
    same_device,
)
from lockstep.checks.rules._gpu import (
    DEVICES,
    GONE,
    LOST,
    UNREAD_WITH_COUNT,
    both,
    has_gpus,
    supported,
    up_to,
)
from lockstep.node.readers.gpu_fields import ALWAYS, EVERY
from lockstep.node.readers.gpu_nvlink import NVLINK_ERRORS
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.plan.reboot import RECOVERED
from lockstep.probe.record import MISSING, Unread

ASKED = "the driver asks for an action"
TIMES, SLOW_S = 3, 2.0
FLASH = (
    "flash VBIOS {expected} onto each GPU of {node} that has a different VBIOS (drain {node} "
    "first; use the server vendor's tool)"
)


FIELDS = (
    *((name, field) for name, field, _ in EVERY if name not in ALWAYS),
    *((f"gpu.nvlink.{kind}", f"NVLink errors ({kind})") for kind in NVLINK_ERRORS),
)


def _supported_fields_items(view: View) -> Items:
    """Return the unsupported fields of each GPU, or why a field could not be read."""
    listed = [*view.items(DEVICES)]
    lacking: dict[str, list[str]] = {device: [] for device in listed}
    unread: Items = {}
    for name, field in FIELDS:
        values = view.items(name)
        whole = values.get("", MISSING)
        for device in listed:
            value = values.get(device, whole)
            if isinstance(value, Unread) and value.is_not_available:
                continue
            if isinstance(value, Unread):
                unread.setdefault("" if value is values.get("") else device, value)
            elif value == NOT_SUPPORTED:
                lacking[device].append(field)
    if "" in unread:
        return {"": unread[""]}
    return {**{device: ", ".join(fields) for device, fields in lacking.items()}, **unread}


_alike = partial(Rule, look=Look(devices=DEVICES), peers=Peers.CLASS, applies=has_gpus)
"""A rule about a value that all GPUs of a class should share."""

RULES = (
    Rule(
        id="gpu.answer_time",
        claim="nvidia-smi answers as fast as on the node's peers.",
        why=(
            "A driver that takes seconds to answer is waiting for a GPU, which often fails soon "
            "after."
        ),
        blind="Answers that take less than two seconds. A class whose nodes are all slow.",
        source=(
            "Lockstep chose the limit: more than three times the median of the class, and more "
            "than 2 s"
        ),
        reading="gpu.answered_in_s",
        # Differences between short times are noise, so all short times count as equal.
        look=Look(pick=lambda s: max(s, SLOW_S / TIMES) if isinstance(s, int | float) else s),
        kind=Kind.WITHIN,
        expected=Expected(bound=Bound.AT_MOST),
        peers=Peers.CLASS,
        tolerance=TIMES - 1,
        text=Text(
            lambda seconds: f"{seconds:.1f} s" if isinstance(seconds, int | float) else str(seconds)
        ),
        severity=WARNING,
        repair=by_hand(
            "on {node}: check gpu.persistence, look for Xid errors (journalctl -k -g Xid), then "
            "reboot the node"
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.persistence"), Cause("unit.active")),
    ),
    Rule(
        id="gpu.lost",
        claim="Every GPU answers the driver.",
        why=(
            "A GPU that is lost, or that cannot be used before a reset, fails every job that gets "
            "it. nvidia-smi may still list it, and may still exit 0."
        ),
        blind="A GPU that is missing altogether, which gpu.count finds.",
        source=(
            "nvml.h, NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED, NVML_ERROR_UNKNOWN; the "
            "programs of the branches 418 to 555"
        ),
        reading="gpu.lost",
        expected=same("an answer"),
        repair=by_hand(
            "drain {node}, look for Xid errors (journalctl -k -g Xid) and power-cycle the node; "
            "reseat or replace the GPU if it does not come back"
        ),
        tags=lambda view, device: frozenset({GONE}),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS),
        explained_by=(Cause("gpu.count", of=UNREAD), Cause("gpu.xid", tag=LOST)),
    ),
    Rule(
        id="gpu.silent",
        claim="Every GPU tells the driver its power, temperature, clocks and load.",
        why=(
            "If a GPU answers with an error, nvidia-smi shows ERR! in its table. Such a GPU often "
            "falls off the bus soon, and programs on it hang."
        ),
        blind="GPUs that do not support a value. GPUs that give no values at all (gpu.lost).",
        source=(
            "nvml.h, NVML_ERROR_UNKNOWN; nvidia-smi --help-query-gpu, power.draw, temperature.gpu, "
            "pstate, enforced.power.limit, clocks.current.sm, utilization.gpu, memory.used"
        ),
        reading="gpu.silent",
        look=Look(devices=DEVICES),
        expected=same(""),
        text=Text(words=lambda found, expected: (str(found), "an answer")),
        repair=by_hand(
            "drain {node}, look for Xid errors (journalctl -k -g Xid) and reboot the node; reseat "
            "or replace {device} if the errors come back"
        ),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS),
        explained_by=(Cause("gpu.count", of=UNREAD), Cause("gpu.lost", tag=GONE, of=UNREAD)),
    ),
    Rule(
        id="gpu.recovery_action",
        claim="No GPU needs a recovery action.",
        why=(
            "Jobs on a GPU in a bad state fail. The driver detects the state and reports the "
            "action to take."
        ),
        blind=(
            "On drivers without the field gpu_recovery_action: GPUs that need an action other than "
            "a reset. Before branch 535: GPUs that need a reset and still give values."
        ),
        source=(
            "nvidia-smi --help-query-gpu, gpu_recovery_action; on drivers that lack it, "
            "reset_status.reset_required and reset_status.drain_and_reset_recommended"
        ),
        reading="gpu.recovery_action",
        look=Look(pick=supported, devices=DEVICES),
        expected=same("None"),
        repair=by_hand(
            "drain {node}, then take the action that the driver names for {device}",
            pending=Pending(
                lambda view, device: view.items("gpu.recovery_action").get(device) in RECOVERED,
                "The GPU needs a reset or a reboot, which the rollout performs.",
            ),
        ),
        tags=lambda view, device: frozenset({ASKED}),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS),
        explained_by=(
            *UNREAD_WITH_COUNT,
            # Only a reported action explains errors. If the action could not be read, it explains
            # other fields that could not be read.
            *same_device("gpu.ecc_uncorrected", "gpu.row_remap", "gpu.xid", tag=ASKED),
        ),
    ),
    _alike(
        id="gpu.driver_version",
        claim="All nodes of a hardware class run the same GPU driver.",
        why=(
            "The fabric manager and the libraries in containers must match the driver on every "
            "node."
        ),
        blind=(
            "An outdated driver on all nodes. driver.module_version finds it if software.nvidia "
            "declares the version."
        ),
        source="nvidia-smi --help-query-gpu, driver_version",
        reading="gpu.driver_version",
        text=Text(lambda value: f"driver {value}"),
        repair=by_hand(peers="install {expected} on {node} and reboot the node when it is idle"),
        explained_by=(*UNREAD_WITH_COUNT, Cause("driver.module_version")),
    ),
    Rule(
        id="gpu.gsp",
        claim="GPUs use the GSP firmware if that is their default.",
        why=(
            "Without the GSP firmware (NVreg_EnableGpuFirmware=0) the driver behaves differently, "
            "and the open modules do not work."
        ),
        blind="The version of the firmware, which comes with the driver's packages.",
        source="NVIDIA driver README, GSP firmware; gsp.mode.default",
        reading="gpu.gsp.current",
        look=Look(up_to("gpu.gsp.current", "gpu.gsp.default"), pick=supported, devices=DEVICES),
        expected=Expected(default="gpu.gsp.default"),
        text=Text(lambda mode: f"GSP {mode}"),
        severity=WARNING,
        repair=by_role(
            "nvidia_driver",
            (
                "remove NVreg_EnableGpuFirmware from /etc/modprobe.d and the kernel command line "
                f"of {{node}}, then {REBOOT_BY_SLURM}"
            ),
        ),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.inforom_valid",
        claim="The infoROM of every GPU is valid.",
        why="A GPU with a corrupt infoROM has lost its configuration and its error history.",
        blind="A valid infoROM with wrong content.",
        source="nvidia-smi --help-query-gpu, inforom.checksum_validation",
        reading="gpu.inforom.checksum",
        look=Look(pick=supported, devices=DEVICES),
        expected=same("valid"),
        repair=by_hand(
            "drain {node}, then get new firmware for {device} from the vendor, or replace {device}"
        ),
        applies=has_gpus,
        on_node=OnNode(Local.HEALTH),
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.inforom_version",
        claim="All GPUs of a hardware class have the same infoROM version.",
        why=(
            "The infoROM determines which errors a GPU reports. Different versions may report "
            "different errors."
        ),
        blind="The same outdated version on all nodes.",
        source="nvidia-smi --help-query-gpu, inforom.img, inforom.ecc",
        reading="gpu.inforom.image",
        look=Look(
            both("gpu.inforom.image", "gpu.inforom.ecc", lambda image, ecc: f"{image}, ECC {ecc}"),
            pick=supported,
            devices=DEVICES,
        ),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(peers="ask the vendor for the right firmware for the GPUs of {node}"),
        applies=has_gpus,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *same_device("gpu.name", "gpu.vbios", "gpu.inforom_valid"),
        ),
    ),
    Rule(
        id="gpu.supported_fields",
        claim="All GPUs of a hardware class report the same fields.",
        why=(
            "If a GPU does not report a field (such as an error counter or the temperature), no "
            "rule can check that field."
        ),
        blind="Fields that no GPU of the class reports, or that the driver does not have.",
        source="nvidia-smi(1): N/A means that the device does not support a field",
        reading=DEVICES,
        look=Look(_supported_fields_items, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda fields: f"not supported: {fields or 'none'}"),
        repair=by_hand(
            "compare the modes (MIG, ECC) and the VBIOS (gpu.vbios) of the affected GPUs in {node} "
            "with those of its peers, then reset these GPUs"
        ),
        applies=has_gpus,
        explained_by=(
            *UNREAD_WITH_COUNT,
            # If a rule checks a field that could not be read, that rule reports it.
            Cause("gpu.*", at=SAME_DEVICE, of=UNREAD),
            *same_device(
                "gpu.nvlink", "gpu.name", "gpu.mig", "gpu.ecc", "gpu.vbios", "gpu.recovery_action"
            ),
        ),
    ),
    _alike(
        id="gpu.vbios",
        claim=(
            "All GPUs of a hardware class have the declared VBIOS or, if none is declared, the "
            "same one."
        ),
        why=(
            "The VBIOS sets power limits and clocks. A replacement GPU often has a different VBIOS."
        ),
        blind="The same outdated VBIOS on all nodes, if none is declared.",
        source="nvidia-smi --help-query-gpu, vbios_version",
        reading="gpu.vbios",
        look=Look(pick=supported, devices=DEVICES),
        expected=same(lambda view: view.plan.hardware.hardware.firmware.vbios),
        severity=WARNING,
        repair=by_hand(FLASH, peers=FLASH),
        explained_by=UNREAD_WITH_COUNT,
    ),
)
