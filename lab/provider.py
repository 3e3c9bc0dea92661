"""What a kind of test machine has to offer; there are two: systemd-nspawn's and QEMU's."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from lab.state import LabState, Node

CONSOLE_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
}


def machine_name(lab: str, node: str) -> str:
    """What a machine is called on the host, in process lists and units."""
    return f"lockstep-{lab}-{node}"


class Provider(Protocol):
    """Makes, boots and ends machines. Switches, images and keys are not its business."""

    @property
    def ready_within_s(self) -> float:
        """How long a machine may take from power-on until it is ready."""

    @property
    def poll_s(self) -> float:
        """How long to wait before a machine that is booting is asked again."""

    @property
    def boots_at_once(self) -> int:
        """How many machines to boot at the same time."""

    def create(self, state: LabState, node: Node) -> None:
        """Make the node's disk and plug it into the switch; for a node that is off; repeatable."""

    def destroy(self, lab: str, node: str) -> None:
        """Remove the disk and everything else of a node that is off; repeatable."""

    def sees_disk(self, node: Node) -> bool:
        """Whether ``disk`` can be used now."""

    def disk(self, lab: str, node: Node) -> AbstractContextManager[Path]:
        """The node's file system as a folder of the host.

        Raises:
            LabError: it cannot be seen from the host while the machine runs.
        """

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
