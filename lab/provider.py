"""What a kind of test machine has to offer; systemd-nspawn is the first, QEMU may follow."""

from collections.abc import Callable, Sequence
from typing import Protocol

from lab.state import LabState, Node


class Provider(Protocol):
    """Makes, boots and ends machines. Networks, images and keys are not its business."""

    def create(self, state: LabState, node: Node) -> None:
        """Make the node's disk available on the host at ``places.node_root``; repeatable."""

    def destroy(self, lab: str, node: str) -> None:
        """Remove the disk and everything else of a node that is off; repeatable."""

    def power_on(self, state: LabState, node: Node, save: Callable[[], None]) -> None:
        """Start the machine; does not wait for it to be ready.

        Sets ``node.process`` and calls ``save`` before anything runs that would outlive this
        program unrecorded.
        """

    def power_off(self, lab: str, node: Node) -> None:
        """Cut its power: no shutdown, no sync. Sets ``node.process`` to None; repeatable."""

    def running(self, node: Node) -> bool:
        """Whether the machine is switched on."""

    def console(self, lab: str, node: Node, command: Sequence[str]) -> list[str]:
        """Argument vector that runs a command as root in the machine without its network."""
