"""Selects the provider for a kind of machine."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from lab.disk_image import ROLES
from lab.nspawn import Nspawn
from lab.provider import Provider
from lab.qemu import Qemu
from lab.state import LabState, Node, NodeRole


class ByRole:
    """Heads of one kind and workers of another, on one switch; see ``lab.provider.Provider``."""

    def __init__(self, kinds: dict[NodeRole, Provider]) -> None:
        """Store the provider of each role."""
        self._kinds = kinds

    def of(self, role: NodeRole) -> Provider:
        """Return the provider of a role."""
        return self._kinds[role]

    @property
    def ready_within_s(self) -> float:
        """The longest time of all kinds."""
        return max(kind.ready_within_s for kind in self._kinds.values())

    @property
    def poll_s(self) -> float:
        """The longest interval of all kinds."""
        return max(kind.poll_s for kind in self._kinds.values())

    @property
    def boots_at_once(self) -> int:
        """The smallest number of all kinds."""
        return min(kind.boots_at_once for kind in self._kinds.values())

    def create(self, state: LabState, node: Node) -> None:
        """Create the disk and switch ports of a node."""
        self.of(node.role).create(state, node)

    def destroy(self, lab: str, node: str) -> None:
        """Remove the disk and everything else of a node: nothing is there of the other kinds."""
        for kind in self._kinds.values():
            kind.destroy(lab, node)

    def sees_disk(self, node: Node) -> bool:
        """Return whether ``disk`` can be used now."""
        return self.of(node.role).sees_disk(node)

    def disk(self, lab: str, node: Node) -> AbstractContextManager[Path]:
        """Return the node's file system as a folder on the host."""
        return self.of(node.role).disk(lab, node)

    def power_on(self, state: LabState, node: Node, save: Callable[[], None]) -> None:
        """Start the machine."""
        self.of(node.role).power_on(state, node, save)

    def power_off(self, lab: str, node: Node) -> None:
        """Power off without shutdown or sync."""
        self.of(node.role).power_off(lab, node)

    def running(self, node: Node) -> bool:
        """Return whether the machine is powered on."""
        return self.of(node.role).running(node)

    def console(self, lab: str, node: Node, command: Sequence[str]) -> list[str]:
        """Return the arguments to run a command as root in the machine without its network."""
        return self.of(node.role).console(lab, node, command)


def provider_of(lab: LabState) -> Provider:
    """Return the provider of a lab's machines."""
    kernels = {role: lab.kernel_of(role) for role in ROLES}
    made: dict[str, Provider] = {"own": Qemu(lab.accelerator), "shared": Nspawn()}
    if len({*kernels.values()}) == 1:
        return made[lab.kernel]
    return ByRole({role: made[kernel] for role, kernel in kernels.items()})
