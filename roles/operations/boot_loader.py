"""Operations of the role boot_loader."""

from __future__ import annotations

import shlex
from collections.abc import Generator

from pyinfra import host

from lockstep.facts.boot import BootEntries, BootLoader, in_grub
from lockstep.files import paths
from lockstep.plan import NodePlan
from lockstep.plan.reboot import absent
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.operation import operation

OURS = ("hugepagesz", "hugepages", "irqaffinity", "rcu_nocbs", "nohz_full", "isolcpus")
"""Keys that only the plan sets: where it has them no more, they are taken away (entries)."""


@operation()
def menu(files: tuple[str, ...], args: tuple[str, ...]) -> Generator[str, None, None]:
    """Run update-grub when the menu lacks an argument or is older than what it is made from.

    Args:
        files: drop-ins of /etc/default/grub.d.
        args: kernel arguments that the next boot must have.
    """
    if not files:
        host.noop("no kernel arguments on this node")
        return
    state = host.get_fact(BootLoader, files=files)
    if state.stale or absent(args, state.args):
        yield "update-grub"
    else:
        host.noop("the boot loader has the arguments")


@operation()
def entries(args: tuple[str, ...]) -> Generator[str, None, None]:
    """Run grubby when an entry, or what later kernels get, has other arguments of our keys.

    Args:
        args: kernel arguments that the next boot must have, in this order: grubby takes all
            arguments of the same keys out, then appends these as they stand.
    """
    present = host.get_fact(BootEntries)
    if not present:
        # A command that fails, not an exception: only this node stops.
        yield "echo 'grubby names no entry: no boot loader that it manages' >&2; exit 1"
        return
    wanted = {_key(argument) for argument in args}
    keys = wanted | set(OURS)
    if all(tuple(a for a in entry if _key(a) in keys) == args for entry in present):
        host.noop("every entry has the arguments")
        return
    found = {_key(argument) for entry in present for argument in entry}
    gone = [key for key in OURS if key in found - wanted]
    options = [f"--remove-args={shlex.quote(' '.join(gone))}"] if gone else []
    if args:
        options.append(f"--args={shlex.quote(' '.join(in_grub(argument) for argument in args))}")
    yield f"grubby --update-kernel=ALL {' '.join(options)}"


def _key(argument: str) -> str:
    return argument.partition("=")[0]


def apply(plan: NodePlan) -> None:
    """Bring the kernel arguments to where this system's boot loader reads them."""
    args = plan.kernel_args
    if plan.cluster.release.boot_loader == "grub_drop_in":
        put_files(plan, "boot_loader")
        menu(name="Menu", files=paths(plan, "boot_loader"), args=args)
    elif plan.hardware.hardware.boot_loader != "none":
        entries(name="Entries", args=args)
