"""The operation that brings kernel arguments from their drop-ins into the boot loader."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation

from lockstep.facts.boot import BootLoaderStale


@operation()
def boot_loader(files: tuple[str, ...]) -> Generator[str, None, None]:
    """Run update-grub when a drop-in is newer than grub.cfg. In force after the next reboot.

    Args:
        files: drop-ins of /etc/default/grub.d.
    """
    if not files:
        host.noop("no kernel arguments on this node")
    elif host.get_fact(BootLoaderStale, files=files):
        yield "update-grub"
    else:
        host.noop("the boot loader has the arguments")
