"""Selects the provider for a kind of machine."""

from lab.nspawn import Nspawn
from lab.provider import Provider
from lab.qemu import Qemu
from lab.state import LabState


def provider_of(lab: LabState) -> Provider:
    """Return the provider of a lab's machines."""
    return Qemu(lab.accelerator) if lab.kernel == "own" else Nspawn()
