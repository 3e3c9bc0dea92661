"""Operations of the role selinux."""

from __future__ import annotations

import shlex

from pyinfra import host
from pyinfra.api import StringCommand

from lockstep.facts.selinux import ABSENT, SelinuxState, selinux_state
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.selinux import GPU_BOOLEAN, POLICY
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.operation import CommandsOrReason, ask, operation

ON = {"running": "on", "persisted": "on"}
OFF = "SELinux is disabled until the next boot"


@operation()
def files(plan: NodePlan) -> CommandsOrReason:
    """Write the files, unless the node would not boot with them.

    Args:
        plan: the plan of the node.
    """
    why = unsafe(plan.selinux.mode, ask(selinux_state(plan.selinux)))
    if why:
        yield _fails(f"{plan.name}: {why}")
        return ""
    yield from managed_files._inner(files=managed(plan, None, "selinux"))
    return "every file of this role is as planned"


def unsafe(mode: str, state: SelinuxState) -> str:
    """Return why a node must not get the planned mode; "" if it may.

    Args:
        mode: the planned mode.
        state: what the node has.
    """
    if state.policy not in (POLICY, ABSENT):
        return (
            f"the policy of the node is {state.policy}, and Lockstep knows labels and modules of "
            f"{POLICY} only, so nothing was written. Next: leave os.selinux out of the inventory"
        )
    if state.running == "disabled" and mode == "enforcing":
        # Red Hat, Using SELinux, 2.1: files without labels can keep a system from booting.
        return (
            "SELinux is disabled, so the node's files have no labels, and it may not boot in "
            'enforcing mode; nothing was written. Next: set os.selinux to "permissive", deploy and '
            "reboot (the boot labels all files), read ausearch -m avc, then set it to "
            '"enforcing" and deploy again'
        )
    return ""


@operation()
def policy(plan: NodePlan) -> CommandsOrReason:
    """Load the planned modules, and unload those of Lockstep that the plan no longer has.

    semodule links a module with the whole policy first; if that fails, the old policy stays.

    Args:
        plan: the plan of the node.
    """
    wanted, state = plan.selinux.loaded, ask(selinux_state(plan.selinux))
    sums = {file.path: file.sha256 for file in managed(plan, None, "selinux")}
    load = [path for name, path in wanted.items() if state.modules[name] != sums[path]]
    over = [name for name, found in state.modules.items() if found != ABSENT and name not in wanted]
    words = [f"-i {shlex.quote(path)}" for path in load] + [f"-r {shlex.quote(n)}" for n in over]
    if words:
        yield f"semodule {' '.join(words)}"
    return "the policy has the planned modules"


@operation()
def booleans(plan: NodePlan) -> CommandsOrReason:
    """Turn the planned booleans on, now and for later boots.

    Args:
        plan: the plan of the node.
    """
    found = ask(selinux_state(plan.selinux)).booleans
    lacking = [name for name, value in found.items() if value["running"] == ABSENT]
    if lacking:
        yield _fails(
            f"{plan.name}: the policy has no boolean {', '.join(lacking)}. Next: update "
            f"container-selinux (2.232.0 and later has {GPU_BOOLEAN}), and deploy again"
        )
        return ""
    off = [shlex.quote(f"{name}=on") for name, value in found.items() if value != ON]
    if off:
        yield f"setsebool -P {' '.join(off)}"
    return "the planned booleans are on" if found or not plan.selinux.booleans else OFF


@operation()
def labels(plan: NodePlan) -> CommandsOrReason:
    """Give files and folders of munge and Slurm the labels of the node's policy.

    Args:
        plan: the plan of the node.
    """
    found = ask(selinux_state(plan.selinux)).labels
    wrong = [
        path for path, kind in found.items() if kind not in (ABSENT, plan.selinux.labels[path])
    ]
    if wrong:
        yield f"restorecon -- {shlex.join(wrong)}"
    return "files have their labels" if found or not plan.selinux.labels else OFF


@operation()
def running_mode(plan: NodePlan) -> CommandsOrReason:
    """Set the running mode; what jobs do is denied only from a time on at which none runs.

    Args:
        plan: the plan of the node.
    """
    mode, state = plan.selinux.mode, ask(selinux_state(plan.selinux))
    if state.running == mode:
        return f"SELinux is {mode}"
    if state.running == "disabled":
        why = f"{OFF}. Next: remove the kernel argument selinux=0, if any, and reboot the node"
    elif mode == "enforcing" and state.job_steps:
        why = "SELinux stays permissive while a job step runs. Next: deploy again when none does"
    else:
        yield f"setenforce {1 if mode == 'enforcing' else 0}"
        return ""
    host.log_styled(why, fg="yellow")
    return why


def _fails(why: str) -> StringCommand:
    return StringCommand("cat >&2; exit 1", _stdin=why)


def apply(plan: NodePlan) -> None:
    """Write the files, then change the policy; the mode comes last."""
    files(name="Files", plan=plan)
    policy(name="Policy modules", plan=plan)
    booleans(name="Booleans", plan=plan)
    labels(name="Labels", plan=plan)
    running_mode(name="Running mode", plan=plan)
