"""Operations of the role boot_loader."""

from __future__ import annotations

import shlex

from pyinfra import host

from lockstep.facts.boot import boot_entries, in_grub, menu_is_due
from lockstep.plan import NodePlan
from lockstep.question import Unreadable
from lockstep.roles.operations.operation import Commands, CommandsOrReason, ask, operation

OURS = ("hugepagesz", "hugepages", "irqaffinity", "rcu_nocbs", "nohz_full", "isolcpus")
"""Keys of kernel arguments that only Lockstep sets; ``entries`` removes any that the plan lacks."""


@operation()
def menu(files: tuple[str, ...], args: tuple[str, ...]) -> CommandsOrReason:
    """Run update-grub if the next boot would lack an argument or a file is newer than the menu.

    Args:
        files: the drop-ins in /etc/default/grub.d.
        args: kernel arguments that the next boot must have.
    """
    if not files:
        return "the plan has no kernel arguments for this node"
    try:
        due = ask(menu_is_due(files, args))
    except Unreadable:
        # In a preview the drop-in is not written yet, and the new menu may be readable.
        if host.state.is_executing:
            raise
        due = True
    if due:
        yield "update-grub"
    return "the boot loader has the planned arguments"


@operation("every boot entry has the planned arguments")
def entries(args: tuple[str, ...]) -> Commands:
    """Run grubby if a boot entry, or the default for later kernels, differs from the plan.

    Args:
        args: kernel arguments that the next boot must have, in this order: grubby removes all
            arguments with the same keys, then appends these.
    """
    present = ask(boot_entries())
    wanted = {_key(argument) for argument in args}
    keys = wanted | set(OURS)
    if all(tuple(a for a in entry if _key(a) in keys) == args for entry in present):
        return
    found = {_key(argument) for entry in present for argument in entry}
    gone = [key for key in OURS if key in found - wanted]
    options = [f"--remove-args={shlex.quote(' '.join(gone))}"] if gone else []
    if args:
        options.append(f"--args={shlex.quote(' '.join(in_grub(argument) for argument in args))}")
    yield f"grubby --update-kernel=ALL {' '.join(options)}"


def _key(argument: str) -> str:
    return argument.partition("=")[0]


def afterwards(plan: NodePlan) -> None:
    """Write the kernel arguments where this system's boot loader reads them."""
    args = plan.system.kernel_args
    if plan.release.boot_loader == "grub_drop_in":
        menu(name="Menu", files=plan.system.paths("boot_loader"), args=args)
    elif plan.hardware.hardware.boot_loader != "none":
        entries(name="Entries", args=args)
