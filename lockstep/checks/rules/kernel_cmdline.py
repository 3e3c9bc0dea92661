"""All nodes of a hardware class were booted with the same kernel arguments.

Why      A left-over debugging argument slows one node, and with it every job it takes part in.
Blind    What is equal on all nodes and wrong: kernel.args holds the plan against it.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._boot import own_kernel

OWN = ("BOOT_IMAGE", "root", "initrd", "resume", "rd.luks.uuid", "ip")
"""Arguments that differ between machines by nature."""


def _look(view: View) -> Items:
    line = view.read("kernel.cmdline")
    if not isinstance(line, list):
        return {"": line}
    return {"": [word for word in line if str(word).partition("=")[0] not in OWN]}


RULE = Rule(
    id="kernel.cmdline",
    title="one kernel command line per hardware class",
    reading="kernel.cmdline",
    look=_look,
    peers=Peers.CLASS,
    show=lambda value: " ".join(map(str, value)) if isinstance(value, list) else str(value),
    applies=own_kernel,
    repair_peers="compare /etc/default/grub and grub.d of {node} with its peers, then reboot it",
    explained_by=(Cause("kernel.args"), Cause("kernel.args_foreign")),
    source="proc_cmdline(5)",
)
