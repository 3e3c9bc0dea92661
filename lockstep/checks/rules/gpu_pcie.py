"""Rules about the PCIe links of GPUs."""

from __future__ import annotations

from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, Cause
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    by_hand,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Skip,
    Text,
    default,
    same,
    some,
)
from lockstep.checks.rules._boot import STARTED_SO, started_otherwise, waiting_argument
from lockstep.checks.rules._gpu import (
    DEVICES,
    PCI_GPUS,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    UNREAD_WITH_PCI,
    asks,
    has_gpus,
    has_whole_gpus,
    on_bus,
    only_where,
    same_gpu,
    supported,
    up_to,
)


def _declared(view: View) -> dict[str, JsonValue]:
    """Return the mode of iommu=pt; a machine without an IOMMU passes all transfers as well."""
    if view.plan.hardware.hardware.kernel.iommu != "pt":
        return {}
    return {
        device: "identity" for device, kind in view.items("gpu.pci.iommu").items() if kind != "none"
    }


BUSY = 50
"""Percent of utilization: the link had time to reach its full speed."""


def _pcie_generation_busy_items(view: View) -> Items:
    """Return the generation of busy GPUs, None for the others."""
    reached = up_to("gpu.pcie.generation", "gpu.pcie.generation_max")(view)
    return only_where(view, reached, "gpu.utilization", _busy)


def _busy(percent: JsonValue) -> bool:
    return isinstance(percent, int) and percent >= BUSY


_errors = partial(
    Rule,
    kind=Kind.GROWTH,
    applies=on_bus,
    blind="Machines whose firmware hides these errors. The first record of a boot.",
    repair=by_hand(
        "drain {node} and reseat the device at {device}; if errors continue, replace it"
    ),
)
"""Error counters of the PCIe links of GPUs, and of the links above them."""

_path = partial(
    Rule,
    applies=on_bus,
    repair=by_hand(
        "drain {node} and power-cycle it; if it stays, check riser, cable and switch board"
    ),
)
"""Links between a GPU and the root of its PCIe tree."""

RULES = (
    Rule(
        id="gpu.acs",
        claim="PCIe switches do not redirect traffic between GPUs and adapters to the CPUs.",
        why=(
            "With Access Control Services on, traffic between a GPU and the adapter beside it "
            "passes the root complex, at half the bandwidth or less."
        ),
        blind=(
            "GPUs without a switch above them. A host of virtual machines needs ACS: switch "
            "the rule off there."
        ),
        source="NCCL user guide, troubleshooting, PCI Access Control Services",
        reading="gpu.pci.redirects",
        expected=same(False),
        text=Text(words=lambda found, expected: ("ACS redirects", "no redirect")),
        severity=WARNING,
        repair=by_hand(
            "switch off ACS in the firmware of {node}, or for the bridge {device} at boot (setpci)"
        ),
        applies=on_bus,
        explained_by=UNREAD_WITH_PCI,
    ),
    Rule(
        id="gpu.bar",
        claim="The BAR of every GPU in a hardware class has the same size.",
        why='A small BAR ("above 4G decoding" or resizable BAR off) slows transfers, and some '
        "adapters cannot reach the GPU at all.",
        blind="A wrong size on all nodes.",
        source="/sys/bus/pci/devices/*/resource; nvidia-smi -q, BAR1",
        reading="gpu.pci.bar_mib",
        look=Look(devices=PCI_GPUS),
        peers=Peers.CLASS,
        text=Text(lambda mib: f"{mib} MiB"),
        repair=by_hand(
            peers=(
                'compare "above 4G decoding" and "resizable BAR" in the firmware of {node} '
                "with its peers"
            )
        ),
        applies=on_bus,
        explained_by=UNREAD_WITH_PCI,
    ),
    Rule(
        id="gpu.iommu",
        claim="The IOMMU mode of GPUs is as declared, and otherwise equal in a hardware class.",
        why="Transfers that the IOMMU translates are slower, or refused.",
        blind="What the firmware does below the kernel.",
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
                "compare kernel.cmdline and the firmware's IOMMU setting of {node} with its peers"
            ),
        ),
        tags=lambda view, device: started_otherwise(view, "iommu"),
        applies=on_bus,
        explained_by=(*UNREAD_WITH_PCI, *STARTED_SO),
    ),
    _errors(
        id="gpu.pcie_corrected",
        claim="The PCIe links of GPUs, and the links above them, correct few errors.",
        why="Each error is a repeated transfer: a cable, a riser or a seat is about to fail.",
        source=(
            "kernel documentation, ABI/testing/sysfs-bus-pci-devices-aer_stats; tolerance of "
            "Lockstep"
        ),
        reading="gpu.pci.correctable",
        tolerance=10.0,
        severity=WARNING,
        explained_by=(*UNREAD_WITH_PCI, *same_gpu("gpu.pcie_uncorrected", "gpu.pcie_fatal")),
    ),
    _errors(
        id="gpu.pcie_fatal",
        claim="No PCIe link of a GPU, or above one, failed since the last record.",
        why="The link failed and had to train again, if it came back.",
        source="kernel documentation, ABI/testing/sysfs-bus-pci-devices-aer_stats",
        reading="gpu.pci.fatal",
        explained_by=UNREAD_WITH_PCI,
    ),
    Rule(
        id="gpu.pcie_generation",
        claim="The PCIe links of GPUs in a hardware class support the same generation.",
        why="A firmware setting, a retimer or a riser that allows only Gen4 halves the bandwidth.",
        blind="A limit on all nodes.",
        source="nvidia-smi --help-query-gpu, pcie.link.gen.max",
        reading="gpu.pcie.generation_max",
        look=Look(pick=supported, devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda value: f"at most Gen{value}"),
        repair=by_hand(
            peers="compare the firmware's link speed, retimers and risers of {node} with its peers"
        ),
        applies=asks("gpu.pcie.generation_max"),
        explained_by=(*UNREAD_WITH_COUNT, *same_gpu("gpu.name")),
    ),
    Rule(
        id="gpu.pcie_generation_busy",
        claim="The PCIe link of a busy GPU runs at its highest generation.",
        why="A link with errors trains again at a lower speed and stays there.",
        blind="Idle GPUs, whose link may slow down to save power.",
        source="nvidia-smi --help-query-gpu, pcie.link.gen.current: lower when not in use",
        reading="gpu.pcie.generation",
        look=Look(
            _pcie_generation_busy_items,
            pick=lambda generation: Skip.SKIP if generation is None else supported(generation),
            devices=DEVICES,
        ),
        expected=default("gpu.pcie.generation_max"),
        text=Text(lambda value: f"Gen{value}"),
        repair=by_hand(
            "drain {node}, reset or power-cycle it; if the link stays slow, reseat {device}"
        ),
        applies=lambda view: (
            has_whole_gpus(view) and asks("gpu.pcie.generation", "gpu.pcie.generation_max")(view)
        ),
        explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG, *same_gpu("gpu.pcie_generation")),
    ),
    _path(
        id="gpu.pcie_path_speed",
        claim="Every link between a GPU and the root of its PCIe tree has its full speed.",
        why="GPUs and adapters share a slow link above a switch, while their own links look right.",
        blind=(
            "The GPU's own link: gpu.pcie_generation_busy judges that. A speed that one end "
            "does not support."
        ),
        source="/sys/bus/pci/devices/*/current_link_speed, max_link_speed",
        reading="gpu.pci.speed",
        look=Look(up_to("gpu.pci.speed", "gpu.pci.speed_max")),
        expected=default("gpu.pci.speed_max"),
        text=Text(lambda value: f"{value:g} GT/s"),
        explained_by=(*UNREAD_WITH_PCI, Cause("gpu.pcie_path_width", at=SAME_DEVICE)),
    ),
    _path(
        id="gpu.pcie_path_width",
        claim="Every link between a GPU and the root of its PCIe tree has its full width.",
        why=(
            "GPUs and adapters share a narrow link above a switch, while their own links look "
            "right."
        ),
        blind=(
            "The GPU's own link: gpu.pcie_width judges that. A width that one end does not support."
        ),
        source="/sys/bus/pci/devices/*/current_link_width, max_link_width",
        reading="gpu.pci.width",
        look=Look(up_to("gpu.pci.width", "gpu.pci.width_max")),
        expected=default("gpu.pci.width_max"),
        text=Text(lambda value: f"x{value:g}"),
        explained_by=UNREAD_WITH_PCI,
    ),
    _errors(
        id="gpu.pcie_uncorrected",
        claim="No PCIe link of a GPU, or above one, lost a transfer since the last record.",
        why="A transfer was lost: a program got an error or wrong data.",
        source="kernel documentation, ABI/testing/sysfs-bus-pci-devices-aer_stats",
        reading="gpu.pci.nonfatal",
        explained_by=(*UNREAD_WITH_PCI, *same_gpu("gpu.pcie_fatal")),
    ),
    Rule(
        id="gpu.pcie_width",
        claim="Every GPU's PCIe link uses all its lanes.",
        why=(
            "A badly seated GPU trains with half its lanes: it computes at full speed, gets "
            "data at half speed, and the whole job waits."
        ),
        blind=(
            "Lanes with errors. A slot with fewer lanes than the GPU, which the driver reports "
            "as the maximum: gpu.pcie_width_max compares that with the peers."
        ),
        source="nvidia-smi --help-query-gpu, pcie.link.width",
        reading="gpu.pcie.width_current",
        look=Look(up_to("gpu.pcie.width_current", "gpu.pcie.width_max"), devices=DEVICES),
        expected=default("gpu.pcie.width_max"),
        text=Text(lambda value: f"x{value}"),
        repair=by_hand(
            "drain {node}, reset or power-cycle it; if the link stays narrow, reseat {device}"
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *same_gpu("gpu.pcie_width_max")),
    ),
    Rule(
        id="gpu.pcie_width_max",
        claim="The GPUs of a hardware class can use the same number of PCIe lanes.",
        why=(
            "A GPU in a slot with fewer lanes uses all of them, and still has half the lanes "
            "of its peers."
        ),
        blind="A class whose slots are all narrow.",
        source="nvidia-smi --help-query-gpu, pcie.link.width.max",
        reading="gpu.pcie.width_max",
        look=Look(devices=DEVICES),
        peers=Peers.CLASS,
        text=Text(lambda value: f"at most x{value}"),
        repair=by_hand(
            peers="compare slot, riser and the firmware's bifurcation of {node} with its peers"
        ),
        applies=has_gpus,
        explained_by=(*UNREAD_WITH_COUNT, *same_gpu("gpu.name")),
    ),
)
