"""Rules: gpu_devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Text,
    at_most,
    default,
    same,
)
from lockstep.checks.rules._driver import DRIVER
from lockstep.checks.rules._gpu import (
    DEVICES,
    LOST,
    PCI_GPUS,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    UNREAD_WITH_PCI,
    asks,
    both,
    has_all,
    has_gpus,
    has_whole_gpus,
    in_this_driver,
    on_bus,
    same_gpu,
    supported,
    up_to,
)
from lockstep.checks.rules.gpu_power import UNUSED_MIB
from lockstep.checks.rules.slurm import seen_by_slurm
from lockstep.node_check.judge import Judgement
from lockstep.probe.node.gpu import GPU_OPTIONAL_FIELDS
from lockstep.probe.node.gpu_links import NVLINK_ERRORS
from lockstep.probe.node.reading import NOT_SUPPORTED
from lockstep.probe.record import MISSING, Unread

TIMES, SLOW_S = 3, 2.0


def _answer_time_items(view: View) -> Items:
    """Return the seconds, short ones as one: their differences are noise."""
    seconds = view.read("gpu.answered_in_s")
    if not isinstance(seconds, int | float):
        return {"": seconds}
    return {"": max(float(seconds), SLOW_S / TIMES)}


def _lost(view: View, device: str) -> str:
    """Return what nvidia-smi says in place of the GPUs that it lost."""
    lost = view.read("gpu.lost")
    return (
        ", ".join(f"{where}: {said}" for where, said in lost.items())
        if isinstance(lost, dict)
        else ""
    )


def number_of(reading: str) -> Callable[[View], Items]:
    """Return a look at how many GPUs a reading lists."""

    def look(view: View) -> Items:
        listed = view.read(reading)
        return {"": len(listed) if isinstance(listed, dict) else listed}

    return look


def planned(view: View) -> int | None:
    """Return the GPUs of the hardware class."""
    gpu = view.plan.hardware.hardware.gpu
    return None if gpu is None else gpu.count


def gpus(value: object) -> str:
    """Return a number of GPUs as text."""
    return f"{value} GPUs" if value != 1 else "1 GPU"


REFUSALS = tuple(f"nvidia-smi: exit {status}:" for status in (9, 12, 15, 18))
"""nvidia-smi(1), return value: no driver, no library, a GPU off the bus; 18 was seen with a
library of another version than the module. An answer, where silence would be none."""


def _count_on_node(view: View) -> Iterator[Judgement]:
    yield Judgement(("gpu.count",), expected=planned(view), shown="{} GPUs", refusals=REFUSALS)


GSP_READING, DEFAULT = "gpu.gsp.current", "gpu.gsp.default"


def _inforom_version_items(view: View) -> Items:
    return both(
        view, "gpu.inforom.image", "gpu.inforom.ecc", lambda image, ecc: f"{image}, ECC {ecc}"
    )


def _idle(view: View) -> bool:
    """Say whether the controller knows of no job there."""
    entry = seen_by_slurm(view)
    return isinstance(entry, dict) and entry.get("state") == ["IDLE"]


FIELDS = (
    *((name, field) for name, field, _ in GPU_OPTIONAL_FIELDS),
    *((f"gpu.nvlink.{kind}", f"NVLink errors ({kind})") for kind in NVLINK_ERRORS),
)


def _supported_fields_items(view: View) -> Items:
    """Return the fields that each GPU lacks; unread where one of them was not read."""
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


RULES = (
    Rule(
        id="gpu.answer_time",
        claim="nvidia-smi answers as fast as on the node's peers.",
        why="A driver that needs seconds to answer waits for a GPU. Often that GPU fails soon.",
        blind="Answers below two seconds. A class whose nodes are all slow.",
        source="three times the median of the class and more than 2 s: our own bound",
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
    Rule(
        id="gpu.count",
        claim="Every node has the GPUs of its hardware class.",
        why="A node that lost a GPU still takes jobs for eight, or runs them on seven.",
        blind="A GPU that is listed and does not work.",
        source="nvidia-smi(1); Xid 79: the GPU has fallen off the bus",
        reading="gpu.count",
        expected=same(planned),
        text=Text(gpus, detail=_lost),
        repair=by_hand(
            "drain {node}, look for Xid errors (journalctl -k -g Xid) and power-cycle it; "
            "reseat or replace a GPU that is still missing"
        ),
        applies=has_gpus,
        on_node=OnNode(Local.JOBS, _count_on_node),
        explained_by=(
            Cause("gpu.xid", tag=LOST),
            # Without a driver that fits together nvidia-smi says nothing at all.
            Cause("driver.module_version", of=UNREAD),
            Cause("driver.library_version", of=UNREAD),
            Cause("package.present", tag=DRIVER, of=UNREAD),
        ),
    ),
    Rule(
        id="gpu.count_driver",
        claim="The kernel module drives as many GPUs as the hardware class has.",
        why=(
            "nvidia-smi and the module may list different numbers. The three counts together "
            "show where a GPU was lost."
        ),
        blind="A GPU that is listed and does not work.",
        source="/proc/driver/nvidia/gpus, NVIDIA driver README",
        reading="driver.boards",
        look=Look(number_of("driver.boards")),
        expected=same(planned),
        text=Text(gpus),
        repair=by_hand("drain {node}, read the driver's messages (journalctl -k -g NVRM), reboot"),
        applies=has_gpus,
        explained_by=(
            Cause("gpu.count"),
            Cause("driver.module_version", of=UNREAD),
            Cause("package.present", tag=DRIVER, of=UNREAD),
        ),
    ),
    Rule(
        id="gpu.count_pci",
        claim="The PCI bus has as many GPUs as the hardware class.",
        why=(
            "A GPU that the bus lost needs power or a new seat. One that only the driver lost "
            "may just need a reset."
        ),
        blind="A GPU that is on the bus and does not answer.",
        source="/sys/bus/pci/devices, classes 0300 and 0302 of vendor 10de",
        reading=PCI_GPUS,
        look=Look(number_of(PCI_GPUS)),
        expected=same(planned),
        text=Text(gpus),
        repair=by_hand(
            "drain {node} and power-cycle it; reseat or replace a GPU that is still missing"
        ),
        applies=on_bus,
        explained_by=(
            Cause("gpu.count"),
            Cause("gpu.count_driver"),
            Cause("gpu.xid", tag=LOST),
        ),
    ),
    Rule(
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
        look=Look(devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda value: f"driver {value}"),
        repair=by_hand(peers="install {expected} on {node} and reboot it when it is idle"),
        applies=has_gpus,
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
        reading=GSP_READING,
        look=Look(up_to(GSP_READING, DEFAULT), pick=supported, devices=DEVICES),
        expected=default(DEFAULT),
        text=Text(lambda mode: f"GSP {mode}"),
        severity=WARNING,
        repair=by_role(
            "nvidia_driver",
            (
                "look for NVreg_EnableGpuFirmware in /etc/modprobe.d and the kernel's command "
                f"line of {{node}}, take it out, then {REBOOT_BY_SLURM}"
            ),
        ),
        applies=asks(GSP_READING, DEFAULT),
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
        id="gpu.memory",
        claim="Every GPU has the memory of its model.",
        why="A GPU with the same name and less memory ends a job that fits on all others.",
        blind="Memory with errors. Memory that another process uses.",
        source="lockstep/catalog/gpus",
        reading="gpu.memory.total_mib",
        look=Look(devices=DEVICES),
        expected=same(
            lambda view: (
                view.plan.hardware.gpu_model.memory_mib if view.plan.hardware.gpu_model else None
            )
        ),
        text=Text(lambda value: f"{value} MiB"),
        repair=by_hand(
            "compare the part number and firmware (gpu.vbios) of the GPU in {node} with its peers"
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.name", at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.memory_used",
        claim="No process uses GPU memory on a node without jobs.",
        why="What a job left behind takes memory and clocks from the next job.",
        blind=(
            "Nodes with a job, or without a scheduler. A job that starts while nodes are read. "
            "Divided GPUs (MIG)."
        ),
        source="nvidia-smi --help-query-gpu, memory.used; idle H200: 0 MiB",
        reading="gpu.memory.used_mib",
        look=Look(devices=DEVICES),
        kind=Kind.ABSOLUTE,
        expected=at_most(UNUSED_MIB),
        text=Text(lambda mib: f"{mib} MiB in use"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: end left-over processes (nvidia-smi "
            "--query-compute-apps=pid,name,used_memory --format=csv)"
        ),
        applies=lambda view: has_whole_gpus(view) and _idle(view),
        explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG),
    ),
    Rule(
        id="gpu.name",
        claim="Every GPU is of the declared model.",
        why="One other GPU in a job slows all others, or has too little memory.",
        blind="GPUs with the same name and other firmware: gpu.vbios judges those.",
        source="lockstep/catalog/gpus",
        reading="gpu.name",
        look=Look(devices=DEVICES),
        expected=same(
            lambda view: (
                view.plan.hardware.gpu_model.product_name if view.plan.hardware.gpu_model else None
            )
        ),
        repair=by_hand("correct gpu.model of the hardware class, or replace the GPU in {node}"),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.numa_node",
        claim="The same slot belongs to the same NUMA node on all nodes of a hardware class.",
        why=(
            "A firmware setting (NPS, SNC) moves GPUs to another NUMA node; jobs are then "
            "bound to the wrong side."
        ),
        blind='A wrong assignment on all nodes. GPUs without a NUMA node ("-1"), where all are so.',
        source="/sys/bus/pci/devices/*/numa_node",
        reading="gpu.pci.numa_node",
        look=Look(devices=PCI_GPUS),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(lambda node: f"NUMA node {node}"),
        repair=by_hand(
            peers="compare the firmware's NUMA settings (NPS, SNC) of {node} with its peers"
        ),
        applies=on_bus,
        explained_by=(Cause("cpu.numa"), *UNREAD_WITH_PCI),
    ),
    Rule(
        id="gpu.order",
        claim="The same GPU number is the same slot on every node of a hardware class.",
        why=(
            "Topology files and bindings of ranks and adapters name GPUs by number. On a node "
            "with another order they bind to the wrong adapter without a message."
        ),
        blind="An order that a program asks for itself (CUDA_DEVICE_ORDER).",
        source="nvidia-smi --help-query-gpu: an index may change at each boot",
        reading="gpu.pci_bus_id",
        look=Look(devices=DEVICES),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            peers="compare the firmware's PCI settings and slots of {node} with its peers"
        ),
        applies=has_all,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.count"), Cause("gpu.count_pci")),
    ),
    Rule(
        id="gpu.serial_unique",
        claim="No two GPUs have the same serial number.",
        why="Warranty claims use this number; two equal ones mean a wrong record.",
        blind="GPUs without a serial number.",
        source="nvidia-smi --help-query-gpu, serial",
        reading="gpu.serial",
        look=Look(pick=supported, devices=DEVICES),
        kind=Kind.UNIQUE,
        repair=by_hand(
            "compare with the labels of the GPUs in {node}, and ask the vendor for the right number"
        ),
        applies=asks("gpu.serial"),
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.uuid_unique")),
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
            # A field that was not read is a finding of the rule that judges it, if there is one.
            Cause("gpu.*", at=SAME_DEVICE, of=UNREAD),
            *same_gpu(
                "gpu.nvlink", "gpu.name", "gpu.mig", "gpu.ecc", "gpu.vbios", "gpu.recovery_action"
            ),
        ),
    ),
    Rule(
        id="gpu.uuid_unique",
        claim="No GPU appears on two nodes.",
        why="A record was cloned, an inventory was copied, or a GPU was passed through twice.",
        blind="GPUs without a UUID.",
        source="nvidia-smi --help-query-gpu, uuid",
        reading="gpu.uuid",
        look=Look(devices="gpu.name"),
        kind=Kind.UNIQUE,
        repair=by_hand("find out which of {node} has the GPU: the records of the others are wrong"),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.vbios",
        claim="All GPUs of a hardware class have the same VBIOS.",
        why="The VBIOS decides power and clocks; a replacement GPU often has another one.",
        blind="A VBIOS that is equally old everywhere.",
        source="nvidia-smi --help-query-gpu, vbios_version",
        reading="gpu.vbios",
        look=Look(devices=DEVICES),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(peers="flash the VBIOS of the GPU on {node} to {expected}"),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
)
