"""Interface of the two kinds of test machines: systemd-nspawn and QEMU."""

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
    """Return the machine's name on the host, as in process lists and units."""
    return f"lockstep-{lab}-{node}"


class Provider(Protocol):
    """Creates, boots and stops machines. Other modules handle switches, images and keys."""

    @property
    def ready_within_s(self) -> float:
        """Maximum time from power-on until a machine is ready."""

    @property
    def poll_s(self) -> float:
        """Interval for polling a booting machine."""

    @property
    def boots_at_once(self) -> int:
        """Maximum number of machines to boot at the same time."""

    def create(self, state: LabState, node: Node) -> None:
        """Create the disk and switch ports of a node that is off; idempotent."""

    def destroy(self, lab: str, node: str) -> None:
        """Remove the disk and everything else of a node that is off; idempotent."""

    def sees_disk(self, node: Node) -> bool:
        """Return whether ``disk`` can be used now."""

    def disk(self, lab: str, node: Node) -> AbstractContextManager[Path]:
        """Return the node's file system as a folder on the host.

        Raises:
            LabError: the file system is not accessible while the machine runs.
        """

    def power_on(self, state: LabState, node: Node, save: Callable[[], None]) -> None:
        """Start the machine; do not wait until it is ready.

        Set ``node.process`` and call ``save`` before starting a process that can outlive this
        program.
        """

    def power_off(self, lab: str, node: Node) -> None:
        """Power off without shutdown or sync. Set ``node.process`` to None; idempotent."""

    def running(self, node: Node) -> bool:
        """Return whether the machine is powered on."""

    def console(self, lab: str, node: Node, command: Sequence[str]) -> list[str]:
        """Return the arguments to run a command as root in the machine without its network."""
