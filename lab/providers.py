"""Which provider runs which kind of machine."""

from lab.nspawn import Nspawn
from lab.provider import Provider
from lab.qemu import Qemu
from lab.state import LabState


def provider_of(lab: LabState) -> Provider:
    """Who runs a lab's machines."""
    return Qemu(lab.accelerator) if lab.kernel == "own" else Nspawn()
