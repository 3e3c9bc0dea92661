"""Rules about the PCIe links of GPUs."""

from __future__ import annotations

from functools import partial

from pydantic import JsonValue

from lockstep.checks.compare import is_number
from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import (
    SAME_DEVICE,
    WARNING,
    Cause,
    Expected,
    Kind,
    Look,
    Peers,
    Rule,
    Skip,
    Text,
    by_hand,
    same,
    same_device,
    some,
)
from lockstep.checks.rules._gpu import (
    DEVICES,
    PCI_GPUS,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    UNREAD_WITH_PCI,
    has_gpus,
    has_whole_gpus,
    on_bus,
    only_where,
    supported,
    told,
    up_to,
)
from lockstep.checks.rules.boot import STARTED_SO, started_otherwise, waiting_argument
from lockstep.probe.record import MISSING, Unread

IOMMU = ("iommu", "iommu.passthrough")
"""Kernel arguments of x86 and arm64."""


def _declared(view: View) -> dict[str, JsonValue]:
    """Return the mode that iommu=pt sets for each GPU behind an IOMMU, or {} without iommu=pt."""
    if view.plan.hardware.hardware.kernel.iommu != "pt":
        return {}
    return {
        device: "identity" for device, kind in view.items("gpu.pci.iommu").items() if kind != "none"
    }


_errors = partial(
    Rule,
    kind=Kind.GROWTH,
    applies=on_bus,
    blind=(
        "Errors that the firmware handles without telling the kernel. Errors before the first "
        "record after a boot."
    ),
    repair=by_hand(
        "drain {node} and reseat the card at or below PCI address {device}; if errors continue, "
        "replace the card"
    ),
)
"""A rule about an error counter of the PCIe links at or above the GPUs."""

_path = partial(
    Rule,
    applies=on_bus,
    repair=by_hand(
        "drain {node} and power-cycle it; if the link stays slow or narrow, check the riser, the "
        "cable and the PCIe switch board"
    ),
)
"""A rule about the links between a GPU's upstream bridge and its root port."""


def _widest(view: View) -> JsonValue | Unread:
    """Return the width of the widest link of a GPU of the node's hardware class."""
    name = view.plan.hardware.name
    made, key = view.context.made, ("widest link", name)
    if key not in made:
        widths = [
            width
            for one in view.context.views.values()
            if one.plan.hardware.name == name
            for width in one.items("gpu.pcie.width_current").values()
            if isinstance(width, int)
        ]
        made[key] = {"": max(widths, default=0)}
    return made[key][""]


def _allowed(view: View) -> dict[str, tuple[JsonValue | Unread, str]]:
    """Return how many lanes each GPU can have where it is, and how this is known."""
    slots = view.items("gpu.pci.slot_width")
    found: dict[str, tuple[JsonValue | Unread, str]] = {}
    for device, address in view.items("gpu.pci_bus_id").items():
        slot = slots.get(str(address)[-12:].lower())
        seen = isinstance(slot, int | float)
        found[device] = (slot, "the slot has") if seen else (_widest(view), "its class has")
    return found


def _widths(view: View) -> Items:
    """Return the width of each link; a link as wide as its place allows has its full width."""
    allowed = _allowed(view)

    def full(device: str, width: Value, most: Value) -> Value:
        lanes = allowed.get(device, (None, ""))[0]
        enough = is_number(width) and is_number(lanes) and width >= lanes
        return most if enough and is_number(most) and is_number(width) and width < most else width

    most = view.items("gpu.pcie.width_max")
    items = up_to("gpu.pcie.width_current", "gpu.pcie.width_max")(view).items()
    return {device: full(device, width, most.get(device, MISSING)) for device, width in items}


def _width_allowed(view: View, device: str) -> str:
    """Return a note if the place of a GPU allows fewer lanes than the GPU has."""
    lanes, where = _allowed(view).get(device, (None, ""))
    most = view.items("gpu.pcie.width_max").get(device)
    fewer = is_number(lanes) and is_number(most) and lanes < most
    return f"{where} at most x{lanes:g}" if fewer and is_number(lanes) else ""


RULES = (
    Rule(
        id="gpu.acs",
        claim="PCIe switches forward traffic between GPUs and adapters directly, not via the CPUs.",
        why=(
            "With Access Control Services (ACS) on, traffic between a GPU and an adapter on the "
            "same switch passes through the root complex, at half the bandwidth or less. "
            "Virtualization hosts need ACS; turn this rule off for their hardware class."
        ),
        blind="GPUs without a PCIe switch above them.",
        source="NCCL user guide, troubleshooting, PCI Access Control Services",
        reading="gpu.pci.redirects",
        expected=same(False),
        text=Text(words=lambda found, expected: ("redirected by ACS", "not redirected")),
        severity=WARNING,
        repair=by_hand(
            "disable ACS in the firmware of {node}, or for the bridge {device} at each boot "
            "(setpci)"
        ),
        applies=on_bus,
        explained_by=UNREAD_WITH_PCI,
    ),
    Rule(
        id="gpu.bar",
        claim="The GPUs of all nodes of a hardware class have BARs of the same size.",
        why=(
            'If "above 4G decoding" or resizable BAR is off, the BARs are small. Transfers are '
            "then slower, and some adapters cannot reach the GPU at all."
        ),
        blind="The same wrong size on all nodes.",
        source="/sys/bus/pci/devices/*/resource; nvidia-smi -q, BAR1",
        reading="gpu.pci.bar_mib",
        look=Look(devices=PCI_GPUS),
        peers=Peers.CLASS,
        text=Text(lambda mib: f"{mib} MiB"),
        repair=by_hand(
            peers=(
                'compare the "above 4G decoding" and "resizable BAR" settings in the firmware '
                "of {node} with those of its peers"
            )
        ),
        applies=on_bus,
        explained_by=UNREAD_WITH_PCI,
    ),
    Rule(
        id="gpu.iommu",
        claim=(
            "GPUs have the declared IOMMU mode. If none is declared, the mode is the same on all "
            "nodes of a hardware class."
        ),
        why="DMA that the IOMMU translates is slower and may fail.",
        blind="Firmware settings that the kernel does not see.",
        source="kernel documentation, ABI/testing/sysfs-kernel-iommu_groups; iommu=pt is identity",
        reading="gpu.pci.iommu",
        look=Look(devices=PCI_GPUS),
        kind=Kind.SLOTS,
        expected=some(_declared),
        peers=Peers.CLASS,
        text=Text(lambda kind: f"IOMMU {kind}"),
        repair=waiting_argument(
            "iommu",
            peers=(
                "compare the kernel command line and the IOMMU setting in the firmware of {node} "
                "with those of its peers"
            ),
        ),
        tags=lambda view, device: started_otherwise(view, *IOMMU),
        applies=on_bus,
        explained_by=(*UNREAD_WITH_PCI, *STARTED_SO),
    ),
    _errors(
        id="gpu.pcie_corrected",
        claim="The PCIe links of GPUs, and the links above them, have few corrected errors.",
        why=(
            "The link repeats a transfer after each error. Many errors mean that a cable, a riser "
            "or a contact is about to fail."
        ),
        source=(
            "kernel documentation, ABI/testing/sysfs-bus-pci-devices-aer_stats; Lockstep chose the "
            "tolerance"
        ),
        reading="gpu.pci.correctable",
        tolerance=10.0,
        severity=WARNING,
        explained_by=(*UNREAD_WITH_PCI, *same_device("gpu.pcie_uncorrected", "gpu.pcie_fatal")),
    ),
    _errors(
        id="gpu.pcie_fatal",
        claim="No PCIe link at or above a GPU has had a fatal error since the last record.",
        why="After a fatal error, the link is down or has to be retrained.",
        source="kernel documentation, ABI/testing/sysfs-bus-pci-devices-aer_stats",
        reading="gpu.pci.fatal",
        explained_by=UNREAD_WITH_PCI,
    ),
    Rule(
        id="gpu.pcie_generation",
        claim="The PCIe links of all GPUs of a hardware class support the same generation.",
        why="A firmware setting, a retimer or a riser that allows only Gen4 halves the bandwidth.",
        blind="The same limit on all nodes.",
        source="nvidia-smi --help-query-gpu, pcie.link.gen.max",
        reading="gpu.pcie.generation_max",
        look=Look(pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda value: f"at most Gen{value}"),
        repair=by_hand(
            peers=(
                "compare the link speed setting in the firmware, the retimers and the risers of "
                "{node} with those of its peers"
            )
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.name")),
    ),
    Rule(
        id="gpu.pcie_generation_busy",
        claim="The PCIe link of a busy GPU runs at its highest generation.",
        why="A link with errors retrains at a lower speed and stays there.",
        blind=(
            "GPUs with a utilization below 50 %, whose links may slow down to save power. GPUs "
            "that are partitioned with MIG."
        ),
        source="nvidia-smi --help-query-gpu, pcie.link.gen.current: lower when not in use",
        reading="gpu.pcie.generation",
        look=Look(
            only_where(
                up_to("gpu.pcie.generation", "gpu.pcie.generation_max"),
                "gpu.utilization",
                # A GPU this busy has had time to bring its link to full speed.
                lambda percent: isinstance(percent, int) and percent >= 50,
            ),
            pick=lambda generation: Skip.SKIP if generation is None else supported(generation),
            devices=DEVICES,
        ),
        expected=Expected(default="gpu.pcie.generation_max"),
        text=Text(lambda value: f"Gen{value}"),
        repair=by_hand(
            "drain {node}, then reset or power-cycle it; if the link stays slow, reseat {device}"
        ),
        applies=has_whole_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG, *same_device("gpu.pcie_generation")),
    ),
    _path(
        id="gpu.pcie_path_speed",
        claim=(
            "Every PCIe link between a GPU's upstream bridge and its root port runs at full speed."
        ),
        why=(
            "GPUs and adapters share the link above their switch. If this link is slow, all of "
            "them are slow, although their own links are fine."
        ),
        blind=(
            "The GPU's own link, which gpu.pcie_generation_busy checks. Links where one end "
            "supports only a lower speed."
        ),
        source="/sys/bus/pci/devices/*/current_link_speed, max_link_speed",
        reading="gpu.pci.speed",
        look=Look(up_to("gpu.pci.speed", "gpu.pci.speed_max")),
        expected=Expected(default="gpu.pci.speed_max"),
        text=Text(lambda value: f"{value:g} GT/s"),
        explained_by=(*UNREAD_WITH_PCI, Cause("gpu.pcie_path_width", at=SAME_DEVICE)),
    ),
    _path(
        id="gpu.pcie_path_width",
        claim=(
            "Every PCIe link between a GPU's upstream bridge and its root port has its full width."
        ),
        why=(
            "GPUs and adapters share the link above their switch. If this link has fewer lanes, "
            "all of them are slow, although their own links are fine."
        ),
        blind=(
            "The GPU's own link, which gpu.pcie_width checks. Links where one end has fewer lanes."
        ),
        source="/sys/bus/pci/devices/*/current_link_width, max_link_width",
        reading="gpu.pci.width",
        look=Look(up_to("gpu.pci.width", "gpu.pci.width_max")),
        expected=Expected(default="gpu.pci.width_max"),
        text=Text(lambda value: f"x{value:g}"),
        explained_by=UNREAD_WITH_PCI,
    ),
    _errors(
        id="gpu.pcie_uncorrected",
        claim=(
            "No PCIe link at or above a GPU has had a nonfatal uncorrected error since the last "
            "record."
        ),
        why=(
            "Each uncorrected error means that a transfer was lost and that a program got an error "
            "or wrong data."
        ),
        source="kernel documentation, ABI/testing/sysfs-bus-pci-devices-aer_stats",
        reading="gpu.pci.nonfatal",
        explained_by=(*UNREAD_WITH_PCI, *same_device("gpu.pcie_fatal")),
    ),
    Rule(
        id="gpu.pcie_width",
        claim="Every GPU's PCIe link uses all lanes that the GPU and its slot have.",
        why=(
            "The link of a badly seated GPU trains with half its lanes. The GPU gets its data at "
            "half the speed, and the whole job waits."
        ),
        blind=(
            "Lanes with errors. Slots with fewer lanes than the GPU. Virtual machines do not show "
            "the slot: there, a GPU is compared with the widest link of its hardware class, so a "
            "limit on all GPUs of the class is not found."
        ),
        source=(
            "nvidia-smi --help-query-gpu, pcie.link.width; /sys/bus/pci/devices/*/max_link_width "
            "of the bridge above the GPU; clouds give an L40S, T4 or A10G 8 of 16 lanes"
        ),
        reading="gpu.pcie.width_current",
        look=Look(_widths, pick=supported, devices=DEVICES),
        expected=Expected(default="gpu.pcie.width_max"),
        text=Text(lambda value: f"x{value}", detail=_width_allowed),
        repair=by_hand(
            "drain {node}, then reset or power-cycle it; if the link stays narrow, reseat {device}"
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.pcie_width_max")),
    ),
    Rule(
        id="gpu.pcie_width_max",
        claim="All GPUs of a hardware class support the same number of PCIe lanes.",
        why=(
            "A GPU in a slot with half the lanes uses all lanes of that slot, so gpu.pcie_width "
            "finds nothing."
        ),
        blind="A hardware class in which all slots have too few lanes.",
        source="nvidia-smi --help-query-gpu, pcie.link.width.max",
        reading="gpu.pcie.width_max",
        look=Look(told("gpu.pcie.width_max"), pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda value: f"at most x{value}"),
        repair=by_hand(
            peers=(
                "compare the PCI slot, the riser and the bifurcation setting in the firmware of "
                "{node} with those of its peers"
            )
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *same_device("gpu.name")),
    ),
)
