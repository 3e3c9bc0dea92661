"""The IOMMU translates for boards as declared, else as on their peers.

Why      A translated transfer between boards, adapters and memory is slower, or refused.
Pending  The argument is in the boot loader's configuration: a reboot puts it in force.
Blind    What the firmware does below the kernel.
"""

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import DEPLOY, REBOOT, Kind, Peers, Rule
from lockstep.checks.rules._boot import STARTED_SO, started_otherwise, waits
from lockstep.checks.rules._gpu import PCI_BOARDS, UNREAD_WITH_PCI, on_bus

READING, KEY = "gpu.pci.iommu", "iommu"


def _declared(view: View) -> dict[str, JsonValue]:
    """Return what "pt" means; a machine without an IOMMU passes everything as well."""
    if view.plan.hardware.hardware.kernel.iommu != "pt":
        return {}
    return {board: "identity" for board, kind in view.items(READING).items() if kind != "none"}


RULE = Rule(
    id="gpu.iommu",
    title="the IOMMU lets boards pass as declared",
    reading=READING,
    devices=PCI_BOARDS,
    kind=Kind.SLOTS,
    expected_some=_declared,
    peers=Peers.CLASS,
    show=lambda kind: f"IOMMU {kind}",
    pending=lambda view, device: waits(view, KEY),
    grounds=lambda view, device: started_otherwise(view, KEY),
    applies=on_bus,
    repair=f"{DEPLOY}, then {REBOOT}",
    repair_peers="compare kernel.cmdline and the firmware's IOMMU of {node} with its peers'",
    owner="boot_loader",
    explained_by=(*UNREAD_WITH_PCI, *STARTED_SO),
    source="kernel documentation, ABI/testing/sysfs-kernel-iommu_groups; iommu=pt is identity",
)
