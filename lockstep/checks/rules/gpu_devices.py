"""Rules about which GPUs a node has, and where they are."""

from __future__ import annotations

from lockstep.checks.context import Items, Value, View
from lockstep.checks.looks import whole
from lockstep.checks.rule import (
    SAME_DEVICE,
    UNREAD,
    WARNING,
    Cause,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Text,
    as_text,
    at_most,
    by_hand,
    same,
)
from lockstep.checks.rules._gpu import (
    DEVICES,
    GONE,
    LOST,
    PCI_GPUS,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    UNREAD_WITH_PCI,
    has_all,
    has_gpus,
    has_whole_gpus,
    of_model,
    on_bus,
    planned_count,
    supported,
    told,
)
from lockstep.checks.rules.driver import DRIVER
from lockstep.checks.rules.gpu_clocks import UNUSED_MIB
from lockstep.checks.rules.slurm import seen_by_slurm
from lockstep.node.check.judge import Judgement
from lockstep.node.readers.gpu_lost import NO_DRIVER
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import Unread
from lockstep.report import alike


def _number_of(reading: str) -> Look:
    """Return a ``Look`` that counts the GPUs in a reading."""
    return Look(
        whole(reading, lambda view, listed: len(listed) if isinstance(listed, dict) else listed)
    )


def _gpus(value: object) -> str:
    return f"{value} GPUs" if value != 1 else "1 GPU"


def _idle(view: View) -> bool:
    """Return whether the controller reports the node as idle."""
    entry = seen_by_slurm(view)
    return isinstance(entry, dict) and entry.get("state") == ["IDLE"]


RESERVED = 0.02
"""The driver reserves less than this part of the memory. Before branch 510, memory.total leaves it
out: an A100 shows 40536 of 40960 MiB, and a T4 15109 of 15360 MiB."""
OF_ECC = 1 / 16
"""The part of a GDDR memory that ECC takes: an L40S has 46068 MiB with ECC and 49140 without."""


def _memory(view: View) -> Items:
    """Return each GPU's memory size; the model's, if driver and ECC explain the difference.

    A driver reserves the same part of every GPU: one that has less than the others is at fault.
    """
    whole = of_model(lambda model: model.memory_mib)(view) or 0
    items = told("gpu.memory.total_mib")(view)
    delivered = of_model(lambda model: model.ecc)(view)
    modes = view.items("gpu.ecc.current")
    shown: dict[str, set[str]] = {}
    for device, mib in items.items():
        shown.setdefault(str(modes.get(device)), set()).add(str(mib))

    def size(device: str, mib: Value) -> Value:
        on = modes.get(device)
        sizes = [float(whole)]
        if delivered is not False and on == "Disabled":
            sizes.append(whole / (1 - OF_ECC))
        if delivered is not True and on == "Enabled":
            sizes.append(whole * (1 - OF_ECC))
        reserved = RESERVED if len(shown[str(on)]) == 1 else 0.0
        known = isinstance(mib, int) and any(_close(mib, one, reserved) for one in sizes)
        return whole if known else mib

    return {device: size(device, mib) for device, mib in items.items()} if whole else items


def _close(mib: int, whole: float, reserved: float) -> bool:
    return whole * (1 - reserved) - 1 <= mib <= whole + 1


def _names(view: View) -> Items:
    """Return the name of each GPU, with the vendor's name that some drivers leave out."""
    full = of_model(lambda model: model.product_name)(view) or ""

    def name(device: str, shown: Value) -> Value:
        return full if f"NVIDIA {shown}" == full else shown

    return {device: name(device, shown) for device, shown in view.items("gpu.name").items()}


PER_MODULE = {"NVIDIA GB200": 2, "NVIDIA GB300": 2}
"""GPUs on one module, which share its serial number."""


def _serials(view: View) -> Items:
    """Return the serial numbers; if a module's GPUs share one, only the first of them has it."""
    per_module = PER_MODULE.get(of_model(lambda model: model.product_name)(view) or "", 1)
    items = view.items("gpu.serial")
    shared = alike(sorted(items), lambda device: as_text(items[device]))
    again = {
        device
        for devices in shared.values()
        if len(devices) <= per_module
        for device in devices[1:]
        if not isinstance(items[device], Unread)
    }
    return {device: NOT_SUPPORTED if device in again else one for device, one in items.items()}


RULES = (
    Rule(
        id="gpu.count",
        claim="Every node has as many GPUs as its hardware class declares.",
        why=(
            "A node that has lost one of eight GPUs may still accept eight-GPU jobs, which then "
            "fail or run on seven GPUs."
        ),
        blind="A GPU that is listed but does not work.",
        source="nvidia-smi(1); Xid 79: the GPU has fallen off the bus",
        reading="gpu.count",
        expected=same(planned_count),
        text=Text(_gpus),
        repair=by_hand(
            "drain {node}, look for Xid errors (journalctl -k -g Xid) and power-cycle the node; "
            "reseat or replace a GPU that is still missing"
        ),
        applies=has_gpus,
        on_node=OnNode(
            Local.JOBS,
            lambda view: [
                Judgement(
                    ("gpu.count",),
                    expected=planned_count(view),
                    shown="{} GPUs",
                    # Exit statuses of nvidia-smi(1): no driver, no library, or a GPU that has
                    # fallen off the bus. 18 was seen when the versions of library and module
                    # differed. Unlike a timeout, these prove that the GPUs cannot be used.
                    refusals=(
                        *(f"nvidia-smi: exit {status}:" for status in (9, 12, 15, 18)),
                        "nvidia-smi: exit 255: Failed to initialize NVML",
                        "nvidia-smi: exit 255: NVIDIA-SMI has failed",
                        f"{NO_DRIVER}:",
                    ),
                )
            ],
        ),
        explained_by=(
            Cause("gpu.xid", tag=LOST),
            Cause("gpu.lost", tag=GONE),
            # If the library and the module do not match, nvidia-smi lists nothing.
            Cause("driver.module_version", of=UNREAD),
            Cause("driver.library_version", of=UNREAD),
            Cause("package.present", tag=DRIVER, of=UNREAD),
        ),
    ),
    Rule(
        id="gpu.count_driver",
        claim="The NVIDIA kernel module drives as many GPUs as the hardware class declares.",
        why=(
            "nvidia-smi and the module may list different numbers of GPUs. Together, gpu.count, "
            "gpu.count_driver and gpu.count_pci show where a GPU was lost."
        ),
        blind="A GPU that is listed but does not work.",
        source="/proc/driver/nvidia/gpus, NVIDIA driver README",
        reading="driver.boards",
        look=_number_of("driver.boards"),
        expected=same(planned_count),
        text=Text(_gpus),
        repair=by_hand(
            "drain {node}, read the driver's messages (journalctl -k -g NVRM), and reboot the node"
        ),
        applies=has_gpus,
        explained_by=(
            Cause("gpu.count"),
            Cause("gpu.lost", tag=GONE),
            Cause("driver.module_version", of=UNREAD),
            Cause("package.present", tag=DRIVER, of=UNREAD),
        ),
    ),
    Rule(
        id="gpu.count_pci",
        claim="The PCI bus lists as many GPUs as the hardware class declares.",
        why=(
            "A GPU that is missing from the bus must be power-cycled or reseated. A GPU that only "
            "the driver has lost may just need a reset."
        ),
        blind="A GPU that is on the bus but does not answer.",
        source="/sys/bus/pci/devices, classes 0300 and 0302 of vendor 10de",
        reading=PCI_GPUS,
        look=_number_of(PCI_GPUS),
        expected=same(planned_count),
        text=Text(_gpus),
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
        id="gpu.memory",
        claim="Every GPU has the memory size of its model or, if not known, of its peers.",
        why="A job that fits into the memory of all other GPUs fails on a GPU with less memory.",
        blind=(
            "Memory errors. Memory that other processes use. Up to 2 % less memory of all GPUs of "
            "a node, because some drivers leave out what they reserve."
        ),
        source="lockstep/catalog/gpus",
        reading="gpu.memory.total_mib",
        look=Look(_memory, pick=supported, devices=DEVICES),
        expected=same(of_model(lambda model: model.memory_mib)),
        peers=Peers.CLASS,
        text=Text(lambda value: f"{value} MiB"),
        repair=by_hand(
            "compare the part number and the VBIOS (gpu.vbios) of the affected GPUs in {node} with "
            "those of its peers"
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.name", at=SAME_DEVICE)),
    ),
    Rule(
        id="gpu.memory_used",
        claim="No process is using GPU memory on a node without jobs.",
        why=(
            "A process that a job left behind takes memory and computing time from the next job. A "
            "job that starts during the check can also cause this warning."
        ),
        blind=(
            "Nodes that Slurm does not report as idle, and nodes without Slurm. GPUs that are "
            "partitioned with MIG."
        ),
        source="nvidia-smi --help-query-gpu, memory.used; measured on an idle H200: 0 MiB",
        reading="gpu.memory.used_mib",
        look=Look(pick=supported, devices=DEVICES),
        kind=Kind.ABSOLUTE,
        expected=at_most(UNUSED_MIB),
        text=Text(lambda mib: f"{mib} MiB in use"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: run nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv, and "
            "end the leftover processes that it lists"
        ),
        applies=lambda view: has_whole_gpus(view) and _idle(view),
        explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG),
    ),
    Rule(
        id="gpu.name",
        claim="Every GPU is the declared model.",
        why="A GPU of a different model may slow down the whole job or have too little memory.",
        blind="Different firmware on GPUs with the right name, which gpu.vbios finds.",
        source="lockstep/catalog/gpus",
        reading="gpu.name",
        look=Look(_names, devices=DEVICES),
        expected=same(of_model(lambda model: model.product_name)),
        repair=by_hand(
            "correct gpu.model of the hardware class, or replace the wrong GPU in {node}"
        ),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
    Rule(
        id="gpu.numa_node",
        claim="Each PCI slot belongs to the same NUMA node on every node of a hardware class.",
        why=(
            "If a firmware setting (NPS, SNC) moves GPUs to another NUMA node, jobs are bound to "
            "CPUs far from their GPUs."
        ),
        blind="A NUMA node number that is wrong or missing (-1) on all nodes.",
        source="/sys/bus/pci/devices/*/numa_node",
        reading="gpu.pci.numa_node",
        look=Look(devices=PCI_GPUS),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(lambda node: f"NUMA node {node}"),
        repair=by_hand(
            peers=(
                "compare the NUMA settings (NPS, SNC) in the firmware of {node} with those of its "
                "peers"
            )
        ),
        applies=on_bus,
        explained_by=(Cause("cpu.numa"), *UNREAD_WITH_PCI),
    ),
    Rule(
        id="gpu.order",
        claim="Each GPU index refers to the same PCI slot on every node of a hardware class.",
        why=(
            "Topology files and bindings of ranks to adapters refer to GPUs by index. On a node "
            "with a different order, ranks use the wrong adapter, and no error message shows it."
        ),
        blind="Programs that choose their own order of GPUs (CUDA_DEVICE_ORDER).",
        source="nvidia-smi --help-query-gpu: an index may change at each boot",
        reading="gpu.pci_bus_id",
        look=Look(devices=DEVICES),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            peers=(
                "compare the GPU slots and the PCI settings in the firmware of {node} with those "
                "of its peers"
            )
        ),
        applies=has_all,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.count"), Cause("gpu.count_pci")),
    ),
    Rule(
        id="gpu.serial_unique",
        claim=(
            "No two GPUs have the same serial number, except the two GPUs of a GB200 or GB300 "
            "module."
        ),
        why=(
            "Warranty claims use the serial number. If two GPUs report the same number, at least "
            "one GPU has the wrong number."
        ),
        blind="GPUs without a serial number.",
        source="nvidia-smi --help-query-gpu, serial; recorded GB200 and GB300",
        reading="gpu.serial",
        look=Look(_serials, pick=supported, devices=DEVICES),
        kind=Kind.UNIQUE,
        repair=by_hand(
            "compare the serial number with the labels on the GPUs in {node}, and ask the vendor "
            "to correct the GPU that reports a wrong number"
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.uuid_unique")),
    ),
    Rule(
        id="gpu.uuid_unique",
        claim="No GPU appears on two nodes.",
        why=(
            "If a UUID appears twice, either two node names refer to the same machine, a record "
            "was copied, or a hypervisor passed one GPU through to two virtual machines."
        ),
        blind="GPUs without a UUID.",
        source="nvidia-smi --help-query-gpu, uuid",
        reading="gpu.uuid",
        look=Look(devices="gpu.name"),
        kind=Kind.UNIQUE,
        repair=by_hand(
            "find out which of the nodes {node} really has the GPU, and correct the name, the "
            "record or the GPU passthrough of the others"
        ),
        applies=has_gpus,
        explained_by=UNREAD_WITH_COUNT,
    ),
)
