"""Rules about the kernel that runs, the kernel that boots next, and their arguments."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.cause import UNREAD, Cause, Effect
from lockstep.checks.context import Items, View
from lockstep.checks.objects import Object, ObjectKind
from lockstep.checks.repair import (
    DEPLOY,
    REBOOT,
    Pending,
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Look,
    Peers,
    Rule,
    Text,
    default,
    same,
)
from lockstep.checks.rules._boot import (
    DROP_IN,
    NEXT,
    RUNNING,
    STARTED_SO,
    given,
    key,
    own_kernel,
    started_otherwise,
    waiting_argument,
)
from lockstep.plan.reboot import absent
from lockstep.probe.record import Unread

NOT_ON_DISK = "not on disk"


def _args_items(view: View) -> Items:
    line = view.read(RUNNING)
    if isinstance(line, Unread):
        return {"": line}
    return {"": list(absent(view.plan.kernel_args, given(view, RUNNING)))}


def _args_pending(view: View, device: str) -> bool:
    known = isinstance(view.read(NEXT), list)
    return known and not absent(view.plan.kernel_args, given(view, NEXT))


def _args_words(seen: JsonValue, expected: JsonValue) -> tuple[str, str]:
    missing = " ".join(str(word) for word in seen) if isinstance(seen, list) else str(seen)
    return f"not in force: {missing}", missing


OWNED = (
    *("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"),
    *("hugepages", "hugepagesz", "default_hugepagesz"),
)
"""Keys that only the plan sets (spec/validate_hardware.py refuses them in ``kernel_args``)."""


def _args_foreign_items(view: View) -> Items:
    planned = view.plan.kernel_args
    running, later = (
        [word for word in given(view, line) if key(word) in OWNED and word not in planned]
        for line in (RUNNING, NEXT)
    )
    items: Items = {}
    for word in (*running, *later):
        if word in running:
            items[word] = "in force" + (" and at the next boot" if word in later else "")
        else:
            items[word] = "at the next boot"
    for line in (RUNNING, NEXT):
        if isinstance(value := view.read(line), Unread):
            items[""] = value
    return items


def _args_foreign_tags(view: View, word: str) -> frozenset[str]:
    """Return the command lines where it replaces a planned argument."""
    planned = view.plan.kernel_args
    return frozenset(
        line
        for line in (RUNNING, NEXT)
        if word in given(view, line) and key(word) in map(key, absent(planned, given(view, line)))
    )


LOST = "lost at the next boot"


def _args_persisted_items(view: View) -> Items:
    line = view.read(NEXT)
    if isinstance(line, Unread):
        return {"": line}
    return {"": " ".join(absent(view.plan.kernel_args, given(view, NEXT)))}


OWN = ("BOOT_IMAGE", "root", "initrd", "resume", "rd.luks.uuid", "ip")
"""Arguments that are different on every machine."""


def _cmdline_items(view: View) -> Items:
    line = view.read("kernel.cmdline")
    if not isinstance(line, list):
        return {"": line}
    return {"": [word for word in line if str(word).partition("=")[0] not in OWN]}


KEYS = ("processor.max_cstate", "intel_idle.max_cstate")


RULES = (
    Rule(
        id="kernel.args",
        claim="Every planned kernel argument is in force.",
        why="CPU isolation and huge pages start at boot; a job cannot get them later.",
        blind=(
            "Arguments that the description does not declare: kernel.args_foreign judges those "
            "with the plan's keys, kernel.cmdline compares the others with the peers."
        ),
        source="kernel documentation, admin-guide/kernel-parameters",
        reading=RUNNING,
        look=Look(_args_items),
        expected=same([]),
        text=Text(words=_args_words),
        repair=by_role(
            "boot_loader",
            f"{DEPLOY}, then {REBOOT}",
            pending=Pending(
                _args_pending,
                "The argument is in the boot loader's configuration and waits for a reboot.",
            ),
        ),
        tags=lambda view, device: frozenset(() if _args_pending(view, device) else (NOT_ON_DISK,)),
        applies=lambda view: own_kernel(view) and bool(view.plan.kernel_args),
        # Not while they wait for a reboot: a changed file does not cause that.
        explained_by=(Cause("file.content", device=DROP_IN, of=Effect(tag=NOT_ON_DISK)),),
    ),
    Rule(
        id="kernel.args_foreign",
        claim="No other source sets a kernel argument that the plan sets.",
        why="Left-over isolation takes CPUs or memory from jobs and survives each deploy.",
        blind="Arguments with other keys: kernel.cmdline compares those with the peers.",
        source="kernel documentation, admin-guide/kernel-parameters",
        reading=RUNNING,
        look=Look(_args_foreign_items),
        expected=same(""),
        text=Text(words=lambda seen, expected: (str(seen), "not in the plan")),
        # deploys/reboot.py reboots for missing arguments, not for extra ones.
        repair=by_hand(
            (
                "on {node}: remove {device} from /etc/default/grub or the file of grub.d that "
                "adds it, then update-grub (with grubby: grubby --update-kernel=ALL "
                "--remove-args={device}); reboot {node} when it is idle"
            ),
            pending=Pending(
                lambda view, word: (
                    isinstance(view.read(NEXT), list) and word not in given(view, NEXT)
                ),
                "The argument is gone from the boot loader's menu and a reboot ends it.",
                repair="reboot {node} when it is idle",
            ),
        ),
        tags=_args_foreign_tags,
        objects=lambda view, word: (Object(ObjectKind.KERNEL_ARGUMENT, word),),
        applies=own_kernel,
        explained_by=(
            Cause("kernel.args", of=Effect(tag=RUNNING)),
            Cause("kernel.args_persisted", of=Effect(tag=NEXT)),
            Cause("kernel.args", of=UNREAD),
            Cause("kernel.args_persisted", of=UNREAD),
        ),
    ),
    Rule(
        id="kernel.args_persisted",
        claim="The next boot has every planned kernel argument.",
        why=(
            "Isolation that runs today and is missing in the boot loader's menu ends with the "
            "next reboot, on one node."
        ),
        blind="Other entries of the menu. Arguments that somebody adds while the machine boots.",
        source="kernel documentation, admin-guide/kernel-parameters; grub-mkconfig(8)",
        reading=NEXT,
        look=Look(_args_persisted_items),
        expected=same(""),
        text=Text(words=lambda seen, expected: (f"not at the next boot: {seen}", str(seen))),
        repair=by_role("boot_loader"),
        tags=lambda view, device: frozenset({LOST}),
        applies=lambda view: own_kernel(view) and bool(view.plan.kernel_args),
        explained_by=(
            Cause("file.content", device=DROP_IN, of=Effect(tag=LOST)),
            Cause("kernel.args", of=Effect(tag=LOST)),
        ),
    ),
    Rule(
        id="kernel.cmdline",
        claim="All nodes of a hardware class booted with the same kernel arguments.",
        why="A left-over debugging argument slows one node and every job on it.",
        blind="Wrong arguments on all nodes: kernel.args compares them with the plan.",
        source="proc_cmdline(5)",
        reading="kernel.cmdline",
        look=Look(_cmdline_items),
        peers=Peers.CLASS,
        text=Text(
            lambda value: " ".join(map(str, value)) if isinstance(value, list) else str(value)
        ),
        repair=by_hand(
            peers="compare /etc/default/grub and grub.d of {node} with its peers, then reboot it"
        ),
        applies=own_kernel,
        explained_by=(Cause("kernel.args"), Cause("kernel.args_foreign")),
    ),
    Rule(
        id="kernel.max_cstate",
        claim="Idle CPUs enter no deeper C-state than declared.",
        why=(
            "A CPU needs tens of microseconds to leave a deep C-state, and each message waits "
            "for it."
        ),
        blind=(
            "States that the firmware enters by itself. Limits of single states (cpuidle/state*)."
        ),
        source="kernel documentation, admin-guide/pm/intel_idle",
        reading="kernel.max_cstate",
        expected=same(lambda view: view.plan.hardware.hardware.kernel.max_cstate),
        text=Text(lambda value: f"C{value}"),
        repair=waiting_argument(*KEYS),
        tags=lambda view, device: started_otherwise(view, *KEYS),
        applies=lambda view: view.plan.hardware.hardware.kernel.max_cstate is not None,
        explained_by=STARTED_SO,
    ),
    Rule(
        id="kernel.newest",
        claim="The running kernel is the newest installed one.",
        why="The next boot brings another kernel to this node alone, with other modules and speed.",
        blind="Kernels of another flavour. A boot loader that starts an older kernel on purpose.",
        source="uname(2); names of /boot/vmlinuz-*",
        reading="kernel.release",
        expected=default("kernel.newest"),
        severity=WARNING,
        repair=by_hand(
            DEPLOY,
            pending=Pending(
                lambda view, device: True,
                repair="reboot {node} when it is idle, or remove the kernel {expected}",
            ),
        ),
        applies=own_kernel,
        explained_by=(Cause("kernel.release"),),
    ),
    Rule(
        id="kernel.release",
        claim="All nodes of a hardware class run the same kernel.",
        why="Drivers are built for one kernel, and two kernels schedule the same job differently.",
        blind="A new kernel that is installed everywhere and runs nowhere.",
        source="uname(2)",
        reading="kernel.release",
        peers=Peers.CLASS,
        repair=by_hand(
            "reboot {node} into {expected} when it is idle (install that kernel if it is missing)",
            peers="reboot {node} into {expected} when it is idle (install it if it is missing)",
        ),
    ),
)
