"""Rules about which GPUs a node has, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    by_hand,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Text,
    at_most,
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
    has_all,
    has_gpus,
    has_whole_gpus,
    on_bus,
    supported,
)
from lockstep.checks.rules.gpu_power import UNUSED_MIB
from lockstep.checks.rules.slurm import seen_by_slurm
from lockstep.node.check.judge import Judgement


def _lost(view: View, device: str) -> str:
    """Return nvidia-smi's messages about lost GPUs."""
    lost = view.read("gpu.lost")
    return (
        ", ".join(f"{where}: {message}" for where, message in lost.items())
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


def _idle(view: View) -> bool:
    """Say whether the controller knows no job on the node."""
    entry = seen_by_slurm(view)
    return isinstance(entry, dict) and entry.get("state") == ["IDLE"]


RULES = (
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
            # If library and module do not match, nvidia-smi lists nothing.
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
)
